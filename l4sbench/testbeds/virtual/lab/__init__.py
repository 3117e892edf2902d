# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Building the lab of the virtual testbed: kernel, guest userland, tools and modules, once, into the cache.

`Lab.locate()` finds a finished lab in milliseconds; `build()` makes what is missing; `status()` and
`doctor()` tell what there is and what is missing on this machine. Nothing here needs root.
"""

from l4sbench.testbeds.virtual.lab.builder import BuildOptions, Progress, build, with_modules
from l4sbench.testbeds.virtual.lab.doctor import Check, doctor
from l4sbench.testbeds.virtual.lab.lab import GUEST_BIN, GUEST_MODULES, Digests, Lab
from l4sbench.testbeds.virtual.lab.status import LabStatus, PartStatus, status

__all__ = [
    "GUEST_BIN",
    "GUEST_MODULES",
    "BuildOptions",
    "Check",
    "Digests",
    "Lab",
    "LabStatus",
    "PartStatus",
    "Progress",
    "build",
    "doctor",
    "status",
    "with_modules",
]
