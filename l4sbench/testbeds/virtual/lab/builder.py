# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Building a lab: its parts, the order in which they are made, and what is done only once."""

import os
import shlex
import subprocess
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from l4sbench.disk.files import write_whole
from l4sbench.errors import TestbedError
from l4sbench.facts.factors import DEFAULT_LAB
from l4sbench.testbeds.virtual.lab import source as sources
from l4sbench.testbeds.virtual.lab.aptsources import Archive, debian_archives, read_sources
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.doctor import build_checks, require
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.kepttree import kept_tree
from l4sbench.testbeds.virtual.lab.kernel import (
    DEBUGGING,
    Kernel,
    build_kernel,
    find_kernel,
    kernel_digest,
)
from l4sbench.testbeds.virtual.lab.lab import (
    HINT,
    Lab,
    LabRecord,
    ModuleRecord,
    read_record,
    read_records,
    record_key,
)
from l4sbench.testbeds.virtual.lab.linuxmodules import LinuxModules, build_linux_modules
from l4sbench.testbeds.virtual.lab.programs import (
    LabModule,
    ModuleInfo,
    Tools,
    build_modules,
    build_tools,
    find_module,
)
from l4sbench.testbeds.virtual.lab.pruning import LOCK_S, prune
from l4sbench.testbeds.virtual.lab.rootfs import compose_rootfs, first_boot
from l4sbench.testbeds.virtual.lab.source import Say, Source
from l4sbench.testbeds.virtual.lab.userland import Userland, build_userland, cached_userland, find_userland

_REMOVE = "l4sbench lab remove"


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build.

    Attributes:
        tarball: A kernel source tarball (`linux-7.*.tar.*`) to build from.
        kernel_tree: A kernel source folder to build from; a copy is built, the folder is left alone.
        jobs: Compilations at a time; the cores by default.
        force: Build every part anew, from the newest source and packages available.
        name: Name of the lab; labs with different names exist side by side.
        keep_tree: Keep the built tree of `kernel_tree`, a git work tree, so that the next build of this name
            compiles only what has changed since; it takes about 2 GB.
        debug: Build a kernel that looks for errors of modules (`DEBUGGING`), several times slower.
        needs: Kernel options, without `CONFIG_`, that the lab must offer beyond `kernel.config`. Those of
            earlier builds stay.
        cache: The cache folder; the user's own by default.
        kernels: The folder with `lab/` and the modules' sources; the project's own by default.
    """

    tarball: Path | None = None
    kernel_tree: Path | None = None
    jobs: int | None = None
    force: bool = False
    name: str = DEFAULT_LAB
    keep_tree: bool = False
    debug: bool = False
    needs: frozenset[str] = frozenset()
    cache: Path | None = None
    kernels: Path | None = None

    @property
    def own_kernel(self) -> bool:
        """True if the user names the kernel source."""
        return self.tarball is not None or self.kernel_tree is not None

    @property
    def debugging(self) -> frozenset[str]:
        """Options, without `CONFIG_`, that a kernel for debugging has built in; none for others."""
        return DEBUGGING if self.debug else frozenset()

    @property
    def command(self) -> str:
        """The command that builds the same lab."""
        named = () if self.name == DEFAULT_LAB else ("--name", self.name)
        tree = () if self.kernel_tree is None else ("--kernel-tree", str(self.kernel_tree.absolute()))
        tarball = () if self.tarball is None else ("--tarball", str(self.tarball.absolute()))
        debug = ["--debug"] * self.debug
        return shlex.join(
            [*HINT.split(), *named, *tree, *tarball, *(["--keep-tree"] * self.keep_tree), *debug]
        )


@dataclass(frozen=True)
class BuildStep:
    """The progress of a build.

    Attributes:
        stage: source, kernel, userland, tools, modules, check or done.
        message: The current step, in words.
        fraction: Share of the stage that is done, 0 to 1; None if it is not known.
    """

    stage: str
    message: str
    fraction: float | None = None


def build(options: BuildOptions, on_progress: Callable[[BuildStep], None] = lambda _: None) -> Lab:
    """Build the missing parts of the lab and return it; change nothing if no part is missing.

    A lab that is complete stays as it is: only `force` looks for a newer kernel in the archive and for newer
    packages.

    Raises:
        TestbedError: This machine lacks something (with the command that mends it), no kernel source is
            available, another build holds the lock, or a step failed (with the end of its log).
    """
    if options.tarball is not None and options.kernel_tree is not None:
        raise TestbedError("a tarball and a kernel tree exclude each other: name one of them")
    if options.keep_tree and options.kernel_tree is None:
        raise TestbedError("there is no kernel tree whose build could be kept", "name it with --kernel-tree")
    if options.debug and options.name == DEFAULT_LAB:
        raise TestbedError("the default lab's kernel is not for debugging", "name another lab with --name")
    cache, inputs = Cache.open(options.cache), Inputs.read(options.kernels)
    _require_source(cache, options)
    if (lab := _finished(cache, inputs, options)) is not None:
        return lab
    require(build_checks(options.cache))

    def on_wait(message: str) -> None:
        on_progress(BuildStep("check", message))

    with cache.lock(on_wait, LOCK_S) as lost:
        if lost is not None:
            on_progress(BuildStep("check", f"an earlier build did not finish: {lost}; cleaning up"))
        cache.clean()
        # the process that held the lock may have built what we need
        if (lab := _finished(cache, inputs, options)) is not None:
            return lab
        for record in _Build(cache, inputs, options, on_progress).run():
            path = cache.record(record_key(inputs, record.built_in, record.name))
            path.parent.mkdir(exist_ok=True)
            write_whole(path, record.model_dump_json(indent=1))
        prune(cache)
    lab = Lab.locate(options.cache, options.kernels, options.needs, options.name)
    on_progress(BuildStep("done", f"the lab is ready: Linux {lab.kernel_release}", 1.0))
    return lab


def _require_source(cache: Cache, options: BuildOptions) -> None:
    """Refuse to build a lab whose kernel is the user's own from another source without being asked to."""
    if options.name == DEFAULT_LAB or options.own_kernel:
        return
    record = next((one for one in read_records(cache).values() if one.name == options.name), None)
    if record is not None and record.own_kernel:
        message = f"the lab {options.name} has a kernel of your own, whose source is not named"
        raise TestbedError(message, f"{record.command}, or remove it: {_REMOVE} {options.name}")


def with_modules(
    lab: Lab, folders: Mapping[str, Path], on_progress: Callable[[BuildStep], None] = lambda _: None
) -> Lab:
    """Return a lab with further kernel modules, from outside the project, and build those that are missing.

    Args:
        lab: The lab; it stays as it is.
        folders: Folders with C and a Kbuild file, by the name of the module each makes. A name that the lab
            has already replaces the lab's own. make executes what is in them: name none that the user does
            not trust (`l4sbench.catalog.outside`).
        on_progress: Receives progress reports.

    Raises:
        TestbedError: A module cannot be built: what is missing, or the compiler's output.
    """
    if not folders:
        return lab
    cache = Cache.open(lab.kernel.parents[2])
    kernel, userland = find_kernel(cache, lab.kernel.parent.name), find_userland(cache, lab.userland.name)
    if kernel is None or userland is None:
        raise TestbedError("the lab is incomplete: its kernel or userland is gone", hint=HINT)

    def say(message: str, fraction: float | None) -> None:
        on_progress(BuildStep("modules", message, fraction))

    with cache.lock(lambda message: say(message, None), LOCK_S):
        added = build_modules(cache, folders, kernel, _cores(), say)
        modules = [*_modules_besides(lab, folders), *added]  # modules of Linux stay in load order
        rootfs = compose_rootfs(cache, userland, Tools(lab.tools, lab.digests.tools), modules)
        for path in (rootfs, *(module.path.parent for module in added)):
            os.utime(path)  # no record names them, and pruning goes by age
    return replace(_with(lab, modules), rootfs=rootfs)


def with_built_modules(lab: Lab, folders: Mapping[str, Path | None]) -> Lab:
    """Return a lab as `with_modules` does, but build nothing: modules that were never built are missing.

    Such a lab is for planning; it cannot boot with the modules.

    Args:
        lab: The lab; it stays as it is.
        folders: As for `with_modules`; None for a module whose source must not be looked at.
    """
    if not folders:
        return lab
    cache = Cache.open(lab.kernel.parents[2])
    kernel = find_kernel(cache, lab.kernel.parent.name)
    found = (
        find_module(cache, name, folder, kernel)
        for name, folder in sorted(folders.items())
        if folder is not None and kernel is not None
    )
    return _with(lab, [*_modules_besides(lab, folders), *(module for module in found if module is not None)])


def _modules_besides(lab: Lab, names: Container[str]) -> list[LabModule]:
    return [
        LabModule(name, path, ModuleInfo(srcversion=lab.srcversions[name], digest=lab.digests.modules[name]))
        for name, path in lab.modules.items()
        if name not in names
    ]


def _with(lab: Lab, modules: Sequence[LabModule]) -> Lab:
    return replace(
        lab,
        modules={module.name: module.path for module in modules},
        srcversions={module.name: module.info.srcversion for module in modules},
        digests=replace(lab.digests, modules={module.name: module.info.digest for module in modules}),
    )


def _finished(cache: Cache, inputs: Inputs, options: BuildOptions) -> Lab | None:
    """Return the lab if it is there and is what these options would build."""
    record = read_record(cache, record_key(inputs, name=options.name))
    if record is None or options.force or options.own_kernel or record.own_kernel:
        return None
    if record.debug != options.debug:  # --debug or its absence asks for another kernel
        return None
    if compiler_version() not in (record.compiler, None):  # without a compiler the lab cannot get better
        return None
    try:
        lab = Lab.locate(options.cache, options.kernels, options.needs, options.name)
    except TestbedError:
        return None
    return None if lab.lacks(options.needs | options.debugging) else lab


def compiler_version() -> str | None:
    """Return the versions of compiler and linker; None if one is missing."""
    try:
        said = [
            subprocess.run([name, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
            for name in ("gcc", "ld")
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(text.splitlines()[0] for text in said)


@dataclass(frozen=True)
class _Build:
    """One pass through all parts, which makes those that are not there."""

    cache: Cache
    inputs: Inputs
    options: BuildOptions
    on_progress: Callable[[BuildStep], None]

    def run(self) -> Iterator[LabRecord]:
        """Make all parts, beginning with those that fail soonest.

        Options beyond the kernel's configuration become modules of Linux. If one of them cannot be a module,
        a second lab is made whose kernel has them all built in: the first lab's results stay valid.
        """
        compiler = compiler_version() or ""
        tools = build_tools(self.cache, self.inputs, compiler, self._say("tools"), force=self.options.force)
        source = self._source()
        userland = self._userland()
        debugging = self.options.debugging
        kernel = self._kernel(source, compiler, debugging)
        before = read_record(self.cache, record_key(self.inputs, name=self.options.name))
        kept = before is not None and before.kernel == self._part(kernel.path)
        earlier = frozenset(before.options) if before and kept else frozenset[str]()
        wanted = earlier | (self.options.needs - kernel.built_in)
        linux = self._linux_modules(kernel, source, wanted)
        yield self._finish(
            compiler, tools, userland, kernel, linux or self._linux_modules(kernel, source, earlier)
        )
        if linux is None:
            kernel = self._kernel(source, compiler, wanted | debugging)
            yield self._finish(compiler, tools, userland, kernel, None, wanted)

    def _finish(
        self,
        compiler: str,
        tools: Tools,
        userland: Userland,
        kernel: Kernel,
        linux: LinuxModules | None,
        built_in: frozenset[str] = frozenset(),
    ) -> LabRecord:
        """Build our modules for a kernel, assemble the guest's root folder and boot it once."""
        cache, force, linux = self.cache, self.options.force, linux or LinuxModules()
        ours = build_modules(
            cache, self.inputs.modules, kernel, self._jobs, self._say("modules"), force=force
        )
        modules = (*ours, *linux.modules)
        rootfs = compose_rootfs(cache, userland, tools, modules, force=force)
        self._say("check")("booting the guest once", None)
        first_boot(kernel, rootfs, cache.logs / "first-boot.log")
        return LabRecord(
            inputs=self.inputs.digests,
            compiler=compiler,
            own_kernel=self.options.own_kernel,
            source=kernel.info.source,
            kernel=self._part(kernel.path),
            kernel_digest=kernel.info.digest,
            kernel_release=kernel.info.release,
            userland=self._part(userland.path),
            userland_digest=userland.path.name,
            tools=self._part(tools.path),
            tools_digest=tools.digest,
            rootfs=self._part(rootfs),
            modules={
                module.name: ModuleRecord(
                    part=self._part(module.path.parent),
                    srcversion=module.info.srcversion,
                    digest=module.info.digest,
                )
                for module in modules
            },
            options=dict(linux.options),
            built_in=tuple(sorted(built_in)),
            debug=self.options.debug,
            name=self.options.name,
            command=self.options.command,
            tree=str(self.options.kernel_tree.absolute()) if self.options.kernel_tree else "",
        )

    def _linux_modules(self, kernel: Kernel, source: Source, options: frozenset[str]) -> LinuxModules | None:
        say = self._say("modules")
        return build_linux_modules(self.cache, kernel, source, options, self._jobs, say)

    def _say(self, stage: str) -> Say:
        def say(message: str, fraction: float | None) -> None:
            self.on_progress(BuildStep(stage, message, fraction))

        return say

    def _part(self, path: Path) -> str:
        return path.relative_to(self.cache.root).as_posix()

    def _source(self) -> Source:
        named = self.options.tarball, self.options.kernel_tree
        return sources.chosen(self.cache, *named, _archives, self._say("source"), anew=self.options.force)

    def _userland(self) -> Userland:
        """Return the last userland, whatever it was made for; a new one if there is none."""
        known = None if self.options.force else cached_userland(self.cache)
        if known is not None:
            return known
        return build_userland(self.cache, _archives(), self._say("userland"), force=self.options.force)

    def _kernel(self, source: Source, compiler: str, built_in: frozenset[str] = frozenset()) -> Kernel:
        digest = kernel_digest(self.inputs, source, compiler, built_in)
        known = None if self.options.force else find_kernel(self.cache, digest)
        say = self._say("kernel")
        if known:
            return known
        kept = kept_tree(self.cache, self.options.name) if self.options.keep_tree else None
        return build_kernel(self.cache, self.inputs, source, digest, self._jobs, say, built_in, kept)

    @property
    def _jobs(self) -> int:
        return self.options.jobs or _cores()


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _archives() -> tuple[Archive, ...]:
    return debian_archives(read_sources())
