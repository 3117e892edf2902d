# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Checks of this machine for building and running the lab, each with the command that mends it."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.aptsources import debian_archives, read_sources
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.lab import HINT, Lab

PROGRAMS = {
    "gcc": "gcc",
    "ld": "binutils",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz": "xz-utils",
    "tar": "tar",
    "patch": "patch",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "setpriv": "util-linux",
}
"""Programs that building and running start -> the Debian packages that contain them."""

_STATIC_LIBC = "libc.a"

_TO_RUN = ("machine", "setpriv")
"""Checks that a finished lab depends on too."""

_FREE_BYTES = 2 << 30
_SHM_BYTES = 1 << 30


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: The subject of the check.
        ok: True if it passed.
        detail: The finding, in words.
        mend: The command that mends it; None if the check passed or no single command mends it.
        packages: The Debian packages that are missing.
    """

    name: str
    ok: bool
    detail: str
    mend: str | None = None
    packages: tuple[str, ...] = ()


def doctor(cache: Path | None = None) -> list[Check]:
    """Check everything that building and running the lab needs; change nothing.

    `cache` is the cache folder, by default the user's own.
    """
    lab = _lab(cache)
    building = build_checks(cache)
    if lab.ok:  # nothing that only a build needs is missed now
        building = [check if check.ok or check.name in _TO_RUN else _excused(check) for check in building]
    return [*building, _memory_files(), lab]


def _excused(check: Check) -> Check:
    return Check(check.name, ok=True, detail=f"{check.detail} (needed only to build the lab anew)")


def build_checks(cache: Path | None = None) -> list[Check]:
    """Check everything that building needs."""
    packages = {**PROGRAMS, _STATIC_LIBC: "libc6-dev"}
    return [_machine(), *program_checks(packages, _is_there), _place(Cache.open(cache).root), _archive()]


def require(checks: list[Check], what_for: str = "build the lab") -> None:
    """Require that all checks passed; `what_for` is what this machine otherwise cannot do.

    Raises:
        TestbedError: A check failed; it lists all failures and the commands that mend them.
    """
    missing = [check for check in checks if not check.ok]
    if missing:
        what = "; ".join(f"{check.name}: {check.detail}" for check in missing)
        mends = dict.fromkeys(check.mend for check in missing if check.mend)
        raise TestbedError(f"this machine cannot {what_for}: {what}", hint=" && ".join(mends) or None)


def _machine() -> Check:
    machine = platform.machine()
    right = machine == "x86_64" and platform.system() == "Linux"
    detail = f"{platform.system()} on {machine}"
    return Check("machine", right, detail if right else f"{detail}; the lab needs Linux on x86_64")


def program_checks(packages: Mapping[str, str], is_there: Callable[[str], object]) -> list[Check]:
    """Check programs, each with the Debian package that brings it; one command installs all that lack."""
    lacking = {name: package for name, package in packages.items() if not is_there(name)}
    mend = install_command(sorted(set(lacking.values())))
    return [
        Check(name, False, "not found", mend, (lacking[name],))
        if name in lacking
        else Check(name, True, "found")
        for name in packages
    ]


def install_command(packages: Sequence[str]) -> str:
    """Return the command that installs Debian packages."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    install = f"{sudo}apt-get install --yes --no-install-recommends {' '.join(packages)}"
    return f"{sudo}apt-get update && {install}"  # fresh machines have no package lists


def _is_there(name: str) -> bool:
    if name != _STATIC_LIBC:
        return shutil.which(name) is not None
    try:  # the C library's headers and its static form; gcc only recommends it
        done = subprocess.run(
            ["gcc", "-print-file-name=libc.a"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return Path(done.stdout.strip()).is_absolute()  # gcc echoes the bare name when it finds nothing


def _place(root: Path) -> Check:
    if any(character.isspace() or character in ":#" for character in str(root)):
        detail = f"{root} contains a blank, a colon or a #, and make cannot build there"
        return Check("cache folder", False, detail, 'export XDG_CACHE_HOME="$(mktemp -d)"')
    existing = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if not os.access(existing, os.W_OK):
        return Check("cache folder", False, f"{existing} is not writable")
    right = free >= _FREE_BYTES
    detail = f"{root}, {free / 1e9:.1f} GB free"
    return Check(
        "cache folder", right, detail if right else f"{detail}; building needs {_FREE_BYTES / 1e9:.0f}"
    )


def _archive() -> Check:
    archives = debian_archives(read_sources())
    if archives:
        return Check("Debian archive", True, f"{archives[0].uri} (from the machine's apt configuration)")
    return Check("Debian archive", False, "the machine's apt configuration has no Debian mirror")


def _memory_files() -> Check:
    """Check the folder of the file in which user-mode Linux keeps a guest's memory, and executes it."""
    name, shm = "guest memory", Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
    if not os.access(shm, os.W_OK):
        return Check(name, True, f"{shm} is not writable; guests use the disk, and are slower")
    if os.statvfs(shm).f_flag & os.ST_NOEXEC:
        return Check(name, False, f"{shm} is mounted noexec", f"mount -o remount,exec {shm}")
    free = shutil.disk_usage(shm).free
    if free < _SHM_BYTES:
        return Check(name, True, f"{shm} has {free / 1e6:.0f} MB; guests will use the disk, and be slower")
    return Check(name, True, f"{shm}, {free / 1e9:.1f} GB free")


def _lab(cache: Path | None) -> Check:
    try:
        lab = Lab.locate(cache)
    except TestbedError as error:
        return Check("lab", False, error.message, HINT)
    return Check("lab", True, f"Linux {lab.kernel_release} from {lab.source}")
