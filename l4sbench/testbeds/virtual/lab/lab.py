# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The built lab: where its parts are in the cache, and whether they were built from the current sources."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import Field

from l4sbench.errors import TestbedError
from l4sbench.facts.factors import DEFAULT_LAB
from l4sbench.testbeds.virtual.lab.cache import Cache, digest_of, read_note
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.kernel import read_options
from l4sbench.text.models import Strict

HINT = "l4sbench lab build"
BEFORE_KEY = "."
"""Between a lab's name and the key of its inputs in the name of its record."""

GUEST_BIN = PurePosixPath("/lab/bin")
"""Folder of the lab's own programs inside the guest."""
GUEST_MODULES = PurePosixPath("/lab/modules")
"""Folder of the lab's kernel modules inside the guest, as `<name>.ko`."""


class ModuleRecord(Strict):
    """The cache's record of one built kernel module."""

    part: str
    srcversion: str
    digest: str


class LabRecord(Strict):
    """The result of one finished build: parts are paths below the cache's root.

    `options` is as in `Lab`; `built_in` are the options that this kernel has beyond `kernel.config`, because
    catalog entries need them and they cannot be modules. `debug`: its kernel looks for errors of modules.
    `name` is the lab's, `command` builds it again, and `tree` is the folder of the user's kernel tree.
    """

    format: int = 1
    inputs: dict[str, str]
    compiler: str
    own_kernel: bool
    source: str
    kernel: str
    kernel_digest: str
    kernel_release: str
    userland: str
    userland_digest: str
    tools: str
    tools_digest: str
    rootfs: str
    modules: dict[str, ModuleRecord]
    options: dict[str, tuple[str, ...]] = Field(default={})
    built_in: tuple[str, ...] = ()
    debug: bool = False
    name: str = DEFAULT_LAB
    command: str = HINT
    tree: str = ""

    def parts(self) -> frozenset[str]:
        """Every part that this lab needs in order to run, as paths below the cache's root."""
        modules = (module.part for module in self.modules.values())
        return frozenset({self.kernel, self.userland, self.tools, self.rootfs, *modules})


@dataclass(frozen=True)
class Digests:
    """Digests of the content of all that runs; equal digests mean equal bits, on any machine."""

    kernel: str
    userland: str
    tools: str
    modules: Mapping[str, str]


@dataclass(frozen=True)
class Lab:
    """A complete lab: everything the virtual testbed needs to boot a guest.

    Attributes:
        kernel: The user-mode Linux program.
        kernel_release: Output of `uname -r` in the guest.
        kernel_config: The configuration the kernel was built with.
        rootfs: The guest's root folder, for hostfs. It also holds the tools in `GUEST_BIN` and the modules
            in `GUEST_MODULES`.
        userland: The part of the cache that holds the guest's userland alone.
        tools: Folder of the static programs `lab-init`, `lab-traffic` and `lab-sampler` on the host.
        modules: Kernel modules by name, ours and those of Linux; each a `.ko` on the host. In load order.
        options: Kernel options, without `CONFIG_`, that modules of Linux provide -> the modules' names.
        srcversions: The modules' source versions, as the kernel shows them in /sys/module.
        digests: Digests of all that runs.
        source: Where the kernel source came from, in words.
        name: Its name.
    """

    kernel: Path
    kernel_release: str
    kernel_config: Path
    rootfs: Path
    userland: Path
    tools: Path
    modules: Mapping[str, Path]
    options: Mapping[str, tuple[str, ...]]
    srcversions: Mapping[str, str]
    digests: Digests
    source: str
    name: str = DEFAULT_LAB

    @classmethod
    def locate(
        cls,
        cache: Path | None = None,
        kernels: Path | None = None,
        needs: Iterable[str] = (),
        name: str = DEFAULT_LAB,
    ) -> Self:
        """Find the lab of that name that was built from the current sources.

        Args:
            cache: The cache folder; the user's own by default.
            kernels: The folder with `lab/` and the modules' sources; the project's own by default.
            needs: Kernel options, without `CONFIG_`. If the lab lacks one of them, and a lab with another
                kernel was built that has them all, the result is that one.
            name: Name of the lab.

        Raises:
            TestbedError: No lab was built, it was built from other sources, or parts of it are gone.
        """
        home, inputs = Cache.open(cache), Inputs.read(kernels)
        record = read_record(home, record_key(inputs, name=name))
        if record is None:
            raise TestbedError(*_why_missing(home, inputs, name))
        lab = cls._from_record(home, record)
        if gone := lab.gone:
            raise TestbedError(f"{_called(name)} is incomplete: {gone} is gone", hint=record.command)
        wanted = frozenset(needs)
        if lab.lacks(wanted):
            found = read_records(home).items()
            fitting = (r for path, r in found if path.stem == record_key(inputs, r.built_in, name))
            others = (cls._from_record(home, other) for other in fitting)
            return next((one for one in others if not one.gone and not one.lacks(wanted)), lab)
        return lab

    def lacks(self, options: Iterable[str]) -> frozenset[str]:
        """Return those of these kernel options, without `CONFIG_`, that neither kernel nor modules have."""
        wanted = frozenset(options) - self.options.keys()
        if not wanted:
            return wanted
        have = read_options(self.kernel_config)
        return frozenset(option for option in wanted if have.get(option) != "y")

    def provided_by(self, options: Iterable[str]) -> tuple[str, ...]:
        """Return the modules of Linux that provide these options, in load order; built-in ones need none."""
        wanted = {name for option in options for name in self.options.get(option, ())}
        return tuple(name for name in self.modules if name in wanted)

    @property
    def gone(self) -> Path | None:
        """A part that is no longer in the cache; None if the lab is complete."""
        parts = (self.kernel, self.kernel_config, self.rootfs, self.userland, self.tools)
        return next((path for path in (*parts, *self.modules.values()) if not path.exists()), None)

    @classmethod
    def _from_record(cls, cache: Cache, record: LabRecord) -> Self:
        kernel = cache.root / record.kernel
        return cls(
            kernel=kernel / "linux",
            kernel_release=record.kernel_release,
            kernel_config=kernel / "config",
            rootfs=cache.root / record.rootfs,
            userland=cache.root / record.userland,
            tools=cache.root / record.tools,
            modules={
                name: cache.root / module.part / f"{name}.ko" for name, module in record.modules.items()
            },
            options=record.options,
            srcversions={name: module.srcversion for name, module in record.modules.items()},
            digests=Digests(
                kernel=record.kernel_digest,
                userland=record.userland_digest,
                tools=record.tools_digest,
                modules={name: module.digest for name, module in record.modules.items()},
            ),
            source=record.source,
            name=record.name,
        )


def record_key(inputs: Inputs, built_in: tuple[str, ...] = (), name: str = DEFAULT_LAB) -> str:
    """Return the key of the lab for these inputs, whose kernel has these options beyond `kernel.config`."""
    key = digest_of([inputs.key, *built_in]) if built_in else inputs.key
    return key if name == DEFAULT_LAB else f"{name}{BEFORE_KEY}{key}"


@dataclass(frozen=True)
class NamedLab:
    """A lab in the cache, for `lab list`.

    Attributes:
        name: Its name.
        kernel_release: Output of `uname -r` in its guests.
        source: Where its kernel source came from, in words.
        tree: The folder that it came from; empty if it was no kernel tree of the user.
        built_s: When it was built, in seconds since the epoch.
        problem: Why it cannot be used; empty if it can.
        command: Builds it again.
    """

    name: str
    kernel_release: str
    source: str
    tree: str
    built_s: float
    problem: str
    command: str


def labs(cache: Path | None = None, kernels: Path | None = None) -> tuple[NamedLab, ...]:
    """Return the labs in the cache by name, the default one first; of each the newest build."""
    home = Cache.open(cache)
    found: dict[str, NamedLab] = {}
    for path, record in read_records(home).items():
        if record.name in found:
            continue
        try:
            Lab.locate(cache, kernels, name=record.name)
            problem = ""
        except TestbedError as error:
            problem = error.message
        found[record.name] = NamedLab(
            record.name,
            record.kernel_release,
            record.source,
            record.tree,
            path.stat().st_mtime,
            problem,
            record.command,
        )
    return tuple(sorted(found.values(), key=lambda one: (one.name != DEFAULT_LAB, one.name)))


def read_record(cache: Cache, key: str) -> LabRecord | None:
    """Return the record of the last finished build of that key; None if there is none that can be read."""
    return read_note(cache.record(key), LabRecord)


def read_records(cache: Cache) -> dict[Path, LabRecord]:
    """Return the records of finished builds that can be read, with their files, the newest first."""
    found = ((path, read_record(cache, path.stem)) for path in cache.records())
    return {path: record for path, record in found if record is not None}


def _called(name: str) -> str:
    return "the lab" if name == DEFAULT_LAB else f"the lab {name}"


def _why_missing(cache: Cache, inputs: Inputs, wanted: str) -> tuple[str, str]:
    """Return why there is no lab of that name for the current sources, and the command that builds it."""
    records = read_records(cache).values()
    record = next((record for record in records if record.name == wanted), None)
    if record is None and wanted == DEFAULT_LAB:
        return "the lab is not built", HINT
    if record is None:
        others = sorted({record.name for record in records} - {DEFAULT_LAB})
        message = f"there is no lab {wanted}" + (f"; there are {', '.join(others)}" if others else "")
        return message, f"{HINT} --name {wanted} --kernel-tree DIR"
    now = inputs.digests
    changed = [name for name in sorted({*now, *record.inputs}) if now.get(name) != record.inputs.get(name)]
    listed = ", ".join(changed) or "how labs are built"
    message = (
        f"{_called(wanted)} is not built for the current sources; changed since the last build: {listed}"
    )
    return message, record.command
