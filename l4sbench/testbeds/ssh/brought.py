# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files of this machine that some kernels need on their hosts: packages of a kernel of our own, and tc."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from l4sbench.errors import TestbedError
from l4sbench.testbeds.ssh.images import BUILD_COMMAND

if TYPE_CHECKING:
    from l4sbench.testbeds.ssh.images import Image


def brought(boots: Mapping[str, Image]) -> Mapping[str, object]:
    """Return the variables that name the files, for the kernels that hosts boot.

    Raises:
        TestbedError: the package or the lab is not built.
    """
    packages = any(image.built for image in boots.values())
    program = any(tool.repository is None for image in boots.values() for tool in image.tools or ())
    if not packages and not program:
        return {}

    from l4sbench.testbeds.ssh import carriedtc, ownkernel  # slow to import, and few hosts need it
    from l4sbench.testbeds.virtual.lab.cache import Cache

    cache, found = Cache.open(), dict[str, object]()
    if packages:
        package = ownkernel.built(cache)
        if package is None:
            raise TestbedError("the kernel of our own is not built", f"`{BUILD_COMMAND}` builds it, once")
        found["l4sbench_kernel_packages"] = [str(path) for path in package.files]
    if program:
        found["l4sbench_carried_tc"] = str(carriedtc.carried_tc(cache))
    return found
