# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kernel modules as packages of DKMS, with a version that changes with the source. Pure.

DKMS keeps what it has built of a version, whatever happens to its source. So the version of a package is the
one in `dkms.conf`, followed by a digest of the source.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from l4sbench.disk.trust import Code

CONF: Final = "dkms.conf"
_VERSION: Final = re.compile(r"^PACKAGE_VERSION=.*$", re.MULTILINE)
_DIGITS: Final = 8
"""Of the digest, in hexadecimal."""


@dataclass(frozen=True)
class DkmsPackage:
    """A module that DKMS can build.

    Attributes:
        name: Its name.
        version: Its version.
        kernel: Oldest release that it builds for.
        code: Its source; `dkms.conf` states that version.
        linux_file: For a part of Linux, its C source there, which is not in `code`; otherwise empty.
        linux_option: The option of Linux that builds it in, without CONFIG_; empty for others.
    """

    name: str
    version: str
    kernel: str
    code: Code
    linux_file: str = ""
    linux_option: str = ""


def package(code: Code) -> DkmsPackage | None:
    """Return the package of a module's source; None if it has no `dkms.conf` with a version."""
    conf = code.files.get(CONF, b"").decode(errors="replace")
    said = dict(re.findall(r'^(\w+)="?([\w./+~-]+)"?$', conf, re.MULTILINE))
    if "PACKAGE_VERSION" not in said:
        return None
    source = replace(code, files={name: code.files[name] for name in code.sources})
    version = f"{said['PACKAGE_VERSION']}.{source.digest[:_DIGITS]}"
    stated = _VERSION.sub(f'PACKAGE_VERSION="{version}"', conf)
    kernel = said.get("BUILD_EXCLUSIVE_KERNEL_MIN", "0")
    versioned = replace(source, files={**source.files, CONF: stated.encode()})
    return DkmsPackage(
        name=said.get("PACKAGE_NAME", code.folder.name),
        version=version,
        kernel=kernel,
        code=versioned,
        linux_file=said.get("LINUX_FILE", ""),
        linux_option=said.get("LINUX_OPTION", ""),
    )
