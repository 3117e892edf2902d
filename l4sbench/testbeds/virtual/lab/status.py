# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The state of the lab, for `l4sbench lab status`."""

import os
from dataclasses import dataclass
from pathlib import Path

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import PARTS, Cache, Holder
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.lab import Lab, read_record


@dataclass(frozen=True)
class PartStatus:
    """One part in the cache.

    Attributes:
        kind: source, kernel, userland, tools, modules or rootfs.
        path: Its folder.
        size_bytes: Its size on the disk; files shared between parts count once, for the first.
        used: True if the lab of the current sources uses it.
    """

    kind: str
    path: Path
    size_bytes: int
    used: bool


@dataclass(frozen=True)
class LabStatus:
    """The state of the lab.

    Attributes:
        cache: The cache folder.
        lab: The lab of the current sources; None if it has to be built.
        reason: Why there is no lab; empty if there is one.
        parts: Everything in the cache.
        building: The process that is building now; None if there is none.
    """

    cache: Path
    lab: Lab | None
    reason: str
    parts: tuple[PartStatus, ...]
    building: Holder | None


def status(cache: Path | None = None, kernels: Path | None = None) -> LabStatus:
    """Inspect the cache; change nothing."""
    home = Cache.open(cache)
    lab, reason = None, ""
    try:
        lab = Lab.locate(cache, kernels)
    except TestbedError as error:
        reason = error.message
    record = read_record(home, Inputs.read(kernels).key)
    used = frozenset() if record is None else record.parts()
    seen: set[int] = set()
    parts = tuple(
        PartStatus(
            kind=kind,
            path=path,
            size_bytes=disk_bytes(path, seen),
            used=f"{kind}/{path.name}" in used,
        )
        for kind in PARTS
        for path in sorted((home.root / kind).glob("*"))
    )
    return LabStatus(cache=home.root, lab=lab, reason=reason, parts=parts, building=home.builder())


def disk_bytes(folder: Path, seen: set[int]) -> int:
    """Return the size of a folder on the disk without files in `seen`, inodes, to which its own are added."""
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            info = Path(here, name).lstat()
            if info.st_ino not in seen:
                seen.add(info.st_ino)
                total += info.st_blocks * 512
    return total
