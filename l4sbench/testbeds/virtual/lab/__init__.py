# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Building the lab of the virtual testbed: kernel, guest userland, tools and modules, once, into the cache.

`Lab.locate()` finds a finished lab in milliseconds; `build()` makes its missing parts; `status()` lists the
parts in the cache, and `doctor()` what this machine lacks. Nothing here needs root.
"""

from l4sbench.testbeds.virtual.lab.builder import (
    BuildOptions,
    BuildStep,
    build,
    with_built_modules,
    with_modules,
)
from l4sbench.testbeds.virtual.lab.doctor import Check, doctor
from l4sbench.testbeds.virtual.lab.lab import (
    GUEST_BIN,
    GUEST_MODULES,
    HINT,
    Digests,
    Lab,
    NamedLab,
    labs,
)
from l4sbench.testbeds.virtual.lab.pruning import remove_lab
from l4sbench.testbeds.virtual.lab.status import LabStatus, PartStatus, status

__all__ = [
    "GUEST_BIN",
    "GUEST_MODULES",
    "HINT",
    "BuildOptions",
    "BuildStep",
    "Check",
    "Digests",
    "Lab",
    "LabStatus",
    "NamedLab",
    "PartStatus",
    "build",
    "doctor",
    "labs",
    "remove_lab",
    "status",
    "with_built_modules",
    "with_modules",
]
