# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Builds of the programs of senders: once each, static, in a copy of the sender's folder.

Only a build needs the network: it fetches what the sender's lock file names, by the ordinary clients. The
program is kept below the user's cache under the digest of what it is built from.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk.executables import Executable
from l4sbench.disk.files import new_folder
from l4sbench.errors import InputError, TestbedError
from l4sbench.testbeds.virtual.lab.command import Commands

if TYPE_CHECKING:
    from l4sbench.catalog.senders import SenderEntry, Tool

BUILD_LIMIT_S: Final = 3600.0
"""A build has minutes of work, and a busy machine takes several times as long."""

USUAL_PLACES: Final[Mapping[str, str]] = {"cargo": "~/.cargo/bin/cargo", "go": "/usr/local/go/bin/go"}
"""Places where installers leave toolchains, which the path of programs may lack."""

_LOCK_FILE: Final = "Cargo.lock"
_CARGO_PROGRAM: Final = "sender"
"""Name of the program in every sender's Cargo.toml: that of the folder may be that of a library."""
_CHECKSUM: Final = re.compile(r"^(checksum = )", re.MULTILINE)
_SOURCE: Final = re.compile(r'^source = ".*"$', re.MULTILINE)


@dataclass(frozen=True)
class _Toolchain:
    """A way to build: the program that it needs, how to get that, and its steps."""

    program: str
    advice: str
    steps: Callable[[_Build], None]


@dataclass(frozen=True)
class _Build:
    """A build under way: the toolchain's program, the copy of the sources, and where the result goes."""

    name: str
    tool: Path
    sources: Path
    scratch: Path
    out: Path
    commands: Commands

    def run(self, *words: str, step: str, env: Mapping[str, str] | None = None) -> None:
        """Run the toolchain's program in the sources."""
        commands = Commands(self.commands.log, {**self.commands.env, **(env or {})})
        what = f"sender {self.name}: {step}"
        commands.run([self.tool, *words], what=what, timeout_s=BUILD_LIMIT_S, cwd=self.sources)


def build(sender: SenderEntry) -> Path:
    """Build a sender's program unless that is done, and return its file.

    Raises:
        InputError: the sources have links, or what they make is not a static program.
        TestbedError: the toolchain is missing, or the build failed; the error has its last lines.
    """
    from filelock import FileLock

    program = sender.program
    tool = require_toolchain(sender)
    place = program.file.parent
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_name(f".{place.name}.lock")):
            if not program.is_built:
                commands = Commands.logging_to(place.parent.parent / "log" / f"sender-{sender.name}.log")
                with new_folder(place, replace=True) as partial:
                    _build_in(partial, sender, tool, commands)
    except OSError as error:
        message = f"cannot build sender {sender.name} in {place.parent}: {error.strerror}"
        raise TestbedError(message, "set XDG_CACHE_HOME to a folder of your own") from error
    return program.file


def require_toolchain(sender: SenderEntry) -> Path:
    """Return the program that builds a sender.

    Raises:
        TestbedError: it, or another program that the build needs, is not installed; the hint has the command.
    """
    chain = _TOOLCHAINS[sender.stated.build]
    places = (shutil.which(chain.program), USUAL_PLACES.get(chain.program))
    found = next((path for place in places if place and (path := Path(place).expanduser()).is_file()), None)
    if found is None:
        message = f"sender {sender.name} is built with {chain.program}, which is missing"
        raise TestbedError(message, chain.advice)
    missing = [name for name in sender.stated.needs if shutil.which(name) is None]
    if missing:
        message = f"the build of sender {sender.name} needs {', '.join(missing)}, which PATH does not have"
        raise TestbedError(message, f"apt install {' '.join(missing)}")
    return found


def _build_in(folder: Path, sender: SenderEntry, tool: Path, commands: Commands) -> None:
    """Leave the program, and nothing else, in a folder."""
    sources, scratch = folder / "sources", folder / "scratch"
    out = folder / sender.name
    sources.mkdir()
    scratch.mkdir()
    sender.code.write(sources)
    _TOOLCHAINS[sender.stated.build].steps(_Build(sender.name, tool, sources, scratch, out, commands))
    shutil.rmtree(sources)
    shutil.rmtree(scratch, ignore_errors=True)
    if not out.is_file():
        raise TestbedError(f"sender {sender.name}: the build left no program", f"the log is {commands.log}")
    out.chmod(0o755)
    Executable(sender.name, out).require_usable()


def _by_cargo(build: _Build) -> None:
    """Build by cargo for the C library of this machine, linked statically."""
    target = f"{platform.machine()}-unknown-linux-gnu"
    lock = build.sources / _LOCK_FILE
    if not lock.is_file():
        raise InputError(f"sender {build.name} has no {_LOCK_FILE}", "cargo generate-lockfile")
    stated = lock.read_text(encoding="utf-8")
    if not _SOURCE.search(stated):
        lock.unlink()
        build.run("generate-lockfile", step="cargo cannot read the registry's index")
        lock.write_text(_with_sources(stated, lock.read_text(encoding="utf-8")), encoding="utf-8")
    env = {
        "CARGO_TARGET_DIR": str(build.scratch),
        "RUSTFLAGS": f"-C target-feature=+crt-static --remap-path-prefix={build.sources}=.",
    }
    build.run("build", "--release", "--locked", "--target", target, step="cargo build", env=env)
    made = build.scratch / target / "release" / _CARGO_PROGRAM
    if made.is_file():
        shutil.copyfile(made, build.out)


def _with_sources(stated: str, generated: str) -> str:
    """Return a lock file whose packages have checksums with the registry that cargo itself takes them from.

    The lock files of this project name no registry, and cargo takes a package without one for a local folder.
    """
    source = _SOURCE.search(generated)
    return _CHECKSUM.sub(f"{source[0]}\n\\1", stated) if source else stated


def _by_go(build: _Build) -> None:
    """Build by Go, without C; the lock file is go.sum."""
    env = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false", "GOWORK": "off"}
    build.run("build", "-ldflags=-s -w -buildid=", "-o", str(build.out), ".", step="go build", env=env)


def _by_cc(build: _Build) -> None:
    """Compile all C files of the folder together."""
    files = sorted(path.name for path in build.sources.glob("*.c"))
    flags = ("-O2", "-std=gnu17", "-D_GNU_SOURCE", f"-ffile-prefix-map={build.sources}=.", "-static")
    build.run(*flags, "-o", str(build.out), *files, "-lm", step="cc")


_TOOLCHAINS: Final[Mapping[Tool, _Toolchain]] = {
    "cargo": _Toolchain("cargo", "install Rust by rustup, and the C library for linking", _by_cargo),
    "go": _Toolchain("go", "install Go from https://go.dev/dl", _by_go),
    "cc": _Toolchain("cc", "apt install gcc libc6-dev", _by_cc),
}
