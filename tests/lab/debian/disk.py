# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The disk of an ordinary Debian on user-mode Linux: systemd, sshd, apt, GRUB's menu, the lab's kernel."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from l4sbench.disk.files import remove_tree
from l4sbench.errors import TestbedError
from l4sbench.testbeds.nodes.plan import LabPlan, plan_members
from l4sbench.testbeds.virtual.lab import BuildOptions, Lab, build
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.command import Commands
from tests.lab.debian.kernels import KernelPackages, index, pack, second_release
from tests.lab.debian.root import (
    DiskImage,
    Recipe,
    cached,
    forget_parts,
    in_chroot,
    install,
    missing_tools,
    write_disk,
)

TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "dpkg-deb": "dpkg",
    "ssh-keygen": "openssh-client",
}
"""Required programs -> their Debian packages."""

SUITE = "trixie"
PROXY_PORT = 3128
"""Port on a host of the proxy to the archive, which ssh forwards."""

KERNELS = "/srv/kernels"
"""Folder of a host with packages of kernels, which its apt knows."""

OPTIONS = frozenset(
    {
        *("BLOCK", "BLK_DEV", "BLK_DEV_UBD", "EXT4_FS", "EXT4_FS_POSIX_ACL"),
        *("CGROUPS", "FHANDLE", "TMPFS_POSIX_ACL", "AUTOFS_FS"),
    }
)
"""Kernel options that Debian hosts need beyond the lab's: a disk, and what systemd demands."""

_RECIPE_VERSION = "3"
_SIZE_KIB = 4 << 20
_HOSTS = 4

_LINE = "root=/dev/ubda ro"


def kernel_packages(lab: Lab, folder: Path) -> tuple[KernelPackages, KernelPackages]:
    """Make packages of the kernel that hosts come with, and of the one that they can install."""
    first = pack(lab, lab.kernel_release, folder)
    return first, pack(lab, second_release(lab.kernel_release), folder)


def debian_lab() -> Lab:
    """Return the lab whose kernel boots Debian hosts, with a disk; build it if need be.

    Raises:
        TestbedError: The kernel cannot be built.
    """
    return build(BuildOptions(needs=OPTIONS))


def missing() -> tuple[str, ...]:
    """Return the Debian packages that this machine lacks for Debian hosts."""
    return missing_tools(TOOLS)


def debian_disk(lab: Lab, start_once: Callable[[DiskImage], None]) -> DiskImage:
    """Return the disk that hosts start from, from the cache or made (a minute or two).

    Args:
        lab: Lab whose kernel it boots.
        start_once: Boots a disk with a provisional boot menu, writes the real one, and stops it.

    Raises:
        TestbedError: A tool is missing, or the archive cannot be used.
    """
    if lacking := missing():
        raise TestbedError(f"Debian hosts need {', '.join(lacking)}", hint="tools/bootstrap.sh long")
    recipe = _recipe(lab.kernel_release)
    parts = [_RECIPE_VERSION, lab.digests.kernel, _LINE, *recipe.parts()]

    def make(folder: Path) -> None:
        _make(lab, recipe, folder)
        start_once(DiskImage(folder))

    return cached("debian", SUITE, parts, make)


def _recipe(release: str) -> Recipe:
    networks = {
        f"etc/systemd/network/{node.name}.network": (
            f"[Match]\nMACAddress={node.ports[0].mac}\n\n[Network]\nAddress={node.address}/24\n"
            "LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
        )
        for node in _any_hosts().nodes
    }
    return Recipe(
        suite=SUITE,
        packages=("grub2-common", "gcc"),  # a compiler takes long to install on a host
        early=(),
        late=(
            # who has a console here has a file, which nobody logs in from
            in_chroot("systemctl", "mask", "getty@.service", "systemd-networkd-wait-online.service"),
            in_chroot("sh", "-c", f"dpkg -i {KERNELS}/linux-image-{release}_*.deb"),
        ),
        files={
            **networks,
            "etc/hostname": "debian\n",
            "etc/hosts": "127.0.0.1 localhost debian\n::1 localhost\n",
            "etc/apt/apt.conf.d/zz-way": (
                'Acquire::Languages "none";\n'
                f'Acquire::http::Proxy "socks5h://127.0.0.1:{PROXY_PORT}";\n'
                f'Acquire::https::Proxy "socks5h://127.0.0.1:{PROXY_PORT}";\n'
            ),
            "etc/apt/sources.list.d/kernels.list": f"deb [trusted=yes] file:{KERNELS} ./\n",
            "etc/default/grub.d/10-console.cfg": 'GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT=""\n',
        },
    )


def _any_hosts() -> LabPlan:
    """Addresses of hosts, as a lab gives them."""
    return plan_members("", {f"host{number}": () for number in range(_HOSTS)}, ())


def _make(lab: Lab, recipe: Recipe, folder: Path) -> None:
    """Make a disk that boots by a provisional menu."""
    commands = Commands.logging_to(Cache.open().logs / f"debian-{recipe.suite}.log")
    packages = folder / "packages"
    packages.mkdir()
    made = [path for kernel in kernel_packages(lab, packages) for path in (kernel.image, kernel.headers)]
    (packages / "Packages").write_text(index(made))
    bring = (f"mkdir -p $1{KERNELS}", f"copy-in {' '.join(map(str, packages.iterdir()))} {KERNELS}")
    install(replace(recipe, late=(*bring, *recipe.late)), folder, commands)
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, f"l4sbench/{folder.name}"))
    kernel = f"/boot/vmlinuz-{lab.kernel_release}"
    menu = f"menuentry 'first' $menuentry_id_option 'first' {{\nlinux {kernel} {_LINE}\n}}\n"
    write_disk(recipe.with_menu(menu, identity), folder, commands, identity, _SIZE_KIB)
    forget_parts(folder)
    remove_tree(packages)
