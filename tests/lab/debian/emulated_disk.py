# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The disk of an ordinary Debian for an emulated PC: GRUB in its boot sector, and Debian's own kernel.

Its partition table and boot sector are written here, so that no loop devices are needed.
"""

import re
import shlex
import struct
import tarfile
import uuid
from collections.abc import Callable
from pathlib import Path

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.command import Commands
from tests.lab.debian import root
from tests.lab.debian.disk import SUITE
from tests.lab.debian.root import DiskImage, Recipe

TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh-keygen": "openssh-client",
    "setpriv": "util-linux",
}
"""Required programs -> their Debian packages, which `tools/bootstrap.sh long` installs."""

MANAGEMENT_MAC = "52:54:00:00:00:fe"
"""Address of the management interface, the same in every machine: each has its own management network."""

_RECIPE_VERSION = "2"
_SIZE_MB = 8192
_FIRST_SECTOR = 2048
"""First sector of the root file system; GRUB is between it and the boot sector."""
_SECTOR = 512
_BOOT_CODE = 440
_LINUX_PARTITION = 0x83
_KERNEL_LINE = "console=ttyS0 mitigations=off systemd.tty.term.ttyS0=dumb"
_GRUB = "/boot/grub"
_GRUB_MODULES = ("biosdisk", "part_msdos", "ext2", "normal", "linux", "search", "search_fs_uuid", "serial")


def missing_tools() -> tuple[str, ...]:
    """Return the Debian packages that this machine lacks for emulated machines."""
    return root.missing_tools(TOOLS)


def emulated_disk(start_once: Callable[[DiskImage], None], suite: str = SUITE) -> DiskImage:
    """Return the disk from the cache, or make it (about ten minutes).

    Args:
        start_once: Boots a disk with a provisional boot menu, writes the real one, and stops it.
        suite: Codename of Debian's release.

    Raises:
        TestbedError: A tool is missing, or the archive is not usable.
    """
    if missing := missing_tools():
        raise TestbedError(f"virtual machines need {', '.join(missing)}", hint="tools/bootstrap.sh long")
    recipe = _recipe(suite)

    def make(folder: Path) -> None:
        _make(recipe, folder)
        start_once(DiskImage(folder))

    return root.cached("vms", suite, [_RECIPE_VERSION, *recipe.parts()], make)


def _recipe(suite: str) -> Recipe:
    core = ("grub-mkimage", "-O", "i386-pc", "-p", f"(hd0,msdos1){_GRUB}", "-o", f"{_GRUB}/core.img")
    # the addresses of QEMU's user-mode network; 10.0.2.2 is this machine
    way = (re.sub(r"//(127\.0\.0\.1|localhost)\b", "//10.0.2.2", line) for line in root.reach())
    return Recipe(
        suite=suite,
        packages=("grub-pc", "initramfs-tools", "linux-image-amd64"),
        early=("echo grub-pc grub-pc/install_devices_empty boolean true | chroot $1 debconf-set-selections",),
        late=(
            f"mkdir -p $1{_GRUB}/i386-pc",
            f"cp $1/usr/lib/grub/i386-pc/*.mod $1/usr/lib/grub/i386-pc/*.lst $1{_GRUB}/i386-pc",
            f"chroot $1 {shlex.join((*core, *_GRUB_MODULES))}",
        ),
        files={
            "etc/hostname": "vm\n",
            "etc/hosts": "127.0.0.1 localhost vm\n::1 localhost\n",
            "etc/resolv.conf": "nameserver 10.0.2.3\n",
            "etc/systemd/network/management.network": (
                f"[Match]\nMACAddress={MANAGEMENT_MAC}\n\n[Network]\nAddress=10.0.2.15/24\n"
                "Gateway=10.0.2.2\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
            ),
            "etc/apt/apt.conf.d/zz-way": "".join(f"{line}\n" for line in way),
            "etc/default/grub.d/10-serial.cfg": (
                f'GRUB_TIMEOUT=0\nGRUB_TERMINAL=serial\nGRUB_CMDLINE_LINUX="{_KERNEL_LINE}"\n'
            ),
            # only the drivers of this machine: making an initrd takes a fifth of the time
            "etc/initramfs-tools/conf.d/small": "MODULES=dep\n",
        },
    )


def _make(recipe: Recipe, folder: Path) -> None:
    """Make a disk that boots by a provisional menu."""
    commands = Commands.logging_to(Cache.open().logs / f"vm-{recipe.suite}.log")
    root.install(recipe, folder, commands)
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, f"l4sbench/{folder.name}"))
    menu = f"linux /vmlinuz root=UUID={identity} ro {_KERNEL_LINE}\ninitrd /initrd.img\nboot\n"
    start = _FIRST_SECTOR * _SECTOR
    recipe = recipe.with_menu(menu, identity)
    root.write_disk(recipe, folder, commands, identity, (_SIZE_MB << 10) - start // 1024, start)
    _write_boot_sector(folder)
    root.forget_parts(folder)


def _write_boot_sector(folder: Path) -> None:
    """Write GRUB where a BIOS reads it: its first sector, a table of one partition, and the rest after it."""
    with tarfile.open(folder / "root.tar") as packed:
        first, core = (
            packed.extractfile(name).read()  # type: ignore[union-attr]
            for name in ("./usr/lib/grub/i386-pc/boot.img", "./boot/grub/core.img")
        )
    sectors = (_SIZE_MB << 20) // _SECTOR - _FIRST_SECTOR
    if len(core) > (_FIRST_SECTOR - 1) * _SECTOR:
        raise TestbedError(f"GRUB takes {len(core)} bytes, too many to fit before the first partition")
    entry = struct.pack(
        "<B3sB3sII", 0x80, b"\xfe\xff\xff", _LINUX_PARTITION, b"\xfe\xff\xff", _FIRST_SECTOR, sectors
    )
    with (folder / "disk").open("r+b") as disk:
        disk.write(first[:_BOOT_CODE].ljust(446, b"\0") + entry + bytes(48) + b"\x55\xaa" + core)
        disk.truncate(_SIZE_MB << 20)
