# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Calls that l4sbench makes, or advises, against the signatures of the installed library."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from fablib_slices.access import KEYS_HINT, SLICE_KEY_HINT
from fablib_slices.nics import NICS
from tests.fabric.conftest import StandIn, manager_of

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own

CLIENT: dict[str, dict[str, Any]] = {
    "resources_summary": {"level": 2},
    "list_slices": {"name": "l4s", "exact_match": True, "exclude_states": ["Dead"], "graph_format": "NONE"},
    "get_slice": {"slice_id": "x"},
    "list_slivers": {"slice_id": "x"},
    "create_slice": {
        "name": "l4s",
        "graph_model": "",
        "ssh_keys": [""],
        "lifetime": 24,
        "lease_end_time": "",
    },
    "renew_slice": {"slice_id": "x", "lease_end_time": ""},
    "delete_slice": {"slice_id": "x"},
    "poa": {"sliver_id": "x", "operation": "cpupin", "vcpu_cpu_map": [{"vcpu": "0", "cpu": "1"}]},
    "os_reboot": {"sliver_id": "x"},
    "find_resource_slot": {"start": None, "end": None, "duration": 1, "resources": [], "max_results": 1},
    "list_artifacts": {"search": "x"},
    "create_artifact": {
        "artifact_title": "",
        "description_short": "",
        "description_long": "",
        "authors": [],
        "tags": [],
        "update_existing": False,
    },
    "upload_file_to_artifact": {"file_to_upload": "x", "artifact_id": "x"},
    "tokens_validate": {"id_token": "x"},
    "ensure_valid_id_token": {},
    "get_refresh_token": {},
}
"""Calls of the orchestrator's client, with the arguments that `slices` and `actions` give."""

ACCOUNT = (
    "get_manager",
    "get_os_images",
    "get_avoid",
    "get_project_id",
    "get_bastion_host",
    "get_bastion_username",
    "get_bastion_key_location",
    "get_default_slice_private_key_file",
    "get_default_slice_public_key_file",
)
"""Calls of fablib's own, which take nothing."""


@pytest.mark.parametrize("name", sorted(CLIENT))
def test_the_client_takes_the_arguments_that_it_gets(name: str) -> None:
    from fabrictestbed.fabric_manager_v2 import FabricManagerV2

    inspect.signature(getattr(FabricManagerV2, name)).bind(None, **CLIENT[name])


def test_fablib_has_the_calls_that_are_made_and_advised() -> None:
    from fabrictestbed_extensions.fablib.fablib import FablibManager

    advised = [
        hint.rpartition("FablibManager().")[2].removesuffix("()") for hint in (KEYS_HINT, SLICE_KEY_HINT)
    ]
    for name in (*ACCOUNT, *advised):
        taken = inspect.signature(inspect.getattr_static(FablibManager, name).__get__(object())).parameters
        needed = [
            one.name for one in taken.values() if one.default is one.empty and one.kind < one.VAR_KEYWORD
        ]
        assert not set(needed) - {"args"}, name


def test_cards_are_those_of_the_library() -> None:
    from fabrictestbed_extensions.fablib.component import Component
    from fabrictestbed_extensions.fablib.constants import Constants
    from fim.slivers.component_catalog import ComponentCatalog

    assert set(NICS) <= Constants.COMPONENT_MODELS
    assert {name: set(nic.tags) for name, nic in NICS.items() if nic.tags} == {
        name: {*Constants.COMPONENT_MODEL_TO_TAGS[name], "Component.SmartNIC"}
        for name, nic in NICS.items()
        if nic.tags
    }
    catalog = ComponentCatalog()
    for name, nic in NICS.items():
        made = catalog.generate_component(name="card", model_type=Component.component_model_map[name])
        (service,) = made.network_service_info.network_services.values()
        assert len(service.interface_info.interfaces) == nic.ports, name


def test_the_stand_in_answers_with_the_librarys_types(standin: StandIn) -> None:
    manager = manager_of(standin)
    summary = manager.resources_summary(level=2)
    counted = {name for nic in NICS.values() for name in nic.counted}
    for place in (*summary["sites"], *summary["hosts"]):
        assert all(
            isinstance(place[f"{kind}_{what}"], int)
            for kind in ("cores", "ram", "disk")
            for what in ("capacity", "allocated")
        )
        assert set(place["components"]) <= counted
    assert {host["site"] for host in summary["hosts"]} == {site["name"] for site in summary["sites"]}
    assert isinstance(manager.list_slices(graph_format="NONE"), list)


def test_what_a_machines_place_is_read_from_is_in_the_model() -> None:
    from fim.slivers.capacities_labels import Labels, ReservationInfo

    assert {"instance", "instance_parent", "numa"} <= vars(Labels()).keys()
    assert "reservation_id" in vars(ReservationInfo())
    # what a machine's card is counted under when room is searched, too
    from fabrictestbed_extensions.fablib.fablib import FablibManager

    asked = [{"type": "compute", "components": dict.fromkeys(NICS, 1)}]
    (normal,) = FablibManager._normalize_component_keys(asked)
    counted = {name: nic.counted[0] for name, nic in NICS.items()}
    assert set(normal["components"]) == set(counted.values())
