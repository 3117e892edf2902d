# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Building a lab: which parts there are, in which order they are made, and what is done only once."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from l4sbench.testbeds.virtual.build.lab import Lab


@dataclass(frozen=True)
class BuildOptions:
    """How to build.

    Attributes:
        tarball: A kernel source tarball (`linux-7.*.tar.*`) to build from.
        kernel_tree: A kernel source folder to build from; a copy is built, the folder is left alone.
        jobs: Compilations at a time; the cores by default.
        force: Build every part anew, from the newest source that can be had.
        cache: The cache folder; the user's own by default.
        kernels: The folder with `lab/` and the modules' sources; the project's own by default.
    """

    tarball: Path | None = None
    kernel_tree: Path | None = None
    jobs: int | None = None
    force: bool = False
    cache: Path | None = None
    kernels: Path | None = None


@dataclass(frozen=True)
class Progress:
    """How far a build is.

    Attributes:
        stage: source, kernel, userland, tools, modules or check.
        message: What happens, in words.
        fraction: Share of the stage that is done, 0 to 1; None when it is not known.
    """

    stage: str
    message: str
    fraction: float | None = None


def build(options: BuildOptions, on_progress: Callable[[Progress], None] = lambda _: None) -> Lab:
    """Build what is missing of the lab and return it; does nothing but look when nothing is missing.

    Raises:
        TestbedError: Something this machine lacks (with the command that mends it), no kernel source could be
            had, another build holds the lock, or a step failed (with the end of its log).
    """
    on_progress(Progress("check", "looking what is there"))
    return Lab.locate(options.cache, options.kernels)
