# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Packages, modules and tools that preparing hosts installs for some cells, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from l4sbench.testbeds.ssh.facts import HostFacts, node_needs, older
from l4sbench.testbeds.ssh.images import BUILD_COMMAND
from l4sbench.testbeds.ssh.kernels import Allowed, choose, module_sources, own_kernels, together
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.testbeds.ssh.hosts import Host
    from l4sbench.testbeds.ssh.images import Image, Tool

_CLOUD: Final = "-cloud-"
"""A part of the releases of kernels that have the drivers of clouds alone."""


def installs(
    cells: Sequence[Cell],
    catalog: Catalog,
    hosts: Sequence[Host],
    may: Allowed,
    facts: Mapping[str, HostFacts],
) -> Iterator[str]:
    """Yield a line for each kernel, with the hosts that get it: packages, modules that DKMS builds, tools.

    Hosts without a fact are taken to have nothing of it; those that keep their kernel get modules alone.
    """
    for what, names in _by_kernel(cells, catalog, hosts, may, facts).items():
        yield f"{names}: {what}"


def possible_installs(
    cells: Sequence[Cell], catalog: Catalog, hosts: Sequence[Host], images: Sequence[Image]
) -> Iterator[str]:
    """Yield the same for hosts that may boot what their distribution has, for each that they may be."""
    for distribution in dict.fromkeys(name for image in images for name in image.distributions):
        facts = HostFacts(kernel_release="", distribution=distribution, accecn=False)
        may = own_kernels(cells, catalog, hosts, {host.name: facts for host in hosts}, images)
        if may:
            for what, names in _by_kernel(cells, catalog, hosts, may, {}).items():
                yield f"{names}, where it is {distribution.title()}: {what}"


def _by_kernel(
    cells: Sequence[Cell],
    catalog: Catalog,
    hosts: Sequence[Host],
    may: Allowed,
    facts: Mapping[str, HostFacts],
) -> Mapping[str, str]:
    """Return the names of hosts by what they get."""
    found: dict[str, list[str]] = {}
    choices, _ = choose(cells, catalog, hosts, may)
    for choice in choices:
        needs = node_needs([cell for cell in cells if cell.id in choice.cells], catalog)
        for host in hosts:
            wanted = together(host, needs)
            image = next((i for i in may.get(host.name, ()) if i.name == choice.state.get(host.name)), None)
            parts = list(_parts(image, wanted.modules | wanted.parts, catalog, facts.get(host.name)))
            if parts:
                name = f"{image.name}: " if image else ""
                found.setdefault(name + "; ".join(parts), []).append(host.name)
    return {what: ", ".join(dict.fromkeys(names)) for what, names in found.items()}


def _parts(image: Image | None, modules: set[str], catalog: Catalog, seen: HostFacts | None) -> Iterator[str]:
    """Yield what one host gets for its kernel; `seen` are its facts, if they are known."""
    there = image is None or (seen is not None and image.runs(seen.kernel_release))
    if image is not None and not there:
        yield _kernel(image, seen)
    buildable = {source.name for source in module_sources(catalog, sorted(modules))}
    if image is not None:
        built = buildable & set(image.offers.builds)
    else:
        built = buildable - set(seen.modules) if seen is not None else set()
    if there and seen is not None:
        built -= set(seen.modules)
    if built:
        yield f"{', '.join(sorted(built))} by DKMS"
    for tool in (image.tools or ()) if image is not None else ():
        version = seen.tools.get(tool.program, "") if seen is not None else ""
        if not version or older(version, tool.version):
            yield _tool(tool)


def _kernel(image: Image, seen: HostFacts | None) -> str:
    """Return the packages or files of a kernel, with the kinds of kernel that a host may have."""
    if image.obstacle:
        return f"nothing, as it is {image.obstacle}"
    if image.built:
        return f"the package that `{BUILD_COMMAND}` makes"
    if image.files:
        return counted(len(image.files), "package file")
    flavour = "[cloud-]amd64" if seen is None else "cloud-amd64" if _CLOUD in seen.kernel_release else "amd64"
    names = [name.replace("{flavour}", flavour) for name in image.packages or ()]
    source = f" of {image.repository.suites}" if image.repository else ""
    return f"{', '.join(names)}{source}"


def _tool(tool: Tool) -> str:
    source = tool.repository.suites if tool.repository else "the lab, with its libraries,"
    return f"{tool.package} of {source} where {tool.program} is older than {tool.version}"
