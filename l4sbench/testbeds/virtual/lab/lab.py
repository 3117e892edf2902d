# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The built lab: where its parts lie in the cache, and whether they fit the sources at hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import BaseModel, ConfigDict

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache, read_note
from l4sbench.testbeds.virtual.lab.inputs import Inputs

HINT = "l4sbench lab build"

GUEST_BIN = PurePosixPath("/lab/bin")
"""Where the lab's own programs lie inside the guest."""
GUEST_MODULES = PurePosixPath("/lab/modules")
"""Where the lab's own kernel modules lie inside the guest, as `<name>.ko`."""


class ModuleRecord(BaseModel):
    """One built kernel module, as the cache remembers it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    part: str
    srcversion: str
    digest: str


class LabRecord(BaseModel):
    """What one finished build left: parts are paths below the cache's root."""

    model_config = ConfigDict(frozen=True, extra="forbid")
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

    def parts(self) -> frozenset[str]:
        """Every part that this lab needs in order to run, as paths below the cache's root."""
        modules = (module.part for module in self.modules.values())
        return frozenset({self.kernel, self.userland, self.tools, self.rootfs, *modules})


@dataclass(frozen=True)
class Digests:
    """Digests over the content of what runs; equal digests mean equal bits, on any machine."""

    kernel: str
    userland: str
    tools: str
    modules: Mapping[str, str]


@dataclass(frozen=True)
class Lab:
    """A complete lab: everything the virtual testbed needs to boot a guest.

    Attributes:
        kernel: The user-mode Linux program.
        kernel_release: What `uname -r` says in the guest.
        kernel_config: The configuration the kernel was built with.
        rootfs: The guest's root folder, for hostfs. It also holds the tools in `GUEST_BIN` and the modules
            in `GUEST_MODULES`.
        userland: The part of the cache that brings the guest's userland alone.
        tools: Folder of the static programs `lab-init`, `lab-traffic` and `lab-sampler` on the host.
        modules: Our kernel modules by name; each a `.ko` on the host.
        srcversions: The modules' source versions, as the kernel shows them in /sys/module.
        digests: Digests of what runs.
        source: Where the kernel source came from, in words.
    """

    kernel: Path
    kernel_release: str
    kernel_config: Path
    rootfs: Path
    userland: Path
    tools: Path
    modules: Mapping[str, Path]
    srcversions: Mapping[str, str]
    digests: Digests
    source: str

    @classmethod
    def locate(cls, cache: Path | None = None, kernels: Path | None = None) -> Self:
        """Find the lab that was built from the sources at hand.

        Args:
            cache: The cache folder; the user's own by default.
            kernels: The folder with `lab/` and the modules' sources; the project's own by default.

        Raises:
            TestbedError: No lab was built, it was built from other sources, or parts of it are gone.
        """
        home, inputs = Cache.open(cache), Inputs.read(kernels)
        record = read_record(home, inputs.key)
        if record is None:
            raise TestbedError(_why_missing(home, inputs), hint=HINT)
        lab = cls._from_record(home, record)
        for path in (
            lab.kernel,
            lab.kernel_config,
            lab.rootfs,
            lab.userland,
            lab.tools,
            *lab.modules.values(),
        ):
            if not path.exists():
                raise TestbedError(f"the lab is incomplete: {path} is gone", hint=HINT)
        return lab

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
            srcversions={name: module.srcversion for name, module in record.modules.items()},
            digests=Digests(
                kernel=record.kernel_digest,
                userland=record.userland_digest,
                tools=record.tools_digest,
                modules={name: module.digest for name, module in record.modules.items()},
            ),
            source=record.source,
        )


def read_record(cache: Cache, key: str) -> LabRecord | None:
    """The record of the last finished build for these inputs; None when there is none that can be read."""
    return read_note(cache.record(key), LabRecord)


def _why_missing(cache: Cache, inputs: Inputs) -> str:
    newest = cache.newest_record()
    record = None if newest is None else read_record(cache, newest)
    if record is None:
        return "the lab is not built"
    now = inputs.digests
    changed = [name for name in sorted({*now, *record.inputs}) if now.get(name) != record.inputs.get(name)]
    return f"the lab is not built for the sources at hand; changed since the last build: {', '.join(changed)}"
