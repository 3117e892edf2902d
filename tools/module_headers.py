# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Compile, check and install our kernel modules with the kernel headers that Debian ships.

For Debian 13 with backports and for Debian sid: the newest headers of each kernel line from 7.0 on, with that
suite's own compiler, in a folder that is entered by chroot and removed again, where DKMS installs them too.
A queue's part of tc is compiled there as well.
Parts of Linux that Debian leaves out (`kernels/linux`) are built by DKMS from the source of the same suite.
Packages come from an archive in the machine's apt configuration, about 100 MB for each suite, and 170 MB for
each source of a kernel. Needs root, or user namespaces.

Exit code: 0 all is well, 1 something is not, 77 it cannot be tried here (the reason is printed).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from l4sbench.disk import assets
from l4sbench.disk.files import remove_tree
from l4sbench.disk.trust import read_code
from l4sbench.errors import TestbedError
from l4sbench.testbeds.ssh.dkms import package
from l4sbench.testbeds.ssh.facts import parts_of_linux
from l4sbench.testbeds.virtual.lab.aptsources import debian_archives, read_sources
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.scratchapt import ScratchApt

SUITES = {"trixie-backports": "trixie trixie-backports", "sid": "sid"}
"""Suites that apt reads, by the name of the suite under test."""
FIRST = (7, 0)
HEADERS = re.compile(r"linux-headers-((\d+)\.(\d+)\.(\d+)\S*)-amd64$")
# fmt: off
TOOLS = ("base-files", "bash", "binutils", "coreutils", "dash", "diffutils", "dkms", "findutils", "gcc",
         "grep", "gzip", "kmod", "libc6-dev", "make", "mawk", "perl-base", "sed", "sparse", "tar",
         "util-linux", "xz-utils")
# fmt: on
LEFT_OUT = ("doc", "man", "locale", "info", "lintian")
CANNOT = 77

ENTER = """\
set -e
mount --rbind /dev "$0/dev"
mount --rbind /proc "$0/proc"
mount -t tmpfs tmp "$0/tmp"
exec chroot "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"
"""

EXPLAINED = (
    r"(error|warning): bad constant expression",  # module_param, MODULE_*: in the kernel's own modules too
)
"""Reports of sparse that stay; kernels/tcp_prague/README.md has the reasons."""


class CannotError(Exception):
    """Something this machine lacks."""


@dataclass(frozen=True)
class Root:
    """An unpacked system in which programs can run."""

    path: Path
    commands: Commands

    def run(self, *argv: str, timeout_s: float = 600) -> str:
        """Run a program in the system and return its output, errors included.

        Raises:
            TestbedError: The program failed.
        """
        said: list[str] = []
        users = [] if os.geteuid() == 0 else ["--map-root-user"]
        self.commands.run(
            ["unshare", *users, "--mount", "sh", "-c", ENTER, self.path, *argv],
            what=" ".join(argv),
            timeout_s=timeout_s,
            on_line=said.append,
        )
        return "\n".join(said)


@contextmanager
def system(apt: ScratchApt, names: Sequence[str]) -> Iterator[Root]:
    """Unpack packages and their dependencies into a folder, and remove it afterwards."""
    home = Cache.open().root
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="headers-", dir=home))
    try:
        root, debs = folder / "root", folder / "debs"
        root.mkdir()
        debs.mkdir()
        files = apt.download(apt.resolve((*names, *TOOLS)), debs)
        # base-files first: it brings the links /bin -> usr/bin ..., and other packages go through them
        for deb in sorted(files, key=lambda deb: (not deb.name.startswith("base-files_"), deb.name)):
            left_out = [f"--exclude=./usr/share/{name}/*" for name in LEFT_OUT]
            apt.commands.pipe(
                ["dpkg-deb", "--fsys-tarfile", deb],
                ["tar", "-x", "-C", root, "--no-same-owner", "--keep-directory-symlink", *left_out],
                what=f"unpacking {deb.name}",
                timeout_s=120,
            )
        for name in ("dev", "proc", "tmp", "root", "var/lib/dkms", "etc"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "usr/bin/awk").symlink_to("mawk")  # as update-alternatives would do
        for scripts in root.glob("usr/src/linux-headers-*-common/scripts"):
            # Debian leaves out the script that tests whether the checker works
            valid = scripts / "checker-valid.sh"
            valid.write_text("#!/bin/sh\necho 1\n", encoding="utf-8")
            valid.chmod(0o755)
        yield Root(root, apt.commands)
    finally:
        shutil.rmtree(debs, ignore_errors=True)
        remove_tree(folder)


def newest_of_each_line(apt: ScratchApt) -> list[str]:
    """Return the releases whose headers the suite has: the newest of 7.0, of 7.1 and so on."""
    found: dict[tuple[int, int], tuple[int, str]] = {}
    for offered in apt.offered(r"^linux-headers-[0-9].*-amd64$"):
        match = HEADERS.match(offered.name)
        if match and not re.search("cloud|rt", match[1]) and (int(match[2]), int(match[3])) >= FIRST:
            line = (int(match[2]), int(match[3]))
            found[line] = max(found.get(line, (-1, "")), (int(match[4]), f"{match[1]}-amd64"))
    return [release for _, (_, release) in sorted(found.items())]


def remarks(output: str, kind: str) -> list[str]:
    """Return the lines with complaints of a compiler or checker, without the explained ones."""
    lines = [line for line in output.splitlines() if re.search(kind, line)]
    return [line for line in lines if not any(re.search(known, line) for known in EXPLAINED)]


def try_module(root: Root, name: str, version: str, release: str, keep: Path | None) -> list[str]:
    """Return the problems of a module on one kernel; copy the module to `keep`/`release`."""
    wrong: list[str] = []
    make = ("make", "-C", f"/{name}", f"KDIR=/lib/modules/{release}/build")
    wrong += remarks(root.run(*make, "modules", "W=1"), "warning:|error:")
    if keep is not None:
        (keep / release).mkdir(parents=True, exist_ok=True)
        shutil.copy(root.path / name / f"{name}.ko", keep / release)
    root.run(*make, "clean")
    sparse = "CHECK=sparse -D__typeof_unqual__=__typeof__"
    said = root.run(*make, "modules", "C=2", sparse)
    wrong += remarks(said, "warning:|error:")
    if "  CHECK " not in said:
        wrong.append("sparse did not run")
    root.run(*make, "clean")
    return wrong + try_dkms(root, name, version, release)


def try_dkms(root: Root, name: str, version: str, release: str, keep: Path | None = None) -> list[str]:
    """Return the problems of installing a module by DKMS for one kernel, and of removing it.

    Args:
        root: System.
        name: Module.
        version: Its version.
        release: Kernel.
        keep: Folder for a copy of what was installed, in `keep`/`release`; None: keep none.
    """
    wrong: list[str] = []
    root.run("dkms", "add", f"/{name}")
    root.run("dkms", "install", f"{name}/{version}", "-k", release)
    installed = sorted((root.path / "usr/lib/modules" / release).rglob(f"{name}.ko*"))
    for path in installed:
        magic = root.run("modinfo", "-F", "vermagic", f"/{path.relative_to(root.path)}")
        if not magic.startswith(f"{release} "):
            wrong.append(f"dkms installed a module for {magic}")
        if keep is not None:
            (keep / release).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, keep / release)
    if len(installed) != 1:
        wrong.append(f"dkms installed {len(installed)} modules")
    root.run("dkms", "remove", f"{name}/{version}", "--all")
    return wrong + [f"dkms remove left {path.name}" for path in installed if path.exists()]


def try_tc(root: Root, name: str) -> list[str]:
    """Return the problems of tc's part of a module, which is a file of its own where there is one."""
    wrong: list[str] = []
    for source in sorted((root.path / name).glob("q_*.c")):
        wrong += remarks(root.run("make", "-C", f"/{name}", "CC=gcc", f"{source.stem}.so"), "warning:|error:")
        if not source.with_suffix(".so").is_file():
            wrong.append(f"make left no {source.stem}.so")
    return wrong


def try_part(root: Root, apt: ScratchApt, folder: Path, release: str, keep: Path | None) -> list[str]:
    """Return the problems of a part of Linux on one kernel, with the file of the kernel's own source.

    The module is copied to `keep`/`release`, compressed as DKMS installs it.
    """
    made = package(read_code(folder))
    if made is None or made.name != folder.name:
        raise TestbedError(f"{folder}/dkms.conf is not of {folder.name}")
    series = ".".join(release.split(".")[:2])
    (source,) = (one for one in apt.offered(f"^linux-source-{series}$") if one.name.endswith(series))
    place = root.path / made.name
    made.code.write(place)
    with tempfile.TemporaryDirectory(dir=root.path) as fetched:
        (deb,) = apt.download([source], Path(fetched))
        flat = ["--transform", "s,.*/,,", "--wildcards", "*.tar.xz"]
        unpack = ["tar", "-x", "-C", fetched, "--no-same-owner", *flat]
        apt.commands.pipe(
            ["dpkg-deb", "--fsys-tarfile", deb], unpack, what=f"unpacking {deb.name}", timeout_s=600
        )
        (packed,) = Path(fetched).glob("*.tar.xz")
        own = [
            "--strip-components",
            str(made.linux_file.count("/") + 1),
            f"linux-source-{series}/{made.linux_file}",
        ]
        argv = ["tar", "-x", "-f", str(packed), "-C", str(place), "--no-same-owner", *own]
        apt.commands.run(argv, what=f"unpacking {made.linux_file}", timeout_s=600)
    wrong = try_dkms(root, made.name, made.version, release, keep)
    remove_tree(place)
    return wrong


def try_suite(name: str, keep: Path | None = None) -> int:
    """Return how often a module has problems on a kernel of a suite."""
    archives = debian_archives(read_sources())
    if not archives:
        raise CannotError("the machine's apt configuration has no Debian archive")
    home, log = Cache.open().root, Cache.open().logs / f"headers-{name}.log"
    try:
        apt = ScratchApt.open(home / "apt", archives[0], SUITES[name], log)
    except TestbedError as error:
        raise CannotError(f"could not read {name}: {error.message}") from error
    releases = newest_of_each_line(apt)
    failed = 0
    with system(apt, [f"linux-headers-{release}" for release in releases]) as root:
        kernels = assets.folder("kernels")
        for folder in sorted(conf.parent for conf in kernels.glob("*/dkms.conf")):
            module = folder.name
            made = package(read_code(folder, links_below=kernels))
            if made is None or made.name != module:
                raise TestbedError(f"{folder}/dkms.conf is not of {module}")
            made.code.write(root.path / module)
            beside = try_tc(root, module)
            failed += bool(beside)
            if beside:
                print(f"{module} {name} tc: {'; '.join(beside)}", flush=True)
            for release in releases:
                wrong = try_module(root, module, made.version, release, keep)
                failed += bool(wrong)
                print(f"{module} {name} {release}: {'; '.join(wrong) if wrong else 'ok'}", flush=True)
        for folder in parts_of_linux().values():
            for release in releases:
                wrong = try_part(root, apt, folder, release, keep)
                failed += bool(wrong)
                print(f"{folder.name} {name} {release}: {'; '.join(wrong) if wrong else 'ok'}", flush=True)
    if not releases:
        raise CannotError(f"{name} has no kernel from {FIRST[0]}.{FIRST[1]} on")
    return failed


def main() -> int:
    """Try the suites named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "suite", nargs="*", default=list(SUITES), help=f"choose from {', '.join(SUITES)}; default: all"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave modules in DIR/<kernel>")
    args = parser.parse_args()
    users = [] if os.geteuid() == 0 else ["--map-root-user"]
    try:
        if subprocess.run(
            ["unshare", *users, "--mount", "true"], capture_output=True, check=False
        ).returncode:
            raise CannotError("this user may not make a mount namespace")
        return 1 if sum(try_suite(suite, args.keep) for suite in args.suite) else 0
    except CannotError as reason:
        print(f"not tried: {reason}", file=sys.stderr)
        return CANNOT
    except TestbedError as error:
        print(f"{error.message}\nhint: {error.hint}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
