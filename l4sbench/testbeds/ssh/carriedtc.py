# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""tc with its own loader and libraries, for hosts whose distribution has an older one and older libraries.

It is the lab's tc, packed into one archive from the guest's userland. The archive unpacks to

    tc                 a shell script that starts the program below, to be linked from a folder of PATH
    program, loader, libraries/
    kinds/tc/          tc's parts of queues, and the distributions of netem
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk.files import new_file
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import digest_of
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.userland import cached_userland

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.testbeds.virtual.lab.cache import Cache

FOLDER: Final = "host-tools"
PLACE: Final = "/opt/l4sbench/tc"
"""Folder on a host into which the archive is unpacked."""

_SCRIPT: Final = f"""\
#!/bin/sh
export TC_LIB_DIR={PLACE}/kinds/tc
exec {PLACE}/loader --library-path {PLACE}/libraries {PLACE}/program "$@"
"""
_PROGRAM: Final = "usr/sbin/tc"
_LOADER: Final = "usr/lib64/ld-linux-x86-64.so.2"
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_RECIPE: Final = "1"
_LIMIT_S: Final = 30.0


def carried_tc(cache: Cache) -> Path:
    """Return the archive, made from the lab's userland unless it is there.

    Raises:
        TestbedError: The lab is not built, or its tc does not start here.
    """
    userland = cached_userland(cache)
    if userland is None:
        raise TestbedError("tc for the hosts is taken from the lab, which is not built", "l4sbench lab build")
    target = cache.root / FOLDER / f"tc-{digest_of([_RECIPE, userland.path.name])}.tar.gz"
    if target.is_file():
        return target
    commands = Commands.logging_to(cache.logs / "host-tc.log")
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        new_file(target) as temporary,
        temporary.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, 0) as packed,  # without its name and time, equal inputs are equal
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content, mode in _members(commands, userland.root):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return target


def _members(commands: Commands, root: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yield name, content and mode of every file of the archive."""
    libraries = root / _LIBRARIES
    listed = commands.output(
        [root / _LOADER, "--library-path", libraries, "--list", root / _PROGRAM],
        what="listing the libraries of tc",
        timeout_s=_LIMIT_S,
    )
    yield "tc", _SCRIPT.encode(), 0o755
    yield "program", (root / _PROGRAM).read_bytes(), 0o755
    yield "loader", (root / _LOADER).read_bytes(), 0o755
    for name in sorted(re.findall(r"^\s*([^/\s]+\.so\S*) => ", listed, re.MULTILINE)):
        yield f"libraries/{name}", (libraries / name).read_bytes(), 0o644
    for file in sorted((libraries / "tc").glob("*.dist")):
        yield f"kinds/tc/{file.name}", file.read_bytes(), 0o644
