# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parts of the cache that no lab of the current sources uses, and their removal."""

import os
from collections.abc import Iterable
from pathlib import Path

from l4sbench.disk.files import remove_tree
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.lab import read_records, record_key
from l4sbench.testbeds.virtual.lab.status import PartStatus, status

KEPT_KINDS = ("node-userland",)
"""Parts that are for booted nodes, whatever the sources of the lab are."""


def unused_parts(cache: Path | None = None, kernels: Path | None = None) -> tuple[PartStatus, ...]:
    """Return the parts that no lab of the current sources uses; none while a guest of this cache runs.

    The newest kernel source stays, as a build needs it again.
    """
    home = Cache.open(cache)
    if guests_run(cache):
        return ()
    needed = _needed(home, Inputs.read(kernels))
    state = status(cache, kernels)
    sources = [part.path for part in state.parts if part.kind == "source"]
    newest = max(sources, key=lambda path: path.stat().st_mtime_ns, default=None)
    return tuple(
        part
        for part in state.parts
        if part.kind not in KEPT_KINDS
        and part.path != newest
        and f"{part.kind}/{part.path.name}" not in needed
    )


def _needed(home: Cache, inputs: Inputs) -> frozenset[str]:
    """Return the parts of all labs of the current sources."""
    found = read_records(home).items()
    current = (r.parts() for path, r in found if path.stem == record_key(inputs, r.built_in, r.name))
    return frozenset().union(*current)


def guests_run(cache: Path | None = None) -> bool:
    """Return True if a process of this machine runs a kernel of the cache."""
    return bool(running_kernels(cache))


def running_kernels(cache: Path | None = None) -> frozenset[str]:
    """Return the names of those folders of kernels of which a process of this machine runs one."""
    kernels = Cache.open(cache).root.resolve() / "kernel"
    found = set()
    for link in Path("/proc").glob("[0-9]*/exe"):
        try:
            program = Path(os.readlink(link))  # noqa: PTH115  (it may name a file that is gone)
        except OSError:
            continue
        if program.is_relative_to(kernels):
            found.add(program.relative_to(kernels).parts[0])
    return frozenset(found)


def remove_parts(parts: Iterable[PartStatus], cache: Path | None = None, kernels: Path | None = None) -> int:
    """Remove those of these parts that are still unused, and records of labs that lack them; return bytes.

    Raises:
        TestbedError: a build is going on, or the cache cannot be written.
    """
    home = Cache.open(cache)
    if (builder := home.builder()) is not None:
        raise TestbedError(f"{builder} is building the lab", "wait until it has ended")
    wanted = {part.path for part in parts}
    with home.lock(lambda _: None, 0.0):
        gone = [part for part in unused_parts(cache, kernels) if part.path in wanted]
        names = {f"{part.kind}/{part.path.name}" for part in gone}
        for path, record in read_records(home).items():
            if not names.isdisjoint(record.parts()):
                path.unlink()
        for part in gone:
            remove_tree(part.path)
    return sum(part.size_bytes for part in gone)
