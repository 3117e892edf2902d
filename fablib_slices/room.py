# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Free resources of sites and of their hosts, and whether a slice fits there. Pure: facts in, answers out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from fablib_slices.nics import cards_of, counted_names, free_of

if TYPE_CHECKING:
    from fablib_slices.spec import SliceSpec, VmSpec

Size: TypeAlias = tuple[int, int, int]
"""Cores, memory and disk, GB, of a machine."""
SizeOf: TypeAlias = "Callable[[Size], Size]"


@dataclass(frozen=True)
class SiteHost:
    """Free resources of one host of a site; a machine and all its cards are on one host."""

    name: str
    cores: int
    ram_gb: int
    disk_gb: int
    components: Mapping[str, int]


@dataclass(frozen=True)
class Site:
    """Free resources of a site, and the kind of its management addresses.

    `components` counts free components by the site's names for them; `switches` are free programmable ones.
    `hosts` are empty where FABRIC reports none. `avoided`: the site is used only when named.
    """

    name: str
    active: bool
    cores: int
    ram_gb: int
    disk_gb: int
    components: Mapping[str, int]
    switches: int
    ipv4_management: bool
    avoided: bool = False
    hosts: tuple[SiteHost, ...] = ()


def size_in(vm: VmSpec) -> Size:
    """Return the size of a machine."""
    return vm.cores, vm.ram_gb, vm.disk_gb


def as_text(size: Size) -> str:
    """Return a size in words."""
    return f"{size[0]} cores, {size[1]} GB memory and {size[2]} GB disk"


def rounded(spec: SliceSpec, size_of: SizeOf) -> SliceSpec:
    """Return the slice with the sizes of machines that FABRIC makes."""

    def made(vm: VmSpec) -> VmSpec:
        cores, ram_gb, disk_gb = size_of(size_in(vm))
        return replace(vm, cores=cores, ram_gb=ram_gb, disk_gb=disk_gb)

    return replace(spec, vms=tuple(made(vm) for vm in spec.vms))


def site_with_room(spec: SliceSpec, sites: Sequence[Site]) -> str | None:
    """Return the site with the most free cores among those with room for the slice; None when none has."""
    fitting = [site for site in sites if not site.avoided and not tuple(lacking(spec, site))]
    best = max(fitting, key=lambda site: (site.cores, site.name), default=None)
    return best.name if best else None


def lacking(spec: SliceSpec, site: Site) -> Iterator[str]:
    """Yield what a site lacks for a slice."""
    if not site.active:
        yield "not active (maintenance?)"
    needed = {
        "cores": sum(vm.cores for vm in spec.vms),
        "ram_gb": sum(vm.ram_gb for vm in spec.vms),
        "disk_gb": sum(vm.disk_gb for vm in spec.vms),
    }
    short = [(name, getattr(site, name), amount) for name, amount in needed.items()]
    cards = sum(cards_of(spec).values(), Counter[str]())
    short += [(nic, free_of(nic, site.components), count) for nic, count in sorted(cards.items())]
    short = [(name, free, amount) for name, free, amount in short if amount > free]
    for name, free, amount in short:
        yield f"{free} {name} free, {amount} needed"
    if len(spec.switches) > site.switches:
        yield f"{site.switches} programmable switches free, {len(spec.switches)} needed"
    if not short and site.hosts and (vm := _without_host(spec, site.hosts)):
        own = ", ".join(f"{count} {nic}" for nic, count in sorted(cards_of(spec)[vm.name].items()))
        yield f"no host has room for {vm.name} ({as_text(size_in(vm))}{', ' + own if own else ''})"


def _without_host(spec: SliceSpec, hosts: Sequence[SiteHost]) -> VmSpec | None:
    """Return a machine that no host has room for once the larger ones are placed; None if all fit."""
    cards = cards_of(spec)
    left = list(hosts)
    for vm in sorted(spec.vms, key=lambda vm: (size_in(vm), sum(cards[vm.name].values())), reverse=True):
        for place, host in enumerate(left):
            if _fits(vm, cards[vm.name], host):
                left[place] = _with(vm, cards[vm.name], host)
                break
        else:
            return vm
    return None


def _fits(vm: VmSpec, cards: Mapping[str, int], host: SiteHost) -> bool:
    has = (host.cores, host.ram_gb, host.disk_gb)
    return all(free >= needed for free, needed in zip(has, size_in(vm), strict=True)) and all(
        free_of(nic, host.components) >= count for nic, count in cards.items()
    )


def _with(vm: VmSpec, cards: Mapping[str, int], host: SiteHost) -> SiteHost:
    """Return a host with a machine on it."""
    taken = {name: count for nic, count in cards.items() for name in counted_names(nic)}
    return replace(
        host,
        cores=host.cores - vm.cores,
        ram_gb=host.ram_gb - vm.ram_gb,
        disk_gb=host.disk_gb - vm.disk_gb,
        components={name: free - taken.get(name, 0) for name, free in host.components.items()},
    )
