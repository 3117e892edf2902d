# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Reserving, watching, renewing and removing slices.

fablib's own `Slice` is gone round on purpose: it floors renewals to days, keeps what it knows in a cache,
deletes nodes that do not validate from the topology, and repeats a create whose answer was lost, which then
fails as `already exists` while the slice is up. Below it, the same distribution has a client of the
orchestrator without state (`FabricManagerV2`), which is used here with fablib's configuration and tokens.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fablib_slices.access import Access
from fablib_slices.checks import Facts, Site, site_with_room
from fablib_slices.graph import FIM_LOCK, offered_images, offered_nics, quiet, slice_graph
from l4sbench.errors import InputError, TestbedError

if TYPE_CHECKING:
    from fablib_slices.spec import SliceSpec

TIME_FORMAT: Final = "%Y-%m-%d %H:%M:%S %z"

READY: Final = frozenset({"StableOK", "ModifyOK"})
BROKEN: Final = frozenset({"StableError", "ModifyError", "AllocatedError"})
GONE: Final = frozenset({"Closing", "Dead"})

POLL_S: Final = 20.0
READY_LIMIT_S: Final = 1800.0


@dataclass(frozen=True)
class Machine:
    """A machine of a slice.

    Attributes:
        name: The topology's node.
        role: What it is for.
        site: Where it stands.
        address: Its management address, IPv4 or IPv6; None until it has one.
        user: The user of its image.
        ports: Network -> MAC address, as far as assigned.
    """

    name: str
    role: str
    site: str
    address: str | None
    user: str
    ports: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Slice:
    """A slice as the orchestrator knows it.

    `digest` is that of the spec it was made from; None when l4sbench did not make it. `notices` say what
    went wrong with its parts.
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
        """Whether all of it is there."""
        return self.state in READY


@dataclass(frozen=True)
class Renewal:
    """What came of a renewal: the lease's end as read back, and whether that is what was asked."""

    asked: datetime
    lease_end: datetime

    @property
    def exact(self) -> bool:
        """Whether the lease ends within two minutes of what was asked."""
        return abs(self.lease_end - self.asked) < timedelta(minutes=2)


class Slices:
    """The slices of one project.

    Args:
        manager: A `fabrictestbed.fabric_manager_v2.FabricManagerV2`.
        access: How machines are reached, and the key that they get.
        project: The project's id, or None for the token's.
        images: User of every image by its name.
    """

    def __init__(self, manager: Any, access: Access, project: str | None = None) -> None:
        self._manager = manager
        self._access = access
        self._project = project

    @classmethod
    def connect(cls) -> Slices:
        """With the account that fablib is configured for (fabric_rc, environment, token file).

        Raises:
            TestbedError: fablib is missing, not configured, or FABRIC cannot be reached.
        """
        from fablib_slices.graph import fablib_module

        try:
            with quiet():
                fablib = fablib_module().FablibManager(validate_config=False, no_ssh=True)
                manager = fablib.get_manager()
        except Exception as error:  # the library raises plain exceptions of many kinds
            raise TestbedError(
                f"FABRIC cannot be used: {_said(error)}",
                "is ~/work/fabric_config/fabric_rc there, and its token still good? (portal: tokens)",
            ) from error
        return cls(manager, Access.of(fablib), fablib.get_project_id())

    @property
    def access(self) -> Access:
        """How machines of these slices are reached."""
        return self._access

    def facts(self) -> Facts:
        """What pre-flight checks need to know, asked now.

        Raises:
            TestbedError: FABRIC does not answer.
        """
        claims = self._claims()
        refreshable = bool(self._manager.get_refresh_token()) and self._manager.auto_refresh
        expires = None if refreshable else claims.get("exp")
        return Facts(
            images=offered_images(),
            nics=offered_nics(),
            tags=_tags(claims, self._project),
            sites=self.sites(),
            now=datetime.now(UTC),
            token_expires=datetime.fromtimestamp(int(expires), UTC) if expires else None,
        )

    def sites(self) -> tuple[Site, ...]:
        """All sites with what they have free: capacity minus what is allocated."""
        summary = self._ask("sites", lambda: self._manager.resources_summary(level=2))
        if summary is None:  # the library keeps the reason to itself
            raise TestbedError("FABRIC does not say what its sites have free", "is the token still good?")
        switches = {site["name"]: _free_switches(site) for site in summary.get("sites", ())}
        return tuple(_site(site, switches[site["name"]]) for site in summary.get("sites", ()))

    def find(self, name: str) -> Slice | None:
        """The slice of that name; None when there is none that is not going away."""
        listed = self._ask(
            f"slice {name}",
            lambda: self._manager.list_slices(
                name=name, exact_match=True, exclude_states=sorted(GONE), graph_format="NONE"
            ),
        )
        own = [one for one in listed if one["name"] == name and one["state"] not in GONE]
        return self._whole(own[0]) if own else None

    def up(
        self,
        spec: SliceSpec,
        *,
        limit_s: float = READY_LIMIT_S,
        poll_s: float = POLL_S,
        on_state: Callable[[str], None] = lambda _: None,
        stop: threading.Event | None = None,
    ) -> Slice:
        """The slice, made or adopted, once all of it is there.

        One of the same name is adopted when it was made from the same spec, whoever made it and when; so an
        answer that got lost, or a controller that died, costs nothing.

        Args:
            spec: What it has to be.
            limit_s: How long it may take to become ready.
            poll_s: How often to look.
            on_state: Told the state whenever it changed.
            stop: Set to give up waiting; the slice stays.

        Raises:
            InputError: FABRIC's model refuses the spec, or another slice has the name.
            TestbedError: the reservation failed, with FABRIC's own notices, or took too long.
        """
        found = self.find(spec.name)
        if found is None:
            found = self._create(spec)
        if found.digest != spec.digest:
            raise InputError(
                f"there is a slice {spec.name} that is not this one",
                f"another name, or: l4sbench slice down {spec.name}",
            )
        return self._until_ready(found, limit_s, poll_s, on_state, stop or threading.Event())

    def renew(self, name: str, hours: float) -> Renewal:
        """Let the lease end that many hours from now; read back, as the orchestrator shortens it silently.

        Raises:
            TestbedError: there is no such slice, or FABRIC refuses; it refuses to shorten a lease.
        """
        found = self.find(name)
        if found is None:
            raise TestbedError(f"there is no slice {name}", "l4sbench slice up makes it")
        asked = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)
        self._ask(
            f"renewing {name}",
            lambda: self._manager.renew_slice(slice_id=found.id, lease_end_time=asked.strftime(TIME_FORMAT)),
        )
        return Renewal(asked, self._lease_end(found.id))

    def down(self, name: str) -> bool:
        """Remove a slice; whether there was one."""
        found = self.find(name)
        if found is None:
            return False
        self._ask(f"removing {name}", lambda: self._manager.delete_slice(slice_id=found.id))
        return True

    # ---- below: one call each

    def _create(self, spec: SliceSpec) -> Slice:
        if spec.site == "auto":
            spec = _at_site(spec, self.sites())
        graph = slice_graph(spec)
        end = datetime.now(UTC) + timedelta(hours=spec.hours)
        try:
            self._manager.create_slice(
                name=spec.name,
                graph_model=graph,
                ssh_keys=[self._access.public_key()],
                lifetime=spec.hours,
                lease_end_time=end.strftime(TIME_FORMAT),
            )
        except Exception as error:  # the library raises plain exceptions of many kinds
            # The library repeats a create whose answer it did not get. Only the name tells what came of it.
            found = self.find(spec.name)
            if found is None:
                raise TestbedError(f"FABRIC does not make slice {spec.name}: {_said(error)}") from error
            return found
        found = self.find(spec.name)
        if found is None:
            raise TestbedError(f"FABRIC took slice {spec.name} and does not list it", "try again in a minute")
        return found

    def _until_ready(
        self,
        found: Slice,
        limit_s: float,
        poll_s: float,
        on_state: Callable[[str], None],
        stop: threading.Event,
    ) -> Slice:
        ends = time.monotonic() + limit_s
        state = ""
        while True:
            if found.state != state:
                state = found.state
                on_state(state)
            if found.ready and all(machine.address for machine in found.machines):
                return found
            if found.state in BROKEN | GONE:
                notices = "; ".join(found.notices) or "FABRIC gives no reason"
                raise TestbedError(
                    f"slice {found.name} is {found.state}: {notices}",
                    f"l4sbench slice down {found.name}, then another site or smaller machines",
                )
            if time.monotonic() > ends:
                raise TestbedError(
                    f"slice {found.name} is still {found.state} after {limit_s:.0f} s",
                    f"it stays; l4sbench slice status {found.name} looks again",
                )
            if stop.wait(poll_s):
                raise TestbedError(f"stopped while slice {found.name} was {found.state}; it stays")
            again = self.find(found.name)
            if again is None:
                raise TestbedError(f"slice {found.name} is gone; FABRIC removed it")
            found = again

    def _lease_end(self, slice_id: str) -> datetime:
        (one,) = self._ask("lease", lambda: self._manager.list_slices(slice_id=slice_id, graph_format="NONE"))
        return _time(one["lease_end_time"])

    def _whole(self, one: dict[str, Any]) -> Slice:
        """A listed slice with its machines and notices."""
        name, own = one["name"], one["slice_id"]
        got = self._ask(f"slice {name}", lambda: self._manager.get_slice(slice_id=own))
        digest, machines = _machines((got or {}).get("model"))
        notices: tuple[str, ...] = ()
        if one["state"] in BROKEN | GONE:
            slivers = self._ask(f"slice {name}", lambda: self._manager.list_slivers(slice_id=own))
            notices = _notices(slivers)
        return Slice(
            id=own,
            name=name,
            state=one["state"],
            lease_end=_time(one["lease_end_time"]),
            digest=digest,
            machines=machines,
            notices=notices,
        )

    def _claims(self) -> dict[str, Any]:
        """What the token says: projects with their tags, and when it ends."""
        token = self._ask("token", self._manager.ensure_valid_id_token)
        said = self._ask("token", lambda: self._manager.tokens_validate(id_token=token))
        claims = said.get("token", said)
        return dict(claims) if isinstance(claims, dict) else {}

    def _ask(self, about: str, call: Callable[[], Any]) -> Any:
        """One call of the orchestrator.

        Raises:
            TestbedError: it failed; the message is FABRIC's own, as its HTTP codes mean nothing.
        """
        try:
            with quiet():
                return call()
        except Exception as error:  # the library raises plain exceptions of many kinds
            said = _said(error)
            hint = "make a new token in the portal" if _about_token(said) else None
            raise TestbedError(f"FABRIC ({about}): {said}", hint) from error


def _time(text: str) -> datetime:
    return datetime.strptime(text, TIME_FORMAT).astimezone(UTC)


def _said(error: BaseException) -> str:
    """What FABRIC says in an error: the details inside, not the HTTP code around them."""
    text = str(error)
    start = text.find("{")
    if start >= 0:
        try:
            details = json.loads(text[start:])["errors"][0]["details"]
        except (ValueError, LookupError, TypeError):
            return text
        return str(details)
    return text or type(error).__name__


def _about_token(said: str) -> bool:
    return "token" in said.lower() or "401" in said


def _tags(claims: dict[str, Any], project: str | None) -> tuple[str, ...]:
    projects = claims.get("projects") or []
    own = [one for one in projects if project in (None, one.get("uuid"))] or projects
    return tuple(sorted(own[0].get("tags") or ())) if own else ()


def _site(site: dict[str, Any], switches: int) -> Site:
    def free(name: str) -> int:
        return int(site.get(f"{name}_capacity") or 0) - int(site.get(f"{name}_allocated") or 0)

    components = {
        name: int(counts.get("capacity") or 0) - int(counts.get("allocated") or 0)
        for name, counts in (site.get("components") or {}).items()
    }
    return Site(
        name=str(site["name"]),
        active=str(site.get("state", "Active")) == "Active",
        cores=free("cores"),
        ram_gb=free("ram"),
        disk_gb=free("disk"),
        components=components,
        switches=switches,
        ipv4_management=bool(site.get("ipv4_management")),
    )


def _free_switches(site: dict[str, Any]) -> int:
    return sum(
        int(switch.get("capacity") or 1) - int(switch.get("allocated") or 0)
        for switch in site.get("p4_switches") or ()
    )


def _at_site(spec: SliceSpec, sites: tuple[Site, ...]) -> SliceSpec:
    from dataclasses import replace

    site = site_with_room(spec, sites)
    if site is None:
        raise TestbedError("no site has room for this slice now", "smaller machines, or later")
    return replace(spec, site=site)


def _notices(slivers: list[dict[str, Any]]) -> tuple[str, ...]:
    """What went wrong, without what only follows from it."""
    said = {str(sliver.get("notice") or "") for sliver in slivers} - {"", "None"}
    causes = {text for text in said if "Closing reservation due to failure in slice" not in text}
    return tuple(sorted(causes or said))


def _machines(model: str | None) -> tuple[str | None, tuple[Machine, ...]]:
    """The spec's digest that a graph carries, and its machines."""
    if not model:
        return None, ()
    from fim.user.topology import ExperimentTopology

    with FIM_LOCK:
        topology = ExperimentTopology(graph_string=model)
        found = [_machine(name, node) for name, node in topology.nodes.items()]
    digests = {digest for digest, _ in found if digest}
    machines = tuple(machine for _, machine in found if machine)
    return (digests.pop() if len(digests) == 1 else None), machines


def _machine(name: str, node: Any) -> tuple[str | None, Machine | None]:
    """The digest that a node carries, and what it is; a switch is no machine."""
    data = _user_data(node)
    digest = data.get("spec")
    if node.type.name != "VM":
        return digest, None
    # A component is called after the network that its port is on (`graph`); fablib puts the node before it.
    ports = [
        (component_name.removeprefix(f"{name}-"), str(mac).lower())
        for component_name, component in node.components.items()
        for port in component.interface_list
        if (mac := getattr(port.get_property("label_allocations"), "mac", None))
    ]
    return digest, Machine(
        name=name,
        role=str(data.get("role", "")),
        site=str(node.site),
        address=str(node.management_ip) if node.management_ip else None,
        user=_user_of(node),
        ports=tuple(sorted(ports)),
    )


def _user_data(node: Any) -> dict[str, Any]:
    """What was kept with a node, beside what fablib keeps there."""
    data = getattr(node.user_data, "data", node.user_data)
    return data if isinstance(data, dict) else {}


def _user_of(node: Any) -> str:
    from fabrictestbed_extensions.fablib.constants import Constants

    image = str(node.image_ref or "").split(",")[0]
    known = Constants.IMAGE_NAMES.get(image, {})
    return str(known.get("default_user", "ubuntu"))
