# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A disk with an ordinary Debian on it: systemd, sshd, GRUB, Debian's own kernel, its own apt.

It is made from the archive that this machine's apt uses, and asks that archive for more once it runs. Kept in
the cache, by what it is made from. Its partition table and boot sector are written here, so that neither
loop devices nor root are needed.
"""

import io
import re
import shlex
import shutil
import struct
import subprocess
import tarfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.build.aptsources import Archive, debian_archives, read_sources
from l4sbench.testbeds.virtual.build.cache import Cache, digest_of, remove_tree
from l4sbench.testbeds.virtual.build.command import Commands

TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh-keygen": "openssh-client",
    "setpriv": "util-linux",
}
"""What this machine must have, and the Debian packages that bring it: `tools/bootstrap.sh long`."""

USER = "debian"
MANAGEMENT_MAC = "52:54:00:00:00:fe"
"""Of the interface that leads to this machine, the same in every virtual machine: no two share a network."""

# fmt: off
PACKAGES = (
    "ca-certificates", "dbus", "debian-archive-keyring", "grub-pc", "initramfs-tools", "iproute2", "kmod",
    "libpam-systemd", "linux-image-amd64", "openssh-server", "procps", "python3", "sudo", "systemd-sysv",
    "udev", "zstd",
)
# fmt: on

_RECIPE_VERSION = "1"
_SIZE_MB = 8192
_FIRST_SECTOR = 2048
"""Of the root file system; GRUB lies between it and the boot sector."""
_SECTOR = 512
_BOOT_CODE = 440
_LINUX_PARTITION = 0x83
_KERNEL_LINE = "console=ttyS0 mitigations=off systemd.tty.term.ttyS0=dumb"
_MAKE_S = 1800

_REACH = re.compile(r"Acquire::(?:https?|ForceIPv[46]|Queue-Mode|Check-Valid-Until|Check-Date)\b")
"""The settings of the machine's apt that say how archives are reached."""

_FILES = {
    "etc/fstab": "",
    "etc/hostname": "vm\n",
    "etc/hosts": "127.0.0.1 localhost vm\n::1 localhost\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",  # these addresses are QEMU's own, see -netdev user
    "etc/systemd/network/management.network": (
        f"[Match]\nMACAddress={MANAGEMENT_MAC}\n\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\n"
        "LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    ),
    f"etc/sudoers.d/{USER}": f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n",
    "etc/default/grub.d/10-serial.cfg": (
        f'GRUB_TIMEOUT=0\nGRUB_TERMINAL=serial\nGRUB_CMDLINE_LINUX="{_KERNEL_LINE}"\n'
    ),
    # a disk that is thrown away need not survive a power cut in the middle of an installation
    "etc/dpkg/dpkg.cfg.d/unsafe-io": "force-unsafe-io\n",
    # only the drivers that this very machine needs: making an initrd takes a fifth of the time
    "etc/initramfs-tools/conf.d/small": "MODULES=dep\n",
}

_GRUB_MODULES = ("biosdisk", "part_msdos", "ext2", "normal", "linux", "search", "search_fs_uuid", "serial")

_UNPACK = """\
set -e
mkdir "$1/root"
tar -xf "$1/root.tar" -C "$1/root" --numeric-owner
tar -xf "$1/more.tar" -C "$1/root" --numeric-owner
mke2fs -q -F -t ext4 -O ^metadata_csum_seed,^orphan_file -U "$2" -d "$1/root" -E "offset=$3" "$1/disk" "$4k"
rm -rf "$1/root"
"""


@dataclass(frozen=True)
class DiskImage:
    """A bootable disk that others are laid over, and how one logs in: `key` for USER and root."""

    disk: Path
    key: Path
    known_hosts: Path


def missing_tools() -> tuple[str, ...]:
    """Debian packages that this machine lacks for virtual machines."""
    return tuple(package for tool, package in TOOLS.items() if shutil.which(tool) is None)


def debian_disk(suite: str, start_once: Callable[[DiskImage], None]) -> DiskImage:
    """The disk of a Debian release, made where the cache does not have it (about ten minutes).

    Args:
        suite: Codename of the release.
        start_once: Given a disk with a makeshift boot menu; boots it, has the real one written, and stops it.

    Raises:
        TestbedError: A tool is missing, or the archive cannot be used.
    """
    if missing := missing_tools():
        raise TestbedError(f"virtual machines need {', '.join(missing)}", hint="tools/bootstrap.sh long")
    archive = _archive()
    reach = _reach()
    parts = [_RECIPE_VERSION, suite, archive.stanza(suite), *reach, *PACKAGES, *_GRUB_MODULES, _UNPACK]
    parts += [text for pair in _FILES.items() for text in pair]
    home = Cache.open().root / "vms"
    home.mkdir(parents=True, exist_ok=True)
    folder = home / f"{suite}-{digest_of(parts)}"
    with FileLock(home / "lock"):
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.partial")
            if partial.exists():
                remove_tree(partial)
            partial.mkdir()
            _make(suite, archive, reach, partial)
            start_once(_in(partial))
            partial.rename(folder)
    return _in(folder)


def _in(folder: Path) -> DiskImage:
    return DiskImage(folder / "disk", folder / "key", folder / "known_hosts")


def _archive() -> Archive:
    archives = debian_archives(read_sources())
    if not archives:
        raise TestbedError("no Debian archive stands in the machine's apt configuration")
    if not archives[0].uri.startswith("http"):
        raise TestbedError(f"a virtual machine cannot reach {archives[0].uri}, which this machine's apt uses")
    return archives[0]


def _reach() -> list[str]:
    """Settings of this machine's apt for that of a virtual machine, to which it is 10.0.2.2."""
    dump = subprocess.run(
        ["apt-config", "dump"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    kept = [line for line in dump.splitlines() if _REACH.match(line)]
    return [re.sub(r"//(127\.0\.0\.1|localhost)\b", "//10.0.2.2", line) for line in kept]


def _make(suite: str, archive: Archive, reach: list[str], folder: Path) -> None:
    """A disk that boots by a makeshift menu."""
    commands = Commands.logging_to(Cache.open().logs / f"vm-{suite}.log")
    (folder / "archive.sources").write_text(archive.stanza(suite), encoding="utf-8")
    prefix = "/boot/grub"
    core = [
        *("grub-mkimage", "-O", "i386-pc", "-p", f"(hd0,msdos1){prefix}", "-o", f"{prefix}/core.img"),
        *_GRUB_MODULES,
    ]
    hooks = (
        "echo grub-pc grub-pc/install_devices_empty boolean true | chroot $1 debconf-set-selections",
        f"chroot $1 useradd --create-home --shell /bin/bash --groups sudo {USER}",
        "chroot $1 systemctl enable systemd-networkd ssh",
        f"mkdir -p $1{prefix}/i386-pc",
        f"cp $1/usr/lib/grub/i386-pc/*.mod $1/usr/lib/grub/i386-pc/*.lst $1{prefix}/i386-pc",
        f"chroot $1 {shlex.join(core)}",
    )
    argv = ["mmdebstrap", "--variant=minbase", "--format=tar", f"--include={','.join(PACKAGES)}"]
    argv += ["--skip=output/dev"]
    argv += [f"--essential-hook={hooks[0]}", *(f"--customize-hook={hook}" for hook in hooks[1:])]
    argv += [f"--aptopt={line.rstrip(';')}" for line in reach]
    argv += [suite, str(folder / "root.tar"), str(folder / "archive.sources")]
    commands.run(argv, what=f"installing Debian {suite} into a folder", timeout_s=_MAKE_S)
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, f"l4sbench/{folder.name}"))
    _more(folder, identity)
    users = ["unshare", "--map-auto", "--map-root-user"] if _is_no_root() else []
    free_kib = (_SIZE_MB << 10) - _FIRST_SECTOR * _SECTOR // 1024
    words = [folder, identity, _FIRST_SECTOR * _SECTOR, free_kib]
    script = [*users, "sh", "-c", _UNPACK, "unpack", *map(str, words)]
    commands.run(script, what="writing the file system", timeout_s=_MAKE_S)
    _write_boot_sector(folder)
    for name in ("root.tar", "more.tar", "archive.sources"):
        (folder / name).unlink()


def _is_no_root() -> bool:
    return Path("/proc/self").stat().st_uid != 0


def _more(folder: Path, identity: str) -> None:
    """Files of our own in a second archive: settings, keys, and a boot menu for the first start."""
    for name in ("key", "host_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "l4sbench", "-f", str(folder / name)]
        subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=60, check=True)
    public = (folder / "key.pub").read_text()
    (folder / "known_hosts").write_text(f"l4sbench-vm {(folder / 'host_key.pub').read_text()}")
    menu = f"linux /vmlinuz root=UUID={identity} ro {_KERNEL_LINE}\ninitrd /initrd.img\nboot\n"
    files = {
        **_FILES,
        "etc/fstab": f"UUID={identity} / ext4 errors=remount-ro 0 1\n",
        "boot/grub/grub.cfg": menu,
        "etc/ssh/ssh_host_ed25519_key": (folder / "host_key").read_text(),
        "etc/ssh/ssh_host_ed25519_key.pub": (folder / "host_key.pub").read_text(),
        f"home/{USER}/.ssh/authorized_keys": public,
        "root/.ssh/authorized_keys": public,
    }
    with tarfile.open(folder / "more.tar", "w") as archive:
        _add_folder(archive, "dev", 0o755, 0)  # left out above, as a user may make no devices
        for name, text in files.items():
            owner = 1000 if name.startswith("home/") else 0
            if name.endswith("authorized_keys"):
                _add_folder(archive, str(Path(name).parent), 0o700, owner)
            entry = tarfile.TarInfo(name)
            entry.size, entry.uid, entry.gid = len(text.encode()), owner, owner
            entry.mode = 0o600 if name.endswith(("_key", "authorized_keys")) else 0o644
            entry.mode = 0o440 if "sudoers" in name else entry.mode
            archive.addfile(entry, io.BytesIO(text.encode()))


def _add_folder(archive: tarfile.TarFile, name: str, mode: int, owner: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
    archive.addfile(entry)


def _write_boot_sector(folder: Path) -> None:
    """GRUB where a BIOS looks for it: its first sector, a table of one partition, and the rest behind it."""
    with tarfile.open(folder / "root.tar") as packed:
        first, core = (
            packed.extractfile(name).read()  # type: ignore[union-attr]
            for name in ("./usr/lib/grub/i386-pc/boot.img", "./boot/grub/core.img")
        )
    sectors = (_SIZE_MB << 20) // _SECTOR - _FIRST_SECTOR
    if len(core) > (_FIRST_SECTOR - 1) * _SECTOR:
        raise TestbedError(f"GRUB takes {len(core)} bytes, too many to stand before the first partition")
    entry = struct.pack(
        "<B3sB3sII", 0x80, b"\xfe\xff\xff", _LINUX_PARTITION, b"\xfe\xff\xff", _FIRST_SECTOR, sectors
    )
    with (folder / "disk").open("r+b") as disk:
        disk.write(first[:_BOOT_CODE].ljust(446, b"\0") + entry + bytes(48) + b"\x55\xaa" + core)
        disk.truncate(_SIZE_MB << 20)
