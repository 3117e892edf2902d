# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Checks of a slice before anything is reserved. Pure: facts in, problems out.

FABRIC's library and information model reject some mistakes when a slice is built (`graph`); these checks find
mistakes that both accept, missing permissions (tags of the project, by the orchestrator's policy), and a lack
of free capacity (`room`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from fablib_slices.images import DISTRIBUTIONS, NOT_BOOTED
from fablib_slices.nics import NICS
from fablib_slices.room import Site, Size, SizeOf, as_text, lacking, rounded, site_with_room, size_in
from fablib_slices.spec import DEFAULT_IMAGE
from l4sbench.errors import Problem, suggest
from l4sbench.facts.kernels import KEEP

if TYPE_CHECKING:
    from fablib_slices.spec import SliceSpec

FREE_CORES: Final = 2
FREE_RAM_GB: Final = 10
FREE_DISK_GB: Final = 10
"""Largest disk of a machine in a project without VM.NoLimit tags."""

FREE_SIZE: Final = "--cores 2 --ram-gb 8 --disk-gb 10"
"""The largest size of a machine in such a project."""

LEASE_LIMIT: Final = timedelta(days=14)
"""Longest lease of a project without the tag `LONG_LEASE`; FABRIC's policy denies longer ones."""

LONG_LEASE: Final = "Slice.NoLimitLifetime"
LONG_LEASE_LIMIT: Final = timedelta(weeks=26)
"""Longest lease with that tag; the orchestrator shortens longer ones without saying so."""

TOKEN_SPARE: Final = timedelta(minutes=30)


def _as_asked(size: Size) -> Size:
    return size


@dataclass(frozen=True)
class FabricFacts:
    """Facts about FABRIC and the project; None for those that were not queried.

    Attributes:
        images: Images that machines can have.
        nics: Component models of ports.
        size_of: Maps a requested size of machine to the one that FABRIC makes; to the largest if none
            suffices.
        tags: Permissions of the project.
        sites: All sites.
        now: Time of the facts.
        token_expires: Expiry of the token; None if a refresh token renews it.
    """

    images: Collection[str]
    nics: Collection[str]
    tags: Collection[str] | None = None
    sites: Sequence[Site] | None = None
    now: datetime | None = None
    token_expires: datetime | None = None
    size_of: SizeOf = _as_asked


def preflight(spec: SliceSpec, facts: FabricFacts, run_s: float = 0.0) -> tuple[Problem, ...]:
    """Return every problem that prevents a slice's reservation; empty when it can be tried.

    Args:
        spec: The slice.
        facts: Facts about FABRIC and the project.
        run_s: Estimated wall seconds of the run, which lease and token must outlive.
    """
    return (
        *_names(spec),
        *_offers(spec, facts),
        *(_permissions(spec, facts.tags) if facts.tags is not None else ()),
        *_room(spec, facts),
        *_lifetimes(facts, run_s),
    )


def warnings(spec: SliceSpec, facts: FabricFacts, run_s: float = 0.0) -> tuple[str, ...]:
    """Return warnings that do not prevent a reservation; arguments as for `preflight`."""
    found = []
    made = rounded(spec, facts.size_of)
    larger = {
        (as_text(size_in(vm)), as_text(size_in(got))) for vm, got in zip(spec.vms, made.vms, strict=True)
    }
    found += [f"FABRIC makes machines of {got} for {asked}" for asked, got in sorted(larger) if got != asked]
    name = site_with_room(made, facts.sites or ()) if spec.site == "auto" else spec.site
    chosen = next((site for site in facts.sites or () if site.name == name), None)
    if chosen and not chosen.ipv4_management:
        found.append(
            f"machines at {chosen.name} have IPv6 addresses only: archives of Debian and Ubuntu have them, "
            "too, GitHub has none, so kernels/images that come from there cannot be installed"
        )
    found += [
        f"{image} was not booted on FABRIC yet; if it does not boot, use another one by --image"
        for image in sorted({vm.image for vm in spec.vms} & NOT_BOOTED)
    ]
    found += [
        f"kernels/images has nothing for {image}, so only its own kernel and tools are used there; "
        f"{DEFAULT_IMAGE} and default_ubuntu_24 get what cells need"
        for image in sorted({vm.image for vm in spec.vms} - DISTRIBUTIONS.keys())
        if spec.kernel != KEEP
    ]
    asked = timedelta(hours=spec.hours)
    if asked > LONG_LEASE_LIMIT:
        found.append(
            f"a lease of {spec.hours} h is shortened to {LONG_LEASE_LIMIT.days} days; "
            "`run --on fabric` renews at half of it"
        )
    if timedelta(seconds=run_s) > min(asked, LONG_LEASE_LIMIT):
        found.append(
            f"the run takes about {_hours(timedelta(seconds=run_s))}, longer than a lease: it is renewed "
            "under way, by whatever token is good then; --slices shares the trials out"
        )
    return tuple(found)


def _room(spec: SliceSpec, facts: FabricFacts) -> Iterator[Problem]:
    """Yield a problem for sizes that FABRIC does not have, else for sites without enough free resources."""
    too_large = False
    for asked in dict.fromkeys(size_in(vm) for vm in spec.vms):
        got = facts.size_of(asked)
        if any(has < wanted for has, wanted in zip(got, asked, strict=True)):
            too_large = True
            machines = [vm.name for vm in spec.vms if size_in(vm) == asked]
            path = "" if len(machines) == len(spec.vms) else f"nodes.{machines[0]}"
            yield Problem(
                "", path, f"FABRIC has no machine of {as_text(asked)}", f"the largest has {as_text(got)}"
            )
    known = all(net.nic in facts.nics for net in spec.nets)
    if facts.sites is not None and known and not too_large:
        yield from _capacity(rounded(spec, facts.size_of), facts.sites)


def _names(spec: SliceSpec) -> Iterator[Problem]:
    nodes = {*(vm.name for vm in spec.vms), *(switch.name for switch in spec.switches)}
    for net in spec.nets:
        for node in net.nodes:
            if node not in nodes:
                yield Problem("", f"nets.{net.name}", f"unknown node {node}")
        if len(net.nodes) < 2:
            yield Problem("", f"nets.{net.name}", "a network of one port connects nothing")


def _offers(spec: SliceSpec, facts: FabricFacts) -> Iterator[Problem]:
    for image in dict.fromkeys(vm.image for vm in spec.vms):
        if image not in facts.images:
            machines = [vm.name for vm in spec.vms if vm.image == image]
            path = "image" if len(machines) == len(spec.vms) else f"nodes.{machines[0]}.image"
            hint = suggest(image, sorted(facts.images))
            yield Problem("", path, f"FABRIC has no image {image}", hint)
    for nic in sorted({net.nic for net in spec.nets}):
        if nic not in facts.nics:
            models = [name for name in facts.nics if name in NICS]
            hint = suggest(nic, sorted(models))
            yield Problem("", "nic", f"FABRIC has no component {nic}", hint)
    sites = [site.name for site in facts.sites or ()]
    for name in spec.at_sites if facts.sites is not None else ():
        if name not in {"auto", *sites}:
            path = "site" if name == spec.site else f"sites.{name}"
            yield Problem("", path, f"FABRIC has no site {name}", suggest(name, sorted(sites)))


def _permissions(spec: SliceSpec, tags: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for every permission of the project that the slice needs and lacks."""

    def missing(path: str, what: str, *any_of: str, instead: str = "") -> Iterator[Problem]:
        if not set(any_of) & set(tags):
            owned = ", ".join(sorted(tags)) or "none"
            hint = f"{instead}ask the project's lead for it in the portal; the project has {owned}"
            yield Problem("", path, f"{what} needs the project tag {' or '.join(any_of)}", hint)

    limits = (
        ("cores", FREE_CORES, "VM.NoLimitCPU"),
        ("ram_gb", FREE_RAM_GB, "VM.NoLimitRAM"),
        ("disk_gb", FREE_DISK_GB, "VM.NoLimitDisk"),
    )
    alone = "" if len({size_in(vm) for vm in spec.vms}) == 1 else ", and no more for a single node,"
    most = {name: max((getattr(vm, name) for vm in spec.vms), default=0) for name, _, _ in limits}
    too_large = [
        problem
        for name, free, tag in limits
        if most[name] > free
        for problem in missing(
            name,
            f"{most[name]} instead of {free}",
            tag,
            "VM.NoLimit",
            instead=f"{FREE_SIZE}{alone} goes without, or ",
        )
    ]
    for place, problem in enumerate(too_large, start=1):  # the remedy is the same for all, and printed once
        yield problem if place == len(too_large) else replace(problem, hint=None)
    for nic in sorted({net.nic for net in spec.nets} & set(NICS)):
        if NICS[nic].tags:
            yield from missing("nic", nic, *NICS[nic].tags)
    if timedelta(hours=spec.hours) > LEASE_LIMIT:
        most_hours = LEASE_LIMIT // timedelta(hours=1)
        lease = f"a lease of {spec.hours} h instead of {most_hours} h"
        instead = f"--hours {most_hours} goes without, and `run` renews at half of it, or "
        yield from missing("hours", lease, LONG_LEASE, instead=instead)
    if len(spec.at_sites) > 1:
        yield from missing("sites", "a slice at several sites", "Slice.Multisite")
    if spec.switches:
        yield from missing("switch", "a programmable switch", "Switch.P4")


def _capacity(spec: SliceSpec, sites: Sequence[Site]) -> Iterator[Problem]:
    if spec.site == "auto":
        if site_with_room(spec, sites) is None:
            lacks = {site.name: tuple(lacking(spec, site)) for site in sites if site.active}
            nearest = min(lacks, key=lambda name: (len(lacks[name]), name), default=None)
            hint = f"nearest is {nearest}: {', '.join(lacks[nearest])}; " if nearest else ""
            hint += "smaller machines, or later"
            yield Problem("", "site", "no site has room for this slice now", hint)
        return
    by_name = {site.name: site for site in sites}
    for name, part in spec.at_sites.items():
        lacks = tuple(lacking(part, by_name[name])) if name in by_name else ()
        other = site_with_room(part, sites) if lacks else None
        for lack in lacks:
            path = "site" if name == spec.site else f"sites.{name}"
            yield Problem("", path, f"{name}: {lack}", f"{other} has room" if other else None)


def _lifetimes(facts: FabricFacts, run_s: float) -> Iterator[Problem]:
    run = timedelta(seconds=run_s)
    if facts.token_expires and facts.now:
        left = facts.token_expires - facts.now
        if left < TOKEN_SPARE:
            yield Problem("", "token", f"the token ends in {_hours(left)}", "make a new one in the portal")
        elif run > left - TOKEN_SPARE:
            yield Problem(
                "",
                "token",
                f"the token ends in {_hours(left)}, and the run takes about {_hours(run)}",
                "use a token file with a refresh token, which is renewed by itself",
            )


def _hours(span: timedelta) -> str:
    minutes = max(0, round(span.total_seconds() / 60))
    return f"{minutes // 60} h {minutes % 60} min"
