# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Reserving, watching, renewing and removing slices.

fablib's own `Slice` is avoided: it rounds renewals down to days, caches state, deletes nodes that do not
validate from the topology, and repeats a create whose answer was lost, which then fails as `already exists`
while the slice is up. The same distribution contains a stateless client of the orchestrator
(`FabricManagerV2`), which is used here with fablib's configuration and tokens.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fablib_slices.access import Access
from fablib_slices.actions import Actions
from fablib_slices.answers import (
    BROKEN,
    GONE,
    READY,
    TIME_FORMAT,
    Slice,
    about_network,
    about_token,
    addresses_of,
    machines_of,
    notices_of,
    said_in,
    sites_of,
    tags_of,
    time_of,
)
from fablib_slices.checks import LEASE_LIMIT, LONG_LEASE, FabricFacts
from fablib_slices.fixtures import Scrubber, answers
from fablib_slices.graph import offered_nics, quiet, size_of, slice_graph
from fablib_slices.images import known_images, listed_images
from fablib_slices.redaction import learn_account, learn_tokens
from fablib_slices.room import Site, rounded, site_with_room
from l4sbench.errors import InputError, TestbedError

if TYPE_CHECKING:
    from fablib_slices.spec import SliceSpec

POLL_S: Final = 20.0
UNANSWERED_QUERIES: Final = 5
"""Number of queries in a row that may fail while a slice becomes ready."""
READY_LIMIT_S: Final = 1800.0
SWITCH_LIMIT_S: Final = 1500.0
"""Additional time for a slice with a switch, whose operating system is installed anew before all else."""
PORTAL: Final = "make a new token in the portal and save it as fablib's token file"
NETWORK: Final = "check this machine's network, and FABRIC's maintenance (portal: announcements)"


@dataclass(frozen=True)
class Renewal:
    """The result of a renewal: the requested end of the lease, and the end as read back."""

    asked: datetime
    lease_end: datetime

    @property
    def exact(self) -> bool:
        """Return True if the lease ends within two minutes of the request."""
        return abs(self.lease_end - self.asked) < timedelta(minutes=2)


class Slices:
    """The slices of one project.

    Args:
        manager: A `fabrictestbed.fabric_manager_v2.FabricManagerV2`.
        access: Access to machines, and the key for them.
        project: The project's id, or None for the token's.
        again: Makes another manager from the account's files; called when FABRIC refuses the token, so that
            a run takes a new one from its file without a restart.
        avoided: Sites that are used only when named.
        images: Returns the images that machines can have, and their users; by default those that are
            known without a network.
    """

    def __init__(
        self,
        manager: Any,
        access: Access,
        project: str | None = None,
        again: Callable[[], Any] | None = None,
        avoided: Collection[str] = (),
        images: Callable[[], Mapping[str, str]] = known_images,
    ) -> None:
        self._images = images
        self._avoided = avoided
        self._manager = manager
        self._access = access
        self._project = project
        self._again = again
        self._lock = threading.Lock()

    @classmethod
    def connect(cls) -> Slices:
        """Connect to the account that fablib is configured for (fabric_rc, environment, token file).

        Raises:
            TestbedError: fablib is missing, not configured, or FABRIC cannot be reached.
        """
        fablib = _fablib()
        return cls(
            fablib.get_manager(),
            Access.of(fablib),
            fablib.get_project_id(),
            again=lambda: _fablib().get_manager(),
            avoided=_avoided(fablib.get_avoid()),
            images=lambda: listed_images(fablib),
        )

    @property
    def access(self) -> Access:
        """Access to machines of these slices."""
        return self._access

    @property
    def actions(self) -> Actions:
        """Actions on machines of these slices."""
        return Actions(self._ask)

    def answers(self, name: str) -> tuple[dict[str, Any], Scrubber]:
        """Return FABRIC's answers about a slice as fixtures, and what removes names from other texts.

        Raises:
            TestbedError: the slice does not exist, or FABRIC refuses the token.
        """
        found = self.find(name)
        if found is None:
            raise TestbedError(f"slice {name} does not exist")
        claims = self._claims()
        own = [claims.get(key) for key in ("email", "name", "sub", "eppn", "bastion_login")]
        projects = [one.get("name") for one in claims.get("projects") or ()]
        names = {name: "slice", self._access.bastion_user: "login"}
        names |= dict.fromkeys((one for one in own if isinstance(one, str)), "user")
        names |= dict.fromkeys((one for one in projects if isinstance(one, str)), "project")
        scrubber = Scrubber(names)
        told = {about: scrubber.plain(answer) for about, answer in answers(self._ask, found, self._images)}
        return {**told, "tags": list(tags_of(claims, self._project))}, scrubber

    def facts(self) -> FabricFacts:
        """Query the facts that pre-flight checks need.

        Raises:
            TestbedError: FABRIC does not answer.
        """
        claims = self._claims()
        return FabricFacts(
            images=self._images(),
            nics=offered_nics(),
            size_of=size_of,
            tags=tags_of(claims, self._project),
            sites=self.sites(),
            now=datetime.now(UTC),
            token_expires=self._expiry(claims),
        )

    def token_expires(self) -> datetime | None:
        """Return the expiry of the token; None if a refresh token renews it.

        Raises:
            TestbedError: FABRIC does not answer, or refuses the token.
        """
        return self._expiry(self._claims())

    def _expiry(self, claims: dict[str, Any]) -> datetime | None:
        refreshable = bool(self._manager.get_refresh_token()) and self._manager.auto_refresh
        expires = None if refreshable else claims.get("exp")
        return datetime.fromtimestamp(int(expires), UTC) if expires else None

    def sites(self) -> tuple[Site, ...]:
        """Query all sites with their free resources: capacity minus what is allocated."""
        summary = self._ask("sites", lambda manager: manager.resources_summary(level=2))
        if summary is None:  # the library hides the reason
            raise TestbedError(
                "FABRIC does not report free resources of its sites", "check that the token is still valid"
            )
        return sites_of(summary, self._avoided)

    def find(self, name: str) -> Slice | None:
        """Return the slice of this name; None when there is none, or it is being removed."""
        listed = self._ask(
            f"slice {name}",
            lambda manager: manager.list_slices(
                name=name, exact_match=True, exclude_states=sorted(GONE), graph_format="NONE"
            ),
        )
        own = [one for one in listed if one["name"] == name and one["state"] not in GONE]
        return self._whole(own[0]) if own else None

    def look(self, slice_id: str) -> Slice | None:
        """Return the slice of this id, removed or not, without its machines; None when FABRIC has none.

        Raises:
            TestbedError: FABRIC does not answer.
        """
        try:
            listed = self._ask(
                "slice", lambda manager: manager.list_slices(slice_id=slice_id, graph_format="NONE")
            )
        except TestbedError as error:
            if "not found" in error.message.lower():
                return None
            raise
        return self._whole(listed[0], with_machines=False) if listed else None

    def up(
        self,
        spec: SliceSpec,
        *,
        limit_s: float | None = None,
        poll_s: float = POLL_S,
        on_state: Callable[[str], None] = lambda _: None,
        stop: threading.Event | None = None,
    ) -> Slice:
        """Make or adopt a slice, and return it once all of it is ready.

        A slice of the same name is adopted when it was made from the same spec, by whatever controller; so a
        lost answer, or a controller that died, costs nothing.

        Args:
            spec: Its description.
            limit_s: Limit for it to become ready; by default half an hour, and 25 minutes more with a switch.
            poll_s: Longest interval of queries; shorter at first.
            on_state: Called with every new state, and with why a query failed.
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
                f"a slice {spec.name} exists that was made from another description",
                "give the same description as before (--cores and so on, or its file), use another name, or: "
                f"l4sbench slice down {spec.name}",
            )
        if elsewhere := _elsewhere(spec, found):
            raise InputError(
                f"a slice {spec.name} exists, and {elsewhere}",
                f"name that site, or none; use another name; or: l4sbench slice down {spec.name}",
            )
        if limit_s is None:
            limit_s = READY_LIMIT_S + (SWITCH_LIMIT_S if spec.switches else 0.0)
        return self._until_ready(found, limit_s, poll_s, on_state, stop or threading.Event())

    def renew(self, name: str, hours: float) -> Renewal:
        """Make the lease end this many hours from now, and read it back, as FABRIC may shorten it silently.

        Raises:
            TestbedError: the slice does not exist, or FABRIC refuses, as for shortening a lease.
        """
        found = self.find(name)
        if found is None:
            raise TestbedError(
                f"slice {name} does not exist", f"reserve it with l4sbench slice up {shlex.quote(name)}"
            )
        asked = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)
        if asked < found.lease_end:
            ends = f"{found.lease_end:%Y-%m-%d %H:%M} UTC, after the requested {asked:%Y-%m-%d %H:%M}"
            raise TestbedError(f"the lease of {name} ends at {ends}", "FABRIC does not shorten leases")
        try:
            self._ask(
                f"renewing {name}",
                lambda manager: manager.renew_slice(
                    slice_id=found.id, lease_end_time=asked.strftime(TIME_FORMAT)
                ),
            )
        except TestbedError as error:
            if timedelta(hours=hours) <= LEASE_LIMIT or error.hint:
                raise
            hint = f"leases beyond {LEASE_LIMIT.days} days need the project tag {LONG_LEASE}"
            raise TestbedError(error.message, hint) from None
        return Renewal(asked, self._lease_end(found.id))

    def down(self, name: str) -> bool:
        """Remove a slice; return True if it existed."""
        found = self.find(name)
        if found is None:
            return False
        self._ask(f"removing {name}", lambda manager: manager.delete_slice(slice_id=found.id))
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
        except Exception as error:  # noqa: BLE001  (the library raises plain exceptions of many kinds)
            # The library repeats a create whose answer was lost. Only the name shows whether it succeeded.
            found = self.find(spec.name)
            if found is None:
                raise TestbedError(f"FABRIC does not make slice {spec.name}: {said_in(error)}") from None
            return found
        found = self.find(spec.name)
        if found is None:
            raise TestbedError(
                f"FABRIC accepted slice {spec.name} but does not list it", "try again in a minute"
            )
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
        wait_s = min(poll_s, 1.0)
        unanswered = 0
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
                    "it stays, and the same command continues to wait",
                )
            if stop.wait(wait_s):
                raise TestbedError(f"stopped while slice {found.name} was {found.state}; it stays")
            wait_s = min(poll_s, wait_s * 1.5)
            try:
                again = self.find(found.name)
            except TestbedError as error:
                unanswered += 1
                if unanswered > UNANSWERED_QUERIES or error.hint == PORTAL:
                    raise
                on_state(f"{error.message}; asking again")
                continue
            unanswered = 0
            if again is None:
                last = self.look(found.id)
                why = "; ".join(last.notices) if last and last.notices else "FABRIC gives no reason"
                raise TestbedError(
                    f"slice {found.name} is gone; FABRIC removed it: {why}", "run the same command again"
                )
            found = again

    def _lease_end(self, slice_id: str) -> datetime:
        (one,) = self._ask(
            "lease", lambda manager: manager.list_slices(slice_id=slice_id, graph_format="NONE")
        )
        return time_of(one["lease_end_time"])

    def _whole(self, one: dict[str, Any], *, with_machines: bool = True) -> Slice:
        """Return a listed slice with its machines and notices."""
        name, own = one["name"], one["slice_id"]
        got: dict[str, Any] | None = None
        if with_machines:
            got = self._ask(f"slice {name}", lambda manager: manager.get_slice(slice_id=own))
        digest, machines = machines_of((got or {}).get("model"), self._images())
        notices: tuple[str, ...] = ()
        ended = one["state"] in BROKEN | GONE
        # the graph may lack addresses for good: fablib, too, then uses the slivers'
        unreachable = one["state"] in READY and not all(machine.address for machine in machines)
        if ended or unreachable:
            with contextlib.suppress(TestbedError):  # the state is useful without them, too
                slivers = self._ask(f"slice {name}", lambda manager: manager.list_slivers(slice_id=own))
                notices = notices_of(slivers) if ended else ()
                addresses = addresses_of(slivers)
                machines = tuple(
                    replace(machine, address=machine.address or addresses.get(machine.name))
                    for machine in machines
                )
        return Slice(
            id=own,
            name=name,
            state=one["state"],
            lease_end=time_of(one["lease_end_time"]),
            digest=digest,
            machines=machines,
            notices=notices,
        )

    def _claims(self) -> dict[str, Any]:
        """Return the token's claims: projects with their tags, and its expiry."""
        token = self._ask("token", lambda manager: manager.ensure_valid_id_token())
        said = self._ask("token", lambda manager: manager.tokens_validate(id_token=token))
        claims = said.get("token", said)
        return dict(claims) if isinstance(claims, dict) else {}

    def _ask(self, about: str, call: Callable[[Any], Any]) -> Any:
        """Call the orchestrator.

        Raises:
            TestbedError: the call failed; the message is FABRIC's own, as its HTTP codes mean nothing.
        """
        used = self._manager
        learn_tokens(used)
        try:
            with quiet():
                return call(self._manager)
        except Exception as error:  # noqa: BLE001  (the library raises plain exceptions of many kinds)
            learn_tokens(used)
            said = said_in(error)
            if about_token(said) and self._connected_again(used):
                try:
                    with quiet():
                        return call(self._manager)
                except Exception as second:  # noqa: BLE001  (as above)
                    learn_tokens(self._manager)
                    said = said_in(second)
            hint = NETWORK if about_network(said) else PORTAL if about_token(said) else None
            raise TestbedError(f"FABRIC ({about}): {said}", hint) from None

    def _connected_again(self, used: Any) -> bool:
        """Return True if there is another manager than the one whose token FABRIC refused."""
        with self._lock:
            if self._manager is used and self._again is not None:
                with contextlib.suppress(TestbedError):
                    self._manager = self._again()
            return self._manager is not used


def _fablib() -> Any:
    """Return the account that fablib is configured for."""
    from fablib_slices.graph import fablib_module, scratch_folder

    # by default fablib's log is in /tmp, where everybody can read it
    log = os.environ.get("FABRIC_LOG_FILE") or str(scratch_folder() / "fablib.log")
    try:
        with quiet():
            made = fablib_module().FablibManager(validate_config=False, no_ssh=True, log_file=log)
            learn_account(made)
            made.get_manager()
    except TestbedError:
        raise
    except Exception as error:  # noqa: BLE001  (the library raises plain exceptions of many kinds)
        said = said_in(error)
        hint = "check fabric_config/fabric_rc and that its token is still valid (portal: tokens)"
        if "not reachable" in said:
            hint = NETWORK
        raise TestbedError(f"cannot use FABRIC: {said}", hint) from None
    return made


def _avoided(configured: Any) -> tuple[str, ...]:
    """Return the sites to avoid (`FABRIC_AVOID`), which fablib has as a list or as text."""
    names = configured.split(",") if isinstance(configured, str) else configured or ()
    return tuple(name.strip() for name in names)


def _elsewhere(spec: SliceSpec, found: Slice) -> str:
    """Return, in words, which machine of a slice is not at the site that its description names."""
    if spec.site == "auto":
        return ""
    named = {name: site for site, part in spec.at_sites.items() for name in part.names}
    for machine in found.machines:
        if machine.site != named.get(machine.name, machine.site):
            return f"its {machine.name} is at {machine.site}, not at {named[machine.name]}"
    return ""


def _at_site(spec: SliceSpec, sites: tuple[Site, ...]) -> SliceSpec:
    site = site_with_room(rounded(spec, size_of), sites)
    if site is None:
        raise TestbedError("no site has room for this slice now", "smaller machines, or later")
    return replace(spec, site=site)
