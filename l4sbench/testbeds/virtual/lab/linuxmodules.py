# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Building modules of Linux itself, for options that catalog entries need and the kernel was built without.

A module leaves the kernel as it is: other cells keep theirs, and a build takes seconds, not minutes. Queues,
congestion controls and the modules that they need are below `net/` in the kernel source. Options of other
folders, and those that can only be built in, need another kernel.
"""

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from l4sbench.disk.files import write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache, digest_of, digest_of_file, read_note
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.inputs import RECIPE
from l4sbench.testbeds.virtual.lab.kernel import REPEATABLE, Kernel, make, read_options, unpack
from l4sbench.testbeds.virtual.lab.programs import LabModule, ModuleInfo, modinfo
from l4sbench.testbeds.virtual.lab.source import Say, Source
from l4sbench.text.models import Strict

_COMPILE_S = 900
_FOLDER = "net"

_SELECTED = (
    "--skip-old-files",  # the kernel's own tree is patched
    *("--wildcards", "--wildcards-match-slash", "*/Kconfig*"),
    *("--no-wildcards-match-slash", f"*/{_FOLDER}"),
)
"""Options of tar: the source below `net/`, and all Kconfig files, which refer to each other."""


class _Info(Strict):
    """The cache's note on modules of Linux that were built together."""

    modules: dict[str, ModuleInfo]
    options: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class LinuxModules:
    """Modules of Linux for one kernel.

    Attributes:
        modules: In an order in which they can be loaded.
        options: Kernel option, without `CONFIG_` -> names of the modules that provide it, in load order.
    """

    modules: tuple[LabModule, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class _NotModularError(Exception):
    """An option cannot be a module of this kernel."""


def build_linux_modules(
    cache: Cache, kernel: Kernel, source: Source, options: frozenset[str], jobs: int, say: Say
) -> LinuxModules | None:
    """Build options of Linux as modules for a kernel into the cache, unless they are there.

    Args:
        cache: The cache.
        kernel: The kernel to build for.
        source: The source that the kernel was built from.
        options: Kernel options without `CONFIG_`, none of which the kernel has built in.
        jobs: Compilations at a time.
        say: Receives progress messages.

    Returns:
        The modules, or None if one of the options cannot be a module.

    Raises:
        TestbedError: This version of Linux does not have one of the options, or a step failed.
    """
    if not options:
        return LinuxModules()
    digest = digest_of([RECIPE["modules"], kernel.path.name, "Linux", *sorted(options)])
    part = cache.part("modules", digest)
    info = read_note(part / "info.json", _Info)
    if info is None:
        try:
            with cache.stage("modules", digest) as stage:
                info = _build(cache, kernel, source, options, jobs, say, stage)
        except _NotModularError:
            return None
    modules = (LabModule(name, part / f"{name}.ko", built) for name, built in info.modules.items())
    return LinuxModules(tuple(modules), info.options)


def _build(
    cache: Cache,
    kernel: Kernel,
    source: Source,
    options: frozenset[str],
    jobs: int,
    say: Say,
    stage: Path,
) -> _Info:
    commands = Commands.logging_to(cache.logs / "linux-modules.log", REPEATABLE)
    tree = stage / "tree"
    say("unpacking the kernel source for modules of Linux", None)
    shutil.copytree(kernel.tree, tree, symlinks=True)
    unpack(commands, source, tree, selected=_SELECTED)
    made_by = _modules_by_option(tree)
    _configure(commands, kernel, tree, options, made_by)
    say(f"compiling modules of Linux: {', '.join(sorted(options))}", None)
    make(commands, tree, "syncconfig", what="configuring modules of Linux")
    folder = tree / _FOLDER
    make(
        commands,
        tree,
        f"-j{jobs}",
        f"M={folder}",
        "modules",
        what="compiling modules of Linux",
        timeout_s=_COMPILE_S,
    )
    built = {path.stem: path for path in folder.rglob("*.ko")}
    provided = {option: _load_order(made_by[option], built) for option in sorted(options)}
    infos = {}
    for name in dict.fromkeys(name for names in provided.values() for name in names):
        kept = stage / f"{name}.ko"
        commands.run(["strip", "--strip-debug", "-o", kept, built[name]], what="stripping", timeout_s=60)
        infos[name] = ModuleInfo(srcversion=modinfo(kept, "srcversion"), digest=digest_of_file(kept))
    shutil.rmtree(tree)
    info = _Info(modules=infos, options=provided)
    write_whole(stage / "info.json", info.model_dump_json(indent=1))
    return info


def _modules_by_option(tree: Path) -> dict[str, tuple[str, ...]]:
    """Return the modules that each option makes, as the Makefiles below `net/` say."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted((tree / _FOLDER).rglob("*")):
        if path.name in ("Makefile", "Kbuild"):
            text = path.read_text(encoding="utf-8").replace("\\\n", " ")
            for option, words in re.findall(r"^obj-\$\(CONFIG_(\w+)\)\s*[:+]?=(.*)$", text, re.MULTILINE):
                objects = (word.removesuffix(".o") for word in words.split() if word.endswith(".o"))
                found[option] = (*found.get(option, ()), *objects)
    return {option: modules for option, modules in found.items() if modules}


def _configure(
    commands: Commands, kernel: Kernel, tree: Path, options: frozenset[str], made_by: Mapping[str, object]
) -> None:
    """Switch the options on as modules, and make sure that nothing else about the kernel changes."""
    known = {
        name
        for path in tree.rglob("Kconfig*")
        for name in re.findall(r"^\s*(?:menu)?config\s+(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    if unknown := sorted(options - known):
        raise TestbedError(
            f"Linux {kernel.info.release} has no option {', '.join(f'CONFIG_{name}' for name in unknown)}",
            hint="correct needs.config in the module.yml that names it",
        )
    config = tree / ".config"
    shutil.copy(kernel.path / "config", config)
    with config.open("a", encoding="utf-8") as file:
        file.writelines(f"CONFIG_{name}=m\n" for name in sorted(options))
    make(commands, tree, "olddefconfig", what="configuring modules of Linux")
    before, after = read_options(kernel.path / "config"), read_options(config)
    added = {name for name, value in after.items() if value == "m" and before.get(name) != "m"}
    changed = {name for name in {*before, *after} - added if before.get(name) != after.get(name)}
    if changed or not options <= {name for name, value in after.items() if value == "m"}:
        raise _NotModularError
    if not {*added, *options} <= made_by.keys():
        raise _NotModularError


def _load_order(names: Iterable[str], built: Mapping[str, Path]) -> tuple[str, ...]:
    """Return these modules and all that they depend on, each after what it depends on."""
    by_name = {name.replace("-", "_"): name for name in built}  # as modules name each other
    order: dict[str, None] = {}

    def add(name: str) -> None:
        for other in filter(None, modinfo(built[name], "depends").split(",")):
            if other in by_name:
                add(by_name[other])
        order.setdefault(name)

    for name in names:
        add(name)
    return tuple(order)
