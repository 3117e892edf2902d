# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Debian packages of the lab's kernel as a distribution has them: linux-image-RELEASE, linux-headers-RELEASE.

A second kernel of another release, to be restarted into, is the same program and the same tree with another
name of the same length, in all places where building it with another CONFIG_LOCALVERSION would have put that.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import ran

_VERSION = "1"
_NAMED = (
    "include/generated/utsrelease.h",
    "include/config/kernel.release",
    "include/config/auto.conf",
    ".config",
)
"""Files of a built tree that contain its release."""

_CONTROL = """\
Package: {name}
Version: {version}
Architecture: amd64
Section: kernel
Priority: optional
Depends: {needs}
Maintainer: The l4sbench authors <l4sbench@localhost>
Description: the lab's kernel, {about}
"""

_POSTINST = """\
#!/bin/sh
set -e
depmod {release}
run-parts --arg={release} --arg=/boot/vmlinuz-{release} /etc/kernel/postinst.d
"""
"""Script of Debian's own kernels after unpacking; it also updates the boot menu."""

_GNUMAKEFILE = """\
# read by make in place of Makefile: who builds a module does not know the architecture of these headers
export ARCH := um
include Makefile
"""


@dataclass(frozen=True)
class KernelPackages:
    """The packages of one kernel."""

    release: str
    image: Path
    headers: Path


def second_release(release: str) -> str:
    """Return another release with a name of the same length."""
    changed = release.replace("-l4sbench", "-l4sother")
    if changed == release:
        raise ValueError(f"{release} is not the lab's")
    return changed


def pack(lab: Lab, release: str, folder: Path) -> KernelPackages:
    """Make the packages of the lab's kernel under a release, below a folder."""
    old, new = lab.kernel_release.encode(), release.encode()
    tree = lab.kernel.parent / "tree"
    image = folder / f"linux-image-{release}"
    modules = image / "usr" / "lib" / "modules" / release
    (image / "boot").mkdir(parents=True)
    modules.mkdir(parents=True)
    program = image / "boot" / f"vmlinuz-{release}"
    program.write_bytes(lab.kernel.read_bytes().replace(old, new))
    program.chmod(0o755)
    shutil.copy(lab.kernel_config, image / "boot" / f"config-{release}")
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(tree / name, modules / name)
    script = image / "DEBIAN" / "postinst"
    script.parent.mkdir()
    script.write_text(_POSTINST.format(release=release))
    script.chmod(0o755)

    headers = folder / f"linux-headers-{release}"
    sources = headers / "usr" / "src" / headers.name
    shutil.copytree(tree, sources, symlinks=True)
    for name in _NAMED:
        path = sources / name
        path.write_bytes(path.read_bytes().replace(old, new).replace(_local(old), _local(new)))
    (sources / "GNUmakefile").write_text(_GNUMAKEFILE)
    build = headers / "usr" / "lib" / "modules" / release / "build"
    build.parent.mkdir(parents=True)
    build.symlink_to(f"/usr/src/{headers.name}")
    return KernelPackages(
        # as with Debian's own it is the headers that bring a compiler
        release,
        _build(image, "for booting it", "kmod"),
        _build(headers, "for building modules for it", "gcc"),
    )


def index(packages: list[Path]) -> str:
    """Return the file `Packages` of a folder with packages, which apt reads."""
    stanzas = []
    for path in packages:
        told = ran(["dpkg-deb", "--field", path], check=True).stdout
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        stanzas.append(f"{told}Filename: ./{path.name}\nSize: {len(content)}\nSHA256: {digest}\n")
    return "\n".join(stanzas)


def _local(release: bytes) -> bytes:
    return b'"-' + release.partition(b"-")[2] + b'"'


def _build(folder: Path, about: str, needs: str) -> Path:
    control = folder / "DEBIAN" / "control"
    control.parent.mkdir(exist_ok=True)
    control.write_text(_CONTROL.format(name=folder.name, version=_VERSION, about=about, needs=needs))
    path = folder.with_name(f"{folder.name}_{_VERSION}_amd64.deb")
    # quickly: it travels from one file of this machine into another
    argv = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(folder), str(path)]
    ran(argv, check=True)
    shutil.rmtree(folder)
    return path
