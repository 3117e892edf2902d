# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Compiling the project's C: the guest's static programs, and the kernel modules."""

import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from l4sbench.disk.files import write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache, digest_of, digest_of_file, digest_of_files, read_note
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.inputs import RECIPE, Inputs, source_files
from l4sbench.testbeds.virtual.lab.kernel import REPEATABLE, Kernel
from l4sbench.testbeds.virtual.lab.source import Say
from l4sbench.text.models import Strict

PROGRAMS = ("lab-init", "lab-sampler", "lab-traffic")
_COMPILE_S = 300


@dataclass(frozen=True)
class Tools:
    """The guest's programs, compiled; `digest` covers the programs, not how they were made."""

    path: Path
    digest: str


class ModuleInfo(Strict):
    """The cache's note on a compiled kernel module."""

    srcversion: str
    digest: str


@dataclass(frozen=True)
class LabModule:
    """A compiled kernel module; `path` is its `.ko`."""

    name: str
    path: Path
    info: ModuleInfo

    @property
    def tc_extensions(self) -> tuple[Path, ...]:
        """Extensions by which tc knows the queue: `q_<kind>.so`, where its folder has `q_<kind>.c`."""
        return tuple(sorted(self.path.parent.glob("q_*.so")))


def build_tools(cache: Cache, inputs: Inputs, compiler: str, say: Say, *, force: bool = False) -> Tools:
    """Compile the guest's programs into the cache, unless they are there.

    Raises:
        TestbedError: The compilation failed, or a program is missing afterwards.
    """
    name = digest_of([RECIPE["tools"], inputs.digests["guest programs"], compiler])
    part = cache.part("tools", name)
    if force or not part.is_dir():
        say("compiling the guest's programs", None)
        commands = Commands.logging_to(cache.logs / "tools.log")
        with cache.stage("tools", name) as stage:
            commands.run(
                ["make", "-C", inputs.guest, f"OUT={stage}"],
                what="compiling the guest's programs",
                timeout_s=_COMPILE_S,
            )
            missing = [program for program in PROGRAMS if not (stage / program).is_file()]
            if missing:
                raise TestbedError(f"make in {inputs.guest} did not make {', '.join(missing)}")
            for path in stage.iterdir():
                if path.name not in PROGRAMS:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Tools(part, digest_of_files(part, part.iterdir()))


def build_modules(
    cache: Cache, folders: Mapping[str, Path], kernel: Kernel, jobs: int, say: Say, *, force: bool = False
) -> tuple[LabModule, ...]:
    """Compile those kernel modules that the cache does not have for a kernel.

    Args:
        cache: The cache.
        folders: Folders with C and a Kbuild file, by the name of the module each makes.
        kernel: The kernel to build for.
        jobs: Modules at a time.
        say: Receives progress messages, also from other threads.
        force: Compile all of them, also those that the cache has.

    Raises:
        TestbedError: A compilation failed, or a Kbuild file makes a module of another name.
    """

    def one(name: str) -> LabModule:
        known = None if force else find_module(cache, name, folders[name], kernel)
        if known is not None:
            return known
        say(f"compiling the module {name}", None)
        part = _module_part(cache, name, folders[name], kernel)
        info = _build_module(cache, name, folders[name], kernel, part.name)
        return LabModule(name, part / f"{name}.ko", info)

    # most of a module's time goes into make and the linker, one process after the other
    with ThreadPoolExecutor(jobs) as pool:
        return tuple(pool.map(one, sorted(folders)))


def find_module(cache: Cache, name: str, folder: Path, kernel: Kernel) -> LabModule | None:
    """Return the module that was built from these files for a kernel; None if the cache does not have it."""
    part = _module_part(cache, name, folder, kernel)
    info = read_note(part / "info.json", ModuleInfo)
    return None if info is None else LabModule(name, part / f"{name}.ko", info)


def _module_part(cache: Cache, name: str, folder: Path, kernel: Kernel) -> Path:
    files = digest_of_files(folder, source_files(folder))
    return cache.part("modules", digest_of([RECIPE["modules"], kernel.path.name, name, files]))


def _build_module(cache: Cache, name: str, folder: Path, kernel: Kernel, digest: str) -> ModuleInfo:
    commands = Commands.logging_to(cache.logs / f"module-{name}.log", REPEATABLE)
    with cache.stage("modules", digest) as stage:
        work = stage / "work"
        for path in source_files(folder):  # the source may be read-only, and several kernels share it
            copy = work / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        commands.run(
            ["make", "-C", kernel.tree, "ARCH=um", f"M={work}", "modules"],
            what=f"compiling the module {name}",
            timeout_s=_COMPILE_S,
        )
        built = work / f"{name}.ko"
        if not built.is_file():
            made = ", ".join(sorted(path.name for path in work.glob("*.ko"))) or "nothing"
            raise TestbedError(f"{folder / 'Kbuild'} must make {name}.ko, it made {made}")
        commands.run(["strip", "--strip-debug", built], what="stripping", timeout_s=60)
        built.rename(stage / built.name)
        extensions = [_build_tc_extension(source, stage, commands) for source in sorted(work.glob("q_*.c"))]
        shutil.rmtree(work)
        results = [stage / built.name, *extensions]
        info = ModuleInfo(
            srcversion=modinfo(stage / built.name, "srcversion"),
            digest=digest_of_files(stage, results) if extensions else digest_of_file(stage / built.name),
        )
        write_whole(stage / "info.json", info.model_dump_json(indent=1))
    return info


def _build_tc_extension(source: Path, stage: Path, commands: Commands) -> Path:
    """Compile tc's part of a queue; tc itself has the functions that it calls."""
    library = stage / f"{source.stem}.so"
    commands.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", library, source.name],
        what=f"compiling {source.name}",
        timeout_s=_COMPILE_S,
        cwd=source.parent,
    )
    return library


def modinfo(module: Path, key: str) -> str:
    """Return an entry of a module's .modinfo section, such as `srcversion` or `depends`.

    Raises:
        TestbedError: The module has no such entry; `srcversion` needs CONFIG_MODULE_SRCVERSION_ALL.
    """
    start = f"{key}=".encode()
    for entry in module.read_bytes().split(b"\0"):
        if entry.startswith(start):
            return entry.removeprefix(start).decode()
    raise TestbedError(f"{module.name} has no {key}")
