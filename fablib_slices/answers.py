# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parsers of FABRIC's answers: slices, machines and their ports, sites, notices, errors."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fablib_slices.graph import FIM_LOCK, kept_short, networks_of
from fablib_slices.images import user_of
from fablib_slices.pinning import CardPlace
from fablib_slices.redaction import redacted
from fablib_slices.room import Site, SiteHost

TIME_FORMAT: Final = "%Y-%m-%d %H:%M:%S %z"

_FRONT: Final = re.compile(r".*p([1-9][0-9]?)")
"""Names of a switch's interfaces, which have no other sign of their front ports (fablib reads them, too)."""

READY: Final = frozenset({"StableOK", "ModifyOK"})
BROKEN: Final = frozenset({"StableError", "ModifyError", "AllocatedError"})
GONE: Final = frozenset({"Closing", "Dead"})


@dataclass(frozen=True)
class Machine:
    """A machine of a slice, or its switch.

    Attributes:
        name: The topology's node.
        role: Its role in the topology.
        site: Its FABRIC site.
        address: Its management address, IPv4 or IPv6; None until it has one.
        user: The user of its image.
        ports: Network -> MAC address, as far as assigned; of a switch, its front port such as `1/0`.
        switch: True for a programmable switch.
        place: Its place in its host; None before it is reserved.
    """

    name: str
    role: str
    site: str
    address: str | None
    user: str
    ports: tuple[tuple[str, str], ...]
    switch: bool = False
    place: CardPlace | None = None


@dataclass(frozen=True)
class Slice:
    """A slice as the orchestrator knows it.

    `digest` is that of the spec it was made from; None when l4sbench did not make it. `notices` are FABRIC's
    reasons for failed parts.
    """

    id: str
    name: str
    state: str
    lease_end: datetime
    digest: str | None
    machines: tuple[Machine, ...]
    notices: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """Return True if all of it is ready."""
        return self.state in READY


def time_of(text: str) -> datetime:
    """Parse an instant as FABRIC writes it."""
    return datetime.strptime(text, TIME_FORMAT).astimezone(UTC)


def said_in(error: BaseException) -> str:
    """Return the details in an error of FABRIC, without the HTTP code around them and without secrets."""
    text = str(error)
    start = text.find("{")
    if start >= 0:
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            text = str(json.loads(text[start:])["errors"][0]["details"])
    return redacted(text) or type(error).__name__


_TOKEN: Final = re.compile(r"token|\b401\b", re.IGNORECASE)
_UNREACHED: Final = re.compile(
    r"Max retries exceeded with url|Connection aborted|Read timed out", re.IGNORECASE
)


def about_token(said: str) -> bool:
    """Return True if a message of FABRIC is about the account's token."""
    return bool(_TOKEN.search(said)) and not about_network(said)


def about_network(said: str) -> bool:
    """Return True if a message says that FABRIC was not reached; it quotes the URL, which may say `token`."""
    return bool(_UNREACHED.search(said))


def tags_of(claims: dict[str, Any], project: str | None) -> tuple[str, ...]:
    """Return the permissions of a project that a token contains."""
    projects = claims.get("projects") or []
    own = [one for one in projects if project in (None, one.get("uuid"))] or projects
    return tuple(sorted(own[0].get("tags") or ())) if own else ()


def sites_of(summary: dict[str, Any], avoided: Collection[str] = ()) -> tuple[Site, ...]:
    """Return the sites of a summary of resources; free is capacity minus what is allocated."""
    hosts: dict[str, list[SiteHost]] = {}
    for host in summary.get("hosts") or ():
        hosts.setdefault(str(host.get("site")), []).append(_host_of(host))
    return tuple(
        _site_of(site, tuple(hosts.get(str(site["name"]), ())), avoided)
        for site in summary.get("sites") or ()
    )


def _site_of(site: dict[str, Any], hosts: tuple[SiteHost, ...], avoided: Collection[str]) -> Site:
    name = str(site["name"])
    return Site(
        name=name,
        active=str(site.get("state", "Active")) == "Active",
        cores=_free(site, "cores_"),
        ram_gb=_free(site, "ram_"),
        disk_gb=_free(site, "disk_"),
        components=_free_components(site),
        switches=sum(_free(switch) for switch in site.get("p4_switches") or ()),
        ipv4_management=bool(site.get("ipv4_management")),
        avoided=name in avoided,
        hosts=hosts,
    )


def _host_of(host: dict[str, Any]) -> SiteHost:
    """Return a host; one that is not active has room for nothing."""
    name = str(host.get("name"))
    if str(host.get("state", "Active")) != "Active":
        return SiteHost(name, 0, 0, 0, {})
    return SiteHost(
        name, _free(host, "cores_"), _free(host, "ram_"), _free(host, "disk_"), _free_components(host)
    )


def _free_components(where: dict[str, Any]) -> dict[str, int]:
    return {name: _free(counts) for name, counts in (where.get("components") or {}).items()}


def _free(counts: dict[str, Any], prefix: str = "") -> int:
    """Return a capacity minus what is allocated of it; no capacity is none."""
    return int(counts.get(f"{prefix}capacity") or 0) - int(counts.get(f"{prefix}allocated") or 0)


def notices_of(slivers: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the causes of failures, without consequences in other parts."""
    said = {redacted(str(sliver.get("notice") or "")) for sliver in slivers} - {"", "None"}
    causes = {text for text in said if "Closing reservation due to failure in slice" not in text}
    return tuple(sorted(causes or said))


def machines_of(model: str | None, images: Mapping[str, str]) -> tuple[str | None, tuple[Machine, ...]]:
    """Return the spec's digest that a graph carries, and its machines; `images` are images' users."""
    if not model:
        return None, ()
    from fim.user.topology import ExperimentTopology

    with FIM_LOCK:
        topology = ExperimentTopology(graph_string=model)
        with kept_short(topology):
            networks = networks_of(topology)
            found = [_machine(name, node, networks, images) for name, node in topology.nodes.items()]
    digests = {digest for digest, _ in found if digest}
    machines = tuple(machine for _, machine in found if machine)
    return (digests.pop() if len(digests) == 1 else None), machines


def addresses_of(slivers: list[dict[str, Any]]) -> dict[str, str]:
    """Return the management addresses that slivers have, by machine."""
    own = [sliver.get("sliver") or {} for sliver in slivers]
    return {str(one["Name"]): str(one["MgmtIp"]) for one in own if one.get("Name") and one.get("MgmtIp")}


def _machine(
    name: str, node: Any, networks: Mapping[str, str], images: Mapping[str, str]
) -> tuple[str | None, Machine | None]:
    """Return the digest that a node carries, and its machine; None for what is neither that nor a switch."""
    data = _user_data(node)
    digest = data.get("spec")
    is_switch = node.type.name == "Switch"
    if node.type.name != "VM" and not is_switch:
        return digest, None
    ports = [
        (networks[port.node_id], str(mac).lower())
        for component in node.components.values()
        for port in component.interface_list
        if port.node_id in networks and (mac := getattr(port.get_property("label_allocations"), "mac", None))
    ]
    if is_switch:
        ports = [
            (networks[port.node_id], f"{front[1]}/0")
            for port in node.interface_list
            if port.node_id in networks and (front := _FRONT.fullmatch(str(port.name)))
        ]
    return digest, Machine(
        name=name,
        role=str(data.get("role", "")),
        site=str(node.site),
        address=str(node.management_ip) if node.management_ip else None,
        user=_switch_user() if is_switch else user_of(str(node.image_ref or "").split(",")[0], images),
        ports=tuple(sorted(ports)),
        switch=is_switch,
        place=None if is_switch else _place(node),
    )


def _place(node: Any) -> CardPlace | None:
    """Return a machine's place in its host, as far as FABRIC has written it to the graph."""
    labels, reservation = node.get_property("label_allocations"), node.get_property("reservation_info")
    if reservation is None:
        return None
    numa = []
    for component in node.components.values():
        of_card = getattr(component.get_property("label_allocations"), "numa", None) or ()
        numa += [of_card] if isinstance(of_card, str) else [str(one) for one in of_card]
    return CardPlace(
        sliver=str(reservation.reservation_id),
        host=str(getattr(labels, "instance_parent", None) or ""),
        instance=str(getattr(labels, "instance", None) or ""),
        numa=tuple(dict.fromkeys(numa)),
        ram_gb=int(getattr(node.get_property("capacities"), "ram", 0) or 0),
    )


def _user_data(node: Any) -> dict[str, Any]:
    """Return the data stored with a node, by us and by fablib."""
    data = getattr(node.user_data, "data", node.user_data)
    return data if isinstance(data, dict) else {}


def _switch_user() -> str:
    from fabrictestbed_extensions.fablib.constants import Constants

    return str(Constants.FABRIC_USER)
