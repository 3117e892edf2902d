# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Slices planned without a network: real fablib and its information model, no socket allowed."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fablib_slices import SliceFile, known_images, size_of, slice_graph, spec_of
from fablib_slices.answers import machines_of
from fablib_slices.graph import library_constants
from fablib_slices.images import DISTRIBUTIONS, listed_images, user_of
from fablib_slices.spec import DEFAULT_IMAGE, SwitchWishes
from l4sbench.errors import InputError
from l4sbench.testbeds.ssh.images import load_images
from l4sbench.topology import offered, topology

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own
CASES = Path(__file__).parents[1] / "cases" / "slices"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def structure(graph: str) -> dict[str, Any]:
    """Return names, kinds and edges of a graph; ids differ every time."""
    from fim.user.topology import ExperimentTopology

    made = ExperimentTopology(graph_string=graph)
    services = {
        name: {"kind": one.type.name, "ports": sorted(port.name for port in one.interface_list)}
        for name, one in made.network_services.items()
        if one.type.name.startswith("L2")
    }
    nodes = {
        name: {
            "kind": node.type.name,
            "site": node.site,
            "image": str(node.get_property("image_ref")),
            "components": {part: str(component.model) for part, component in sorted(node.components.items())},
        }
        for name, node in made.nodes.items()
    }
    return {"nodes": nodes, "networks": services}


QUICK = {"dumbbell", "line6"}
"""Topologies whose slices have few machines; the graph library's time grows with their square."""


@pytest.mark.parametrize("tofino", [False, True])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in sorted(offered())],
)
def test_every_topology_makes_a_valid_slice(name: str, tofino: bool) -> None:
    switch = topology(name).router if tofino else None
    wishes = SliceFile(
        slice="planned",
        topology=name,
        site="STAR",
        switch=SwitchWishes(node=switch, program="ncf") if switch else None,
    )
    made = structure(slice_graph(spec_of(topology(name), wishes)))
    case = CASES / f"{name}{'-tofino' if switch else ''}.json"
    if os.environ.get("L4SBENCH_UPDATE_CASES"):
        case.parent.mkdir(exist_ok=True)
        case.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    assert made == json.loads(case.read_text())


def test_machines_come_in_the_models_sizes() -> None:
    assert size_of((2, 8, 10)) == (2, 8, 10)  # what is advised to who may have no larger ones
    assert size_of((4, 16, 50)) == (4, 16, 100)
    assert size_of((10, 20, 50)) == (10, 32, 100)
    assert size_of((10_000, 16, 50)) == (64, 256, 1000)


def nodes_kept() -> int:
    """Return the size of the model's store, of which a process has one."""
    from fim.user.topology import ExperimentTopology

    return int(ExperimentTopology().graph_model.storage.graphs.number_of_nodes())


def test_nothing_is_left_in_the_models_store() -> None:
    before = nodes_kept()
    spec = spec_of(topology("line6"), SliceFile(slice="planned", site="STAR"))
    digest, machines = machines_of(slice_graph(spec), known_images())
    assert (digest, len(machines)) == (spec.digest, 6)
    with pytest.raises(InputError):
        slice_graph(replace(spec, nets=(replace(spec.nets[0], nic="GPU_A30"),)))
    assert nodes_kept() == before


def test_what_the_model_refuses_is_bad_input() -> None:
    # the model wants a bridge's machines at one site, with NICs that can be bridged
    wrong = spec_of(topology("line6"), SliceFile(slice="planned", site="STAR", nic="GPU_A30"))
    with pytest.raises(InputError, match="FABRIC's model refuses slice planned"):
        slice_graph(wrong)


def test_networks_between_sites_are_of_another_kind() -> None:
    away = {"UTAH": ("router", "rx-l4s", "rx-classic")}
    spec = spec_of(topology("line6"), SliceFile(slice="planned", site="STAR", sites=away))
    made = structure(slice_graph(spec))
    assert {name: net["kind"] for name, net in made["networks"].items()} == {
        "net-tx": "L2Bridge",
        "net-mid": "L2STS",
        "net-rx": "L2Bridge",
    }
    sites = {name: node["site"] for name, node in made["nodes"].items()}
    assert {name for name, site in sites.items() if site == "UTAH"} == set(away["UTAH"])
    shared = [replace(vm, site="UTAH" if vm.role == "receiver" else "") for vm in spec.vms]
    with pytest.raises(InputError, match="does not support multiple NIC_Basic interfaces"):
        slice_graph(replace(spec, vms=tuple(shared)))


def test_images_are_those_of_fabrics_list() -> None:
    class Fablib:
        """The library's answers: the downloaded list, or its table."""

        def __init__(self, images: object) -> None:
            self.images = images

        def get_os_images(self) -> object:
            return self.images

    new = {"default_debian_13": {"description": "Debian 13", "default_user": "debian"}}
    wrong = {"a": {"default_user": "-oProxyCommand=x"}, "b": {}, "c": "ubuntu", "d": {"default_user": 1}}
    assert listed_images(Fablib({**new, **wrong})) == {"default_debian_13": "debian"}
    # what fablib has where the list cannot be loaded, and what is not a list
    for none in (library_constants().IMAGE_NAMES, ["nothing"]):
        without = listed_images(Fablib(none))
        assert (without["default_ubuntu_24"], without["default_debian_13"]) == ("ubuntu", "debian")
        assert without["default_rocky_10"] == "rocky"
    assert user_of("default_debian_13", {"default_debian_13": "admin"}) == "admin"
    assert user_of("default_debian_14", known_images()) == "debian"


def test_the_image_by_default_and_its_kernel_exist_without_a_network() -> None:
    images = known_images()
    assert DISTRIBUTIONS.keys() <= images.keys()
    entry = next(one for one in load_images() if one.name == "debian-backports")
    assert DISTRIBUTIONS[DEFAULT_IMAGE].name in entry.distributions
    assert entry.packages
    assert {"tcp_prague", "sch_dualpi2"} <= set(entry.offers.builds)
