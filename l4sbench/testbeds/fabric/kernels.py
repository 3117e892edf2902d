# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The kernels that machines of a slice will run, before there are machines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from l4sbench.errors import InputError, Problem, suggest
from l4sbench.facts.kernels import KEEP, KernelWish
from l4sbench.testbeds.ssh.facts import HostFacts
from l4sbench.testbeds.ssh.hosts import Host
from l4sbench.testbeds.ssh.images import load_images
from l4sbench.testbeds.ssh.installs import installs
from l4sbench.testbeds.ssh.kernels import Allowed, own_kernels

if TYPE_CHECKING:
    from fablib_slices import SliceSpec
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.testbeds.ssh.images import Image


def require_kernel(spec: SliceSpec) -> None:
    """Raise InputError if machines of a slice cannot get the kernel that its description names."""
    name = KernelWish.parse(spec.kernel).entry
    if name is None:
        return
    known = {image.name: image for image in load_images()}
    if name not in known:
        raise InputError([Problem("", "kernel", f"kernels/images has no {name}", suggest(name, known))])
    image, seen = known[name], assumed(spec)
    problems = [
        Problem(
            "",
            "kernel",
            f"{name} is for {', '.join(image.distributions)}, and {vm.image} of {vm.name} is "
            f"{seen[vm.name].distribution}",
        )
        for vm in spec.vms
        if vm.name in seen and seen[vm.name].distribution not in image.distributions
    ]
    if image.obstacle:
        problems.append(Problem("", "kernel", f"{name} is {image.obstacle}"))
    if problems:
        raise InputError(problems)


def assumed(spec: SliceSpec) -> Mapping[str, HostFacts]:
    """Return what machines will report, as far as their images tell: distribution, and its first kernel."""
    from fablib_slices.images import DISTRIBUTIONS

    return {
        vm.name: HostFacts(kernel_release=known.kernel, distribution=known.name, accecn=False)
        for vm in spec.vms
        if (known := DISTRIBUTIONS.get(vm.image)) is not None
    }


def choice_of(spec: SliceSpec) -> str:
    """Return the kernel that a slice's description names, in words, with the entries that this allows."""
    wish = KernelWish.parse(spec.kernel)
    if wish.text == KEEP or wish.entry is not None:
        return wish.text
    there = {seen.distribution for seen in assumed(spec).values()}
    names = [image.name for image in load_images() if _installable(image) and there & {*image.distributions}]
    return f"{wish.text} ({' or '.join(names) or 'kernels/images has none for these images'}, by cell)"


def planned_installs(spec: SliceSpec, cells: Sequence[Cell], catalog: Catalog) -> tuple[str, ...]:
    """Return what a run would install on the machines for its cells, in words."""
    wish, facts, images = KernelWish.parse(spec.kernel), assumed(spec), load_images()
    hosts = [Host(vm.name, (vm.name,)) for vm in spec.vms if vm.name in facts]
    may: Allowed = {}
    if wish.entry is not None:
        may = {host.name: tuple(image for image in images if image.name == wish.entry) for host in hosts}
    elif wish.text != KEEP:
        may = own_kernels(cells, catalog, hosts, facts, images)
    return tuple(installs(cells, catalog, hosts, may, facts))


def _installable(image: Image) -> bool:
    return bool(image.packages or image.files)
