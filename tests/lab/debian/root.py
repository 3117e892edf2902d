# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The root of an ordinary Debian, made from the archive that this machine's apt uses, and a disk with it.

Neither loop devices nor root are needed: mmdebstrap installs into an archive, mke2fs writes it into a file.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock

from l4sbench.disk.files import remove_tree
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.aptsources import Archive, debian_archives, read_sources
from l4sbench.testbeds.virtual.lab.cache import Cache, digest_of
from l4sbench.testbeds.virtual.lab.command import Commands
from tests.patience import PATIENCE_S, ran

USER = "debian"

# fmt: off
PACKAGES = (
    "ca-certificates", "dbus", "debian-archive-keyring", "iproute2", "kmod", "libpam-systemd",
    "openssh-server", "procps", "python3", "sudo", "systemd-sysv", "udev", "zstd",
)
"""Packages of every host."""
# fmt: on

_REACH = re.compile(r"Acquire::(?:https?|ForceIPv[46]|Queue-Mode|Check-Valid-Until|Check-Date)\b")
"""Settings of apt about access to archives."""

_FILES = {
    f"etc/sudoers.d/{USER}": f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n",
    # a disk that is thrown away need not survive a power cut in the middle of an installation
    "etc/dpkg/dpkg.cfg.d/unsafe-io": "force-unsafe-io\n",
}

_UNPACK = """\
set -e
mkdir "$1/root"
tar -xf "$1/root.tar" -C "$1/root" --numeric-owner
tar -xf "$1/more.tar" -C "$1/root" --numeric-owner
mke2fs -q -F -t ext4 -O ^metadata_csum_seed,^orphan_file -U "$2" -d "$1/root" -E "offset=$3" "$1/disk" "$4k"
rm -rf "$1/root"
"""


@dataclass(frozen=True)
class Recipe:
    """The description of a root.

    Attributes:
        suite: Codename of the release.
        packages: Packages beyond those of every host.
        early: Settings for packages, as shell commands that get the root as `$1`.
        late: Commands once all is installed, likewise.
        files: Its own files, by path without the leading slash.
    """

    suite: str
    packages: tuple[str, ...]
    early: tuple[str, ...]
    late: tuple[str, ...]
    files: Mapping[str, str]

    def with_menu(self, menu: str, identity: str) -> "Recipe":
        """Return the recipe with a provisional boot menu, for a root file system of this UUID."""
        table = f"UUID={identity} / ext4 errors=remount-ro 0 1\n"
        return replace(self, files={**self.files, "etc/fstab": table, "boot/grub/grub.cfg": menu})

    def parts(self) -> list[str]:
        """Return all of it as strings, for a digest."""
        hooks = (*self.early, *self.late)
        files = (text for pair in (_FILES | dict(self.files)).items() for text in pair)
        return [
            self.suite,
            archive().stanza(self.suite),
            *reach(),
            *PACKAGES,
            *self.packages,
            *hooks,
            *files,
            _UNPACK,
        ]


@dataclass(frozen=True)
class DiskImage:
    """A disk with a Debian, and its keys: `key` for logins as USER and root, `host_key` of all hosts."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The disk, or what others are laid over."""
        return self.folder / "disk"

    @property
    def key(self) -> Path:
        """Private key for logins."""
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        """Known hosts for ssh, with the alias `l4sbench-vm`."""
        return self.folder / "known_hosts"


def cached(kind: str, name: str, parts: list[str], make: Callable[[Path], None]) -> DiskImage:
    """Return a disk image from the cache, or make it and remove all older ones but the newest.

    Running tests may still use the newest as a backing file.

    Args:
        kind: Folder of the cache.
        name: Name of its folder, before the digest.
        parts: Everything that determines it.
        make: Makes it in an existing folder.
    """
    home = Cache.open().root / kind
    home.mkdir(parents=True, exist_ok=True)
    folder = home / f"{name}-{digest_of(parts)}"
    with FileLock(home / "lock"):
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.partial")
            if partial.exists():
                remove_tree(partial)
            partial.mkdir()
            make(partial)
            others = (path for path in home.glob(f"{name}-*") if path.is_dir() and path != partial)
            for old in sorted(others, key=lambda path: path.stat().st_mtime)[:-1]:
                remove_tree(old)
            partial.rename(folder)
    return DiskImage(folder)


def archive() -> Archive:
    """Return the Debian archive that this machine's apt uses.

    Raises:
        TestbedError: It uses none, or none that other machines can reach.
    """
    archives = debian_archives(read_sources())
    if not archives:
        raise TestbedError("no Debian archive stands in the machine's apt configuration")
    if not archives[0].uri.startswith("http"):
        raise TestbedError(f"other hosts cannot reach {archives[0].uri}, which this machine's apt uses")
    return archives[0]


def reach() -> list[str]:
    """Return the settings of this machine's apt about access to archives."""
    dump = ran(["apt-config", "dump"], check=True).stdout
    return [line for line in dump.splitlines() if _REACH.match(line)]


def install(recipe: Recipe, folder: Path, commands: Commands) -> None:
    """Install a root into `root.tar` of a folder, and make keys."""
    sources = folder / "archive.sources"
    sources.write_text(archive().stanza(recipe.suite), encoding="utf-8")
    late = (
        f"chroot $1 useradd --create-home --shell /bin/bash --groups sudo {USER}",
        "chroot $1 systemctl enable systemd-networkd ssh",
        *recipe.late,
    )
    argv = ["mmdebstrap", "--variant=minbase", "--format=tar", "--skip=output/dev"]
    argv += [f"--include={','.join((*PACKAGES, *recipe.packages))}"]
    argv += [f"--essential-hook={hook}" for hook in recipe.early]
    argv += [f"--customize-hook={hook}" for hook in late]
    argv += [f"--aptopt={line.rstrip(';')}" for line in reach()]
    argv += [recipe.suite, str(folder / "root.tar"), str(sources)]
    commands.run(argv, what=f"installing Debian {recipe.suite} into a folder", timeout_s=PATIENCE_S)
    for name in ("key", "host_key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "l4sbench", "-f", str(folder / name)]
        subprocess.run(words, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
    (folder / "known_hosts").write_text(f"l4sbench-vm {(folder / 'host_key.pub').read_text()}")


def write_disk(
    recipe: Recipe, folder: Path, commands: Commands, identity: str, size_kib: int, offset: int = 0
) -> None:
    """Write the root that was installed as an ext4 file system into `disk`.

    Args:
        recipe: What it was made from; its files are added now.
        folder: With `root.tar`.
        commands: Runs and logs.
        identity: UUID of the file system.
        size_kib: Its size.
        offset: Where it begins, in bytes.
    """
    _more(recipe, folder)
    users = ["unshare", "--map-auto", "--map-root-user"] if Path("/proc/self").stat().st_uid else []
    script = [*users, "sh", "-c", _UNPACK, "unpack", str(folder), identity, str(offset), str(size_kib)]
    commands.run(script, what="writing the file system", timeout_s=PATIENCE_S)


def forget_parts(folder: Path) -> None:
    """Remove the files that a disk was made from."""
    for name in ("root.tar", "more.tar", "archive.sources"):
        (folder / name).unlink()


def in_chroot(*argv: str) -> str:
    """Return a hook that runs a command inside the root."""
    return f"chroot $1 {shlex.join(argv)}"


def missing_tools(tools: Mapping[str, str]) -> tuple[str, ...]:
    """Return the packages that this machine lacks, from a map of tools to their packages."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return tuple(package for tool, package in tools.items() if shutil.which(tool, path=path) is None)


def _more(recipe: Recipe, folder: Path) -> None:
    """Write our own files, settings and keys, into a second archive."""
    public = (folder / "key.pub").read_text()
    files = {
        **_FILES,
        **recipe.files,
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
