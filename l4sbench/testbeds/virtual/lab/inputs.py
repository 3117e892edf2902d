# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The project's own inputs of a lab: the kernel's configuration and patches, guest programs, modules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from l4sbench.disk import assets
from l4sbench.disk.trust import SOURCES
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import digest_of, digest_of_files

RECIPE = {"kernel": "2", "userland": "1", "tools": "1", "modules": "1", "rootfs": "1"}
"""Part of the digest of each kind of part; increase it when the way of building changes the result."""


@dataclass(frozen=True)
class Inputs:
    """The project's own inputs, and a digest of each by a name fit for a message.

    Modules are by the name that the kernel knows them by, whatever their folder is called.
    """

    config: Path
    patches: tuple[Path, ...]
    guest: Path
    modules: Mapping[str, Path]
    digests: dict[str, str]

    @property
    def key(self) -> str:
        """One digest over all inputs, which names the lab that they make."""
        return digest_of([text for pair in sorted((RECIPE | self.digests).items()) for text in pair])

    @classmethod
    def read(cls, kernels: Path | None = None) -> Self:
        """Read the inputs below a folder such as the project's `kernels/`.

        Raises:
            TestbedError: The folder contains no lab.
        """
        root = assets.folder("kernels") if kernels is None else kernels
        config, guest = root / "lab" / "kernel.config", root / "lab" / "guest"
        if not config.is_file():
            raise TestbedError(f"{config} is missing: the installation is damaged")
        patches = tuple(sorted((root / "lab" / "patches").glob("*.patch")))
        kbuilds = sorted([*root.glob("*/Kbuild"), *(root / "lab").glob("*/Kbuild")])
        modules = {_module_name(path): path.parent for path in kbuilds}
        digests = {
            "kernel configuration": digest_of_files(root, [config]),
            "kernel patches": digest_of_files(root, patches),
            "guest programs": digest_of_files(root, source_files(guest)),
            **{f"module {name}": digest_of_files(root, source_files(at)) for name, at in modules.items()},
        }
        return cls(config=config, patches=patches, guest=guest, modules=modules, digests=digests)


def _module_name(kbuild: Path) -> str:
    """Return the name of the module that a Kbuild file makes; one folder makes one module."""
    made = re.search(r"^obj-m\s*[:+]?=\s*(\w+)\.o\s*$", kbuild.read_text(encoding="utf-8"), re.MULTILINE)
    return made[1] if made else kbuild.parent.name


def source_files(folder: Path) -> list[Path]:
    """Return the files below a folder that a build of C reads, in order."""
    return sorted({path for pattern in SOURCES for path in folder.rglob(pattern) if path.is_file()})
