# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A slice as FABRIC's graph, made by fablib without a network and validated by its information model.

The orchestrator begins with the same validation, so a slice that passes here passes there. What fablib would
configure on booted machines (addresses, routes, packages) is left out: it ignores failures. Roles do it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from platformdirs import user_cache_path

from l4sbench.disk.assets import install_command
from l4sbench.errors import InputError, TestbedError

if TYPE_CHECKING:
    from fablib_slices.spec import SliceSpec

FIM_LOCK: Final = threading.RLock()
"""Lock for the information model's graph store, of which a process has one that is not thread-safe."""

ANY_SITE: Final = "STAR"
"""Site for planning a slice without a site; it has every kind of component."""


def offered_nics() -> frozenset[str]:
    """Return the component models that machines can have."""
    return frozenset(library_constants().COMPONENT_MODELS)


def size_of(asked: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return cores, memory and disk, GB, of the machine that FABRIC makes for these.

    FABRIC rounds up to one of its sizes; this returns the largest if none suffices.
    """
    fablib_module()
    from fim.slivers.capacities_labels import Capacities
    from fim.slivers.instance_catalog import InstanceCatalog

    cores, ram_gb, disk_gb = asked
    catalog = InstanceCatalog()
    name = catalog.map_capacities_to_instance(cap=Capacities(core=cores, ram=ram_gb, disk=disk_gb))
    made = catalog.get_instance_capacities(instance_type=name)
    return int(made.core), int(made.ram), int(made.disk)


def slice_graph(spec: SliceSpec) -> str:
    """Return the slice as validated GraphML; use no network.

    Raises:
        InputError: FABRIC's information model refuses it; the message is the model's.
    """
    fablib = offline_fablib()
    site = ANY_SITE if spec.site == "auto" else spec.site
    with FIM_LOCK:
        try:
            made = fablib.new_slice(name=spec.name)
            topology = made.get_fim_topology()
            with kept_short(topology):
                _fill(made, spec, site)
                topology.validate()
                graph = topology.serialize()
        except Exception as error:  # all errors of the libraries are about the slice
            raise InputError(f"FABRIC's model refuses slice {spec.name}: {error}") from error
    return str(graph)


@contextlib.contextmanager
def kept_short(topology: Any) -> Iterator[None]:
    """Remove a topology from the model's store afterwards.

    The store would keep it for the life of the process and search it in every query about others.
    """
    try:
        yield
    finally:
        topology.graph_model.delete_graph()


def _fill(made: Any, spec: SliceSpec, site: str) -> None:
    """Add machines, switches and networks of the slice, in the spec's order."""
    nodes: dict[str, Any] = {}
    spare: dict[tuple[str, str], list[Any]] = {}
    for vm in spec.vms:
        nodes[vm.name] = made.add_node(
            name=vm.name,
            site=vm.site or site,
            cores=vm.cores,
            ram=vm.ram_gb,
            disk=vm.disk_gb,
            image=vm.image,
            user_data={"role": vm.role, "spec": spec.digest, "topology": spec.topology},
        )
    for switch in spec.switches:
        nodes[switch.name] = made.add_switch(name=switch.name, site=site)
        ports = _in_order(nodes[switch.name])
        spare |= {(switch.name, net.nic): ports for net in spec.nets}
    for net in spec.nets:
        ports = []
        for node in net.nodes:
            own = spare.setdefault((node, net.nic), [])
            if not own:
                own += _in_order(nodes[node].add_component(model=net.nic, name=net.name))
            ports.append(own.pop(0))
        made.add_l2network(name=net.name, interfaces=ports, type="L2STS" if spec.crosses(net) else None)


def _in_order(part: Any) -> list[Any]:
    """Return the ports of a switch or of a card by their names; the library returns them in any order."""
    return sorted(part.get_interfaces(), key=lambda port: str(port.get_name()))


def networks_of(topology: Any) -> dict[str, str]:
    """Return the network of every port that is on one, by the port's id in the graph.

    A card may have ports on two networks, so neither its name nor its position names the network.
    """
    return {
        port.node_id: name
        for name, network in topology.network_services.items()
        if network.type.name.startswith(("L2", "FABNet"))
        for end in network.interface_list
        for port in end.get_peers() or ()
    }


def offline_fablib() -> Any:
    """Return a fablib manager without an account or a network.

    Raises:
        TestbedError: fablib is not installed.
    """
    manager = fablib_module().FablibManager
    scratch = scratch_folder()
    nothing = str(scratch / "none")
    with quiet():
        return manager(
            offline=True,
            validate_config=False,
            no_ssh=True,
            project_id="0" * 8,
            bastion_username="nobody",
            fabric_rc=nothing,
            token_location=nothing,
            log_file=str(scratch / "fablib.log"),
            data_dir=str(scratch),
        )


def scratch_folder() -> Path:
    """Return the folder for fablib's files, which only this user can read."""
    folder = user_cache_path("l4sbench", appauthor=False) / "fablib"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def library_constants() -> Any:
    """Return the constants of fablib."""
    fablib_module()
    from fabrictestbed_extensions.fablib.constants import Constants

    return Constants


def fablib_module() -> Any:
    """Import fablib and return it."""
    try:
        from fabrictestbed_extensions.fablib import fablib

        # warnings that matter return as errors
        logging.getLogger("fabric").addHandler(logging.NullHandler())
    except ImportError as error:
        raise TestbedError(
            f"slices need fablib, which is not installed here ({error.name})",
            install_command("fabric"),
        ) from error
    return fablib


class _Quiet:
    """Count of threads inside `quiet`; the last one to leave restores stdout."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._redirect: contextlib.redirect_stdout[io.StringIO] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._redirect is None:
                self._redirect = contextlib.redirect_stdout(io.StringIO())
                self._redirect.__enter__()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._redirect is not None:
                self._redirect.__exit__(None, None, None)
                self._redirect = None


_QUIET: Final = _Quiet()


def quiet() -> contextlib.AbstractContextManager[None]:
    """Keep fablib's output out of stdout, which is for the answer; in any number of threads."""
    return _QUIET
