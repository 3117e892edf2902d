# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Removal of labs, and of parts of the cache that none uses."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from l4sbench.disk.files import remove_tree
from l4sbench.errors import TestbedError
from l4sbench.facts.factors import DEFAULT_LAB
from l4sbench.testbeds.virtual.lab.cache import PARTS, Cache
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.kepttree import kept_tree
from l4sbench.testbeds.virtual.lab.lab import BEFORE_KEY, read_records, record_key
from l4sbench.testbeds.virtual.lab.source import cached
from l4sbench.testbeds.virtual.lab.status import PartStatus, disk_bytes, status

KEPT_KINDS = ("node-userland",)
"""Parts that are for booted nodes, whatever the sources of the lab are."""

LOCK_S = 3600.0
"""Time to wait for another build."""
_KEPT_RECORDS = 8
_KEPT_OF_NAME = 2
"""Records of a named lab: that of its newest kernel, and of one with further options built in."""
_KEPT_S = 7 * 24 * 3600
"""Parts that no kept record names are removed after a week, as a run may still be using them."""


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


def remove_lab(name: str, *, keep_tree: bool = False, cache: Path | None = None) -> int:
    """Remove a named lab with the parts that no other lab has, and its built tree unless that is to be kept.

    Returns:
        The bytes of the parts.

    Raises:
        TestbedError: There is no such lab, it is the default one, guests run on it, or another build holds
            the lock.
    """
    home = Cache.open(cache)
    if name == DEFAULT_LAB:
        raise TestbedError("the default lab stays", "l4sbench clean removes what no lab needs")
    with home.lock(lambda _: None, LOCK_S):
        records = read_records(home)
        own = {path: record for path, record in records.items() if record.name == name}
        tree = kept_tree(home, name)
        if not own and not tree.exists():
            others = sorted({record.name for record in records.values()} - {DEFAULT_LAB})
            raise TestbedError(
                f"there is no lab {name}", f"choose from {', '.join(others)}" if others else None
            )
        theirs = frozenset[str]().union(*(records[path].parts() for path in records.keys() - own.keys()))
        parts = frozenset[str]().union(*(record.parts() for record in own.values())) - theirs
        shared = {"userland", "tools"}
        if any(f"kernel/{kernel}" in parts for kernel in running_kernels(cache)):
            raise TestbedError(f"guests of the lab {name} run", "wait until their run has ended")
        gone = [home.root / part for part in sorted(parts) if part.partition("/")[0] not in shared]
        freed = sum(disk_bytes(path, set()) for path in gone if path.exists())
        for path in own:
            path.unlink()
        for path in gone:
            if path.exists():
                remove_tree(path)
        if not keep_tree and tree.exists():
            freed += disk_bytes(tree, set())
            remove_tree(tree)
    return freed


def prune(cache: Cache) -> None:
    """Remove old labs, the parts that only they used unless guests run, and the scratch state of apt."""
    seen: dict[str, int] = {}
    for path in cache.records():
        name = path.stem.rpartition(BEFORE_KEY)[0]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > (_KEPT_OF_NAME if name else _KEPT_RECORDS):
            path.unlink()
    used = set[str]().union(*(record.parts() for record in read_records(cache).values()))
    newest = cached(cache)
    if newest is not None:
        used.add(f"source/{newest.digest}")
    for kind in () if guests_run(cache.root) else PARTS:  # nodes may have been up for longer
        for part in (cache.root / kind).glob("*"):
            if f"{kind}/{part.name}" not in used and time.time() - part.stat().st_mtime > _KEPT_S:
                remove_tree(part)
    if (cache.root / "apt").exists():
        remove_tree(cache.root / "apt")
