# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The guest's userland: files of a few Debian packages, unpacked. No root, no chroot, no maintainer scripts.

PID 1 of a guest is the lab's own static program, so nothing has to be installed or configured: the tools need
their libraries, and the kernel needs a root to mount.
"""

import itertools
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from l4sbench.disk.files import remove_tree, write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.aptsources import Archive
from l4sbench.testbeds.virtual.lab.cache import Cache, digest_of, read_note
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.inputs import RECIPE
from l4sbench.testbeds.virtual.lab.scratchapt import Package, ScratchApt, why
from l4sbench.testbeds.virtual.lab.source import Say, version_key
from l4sbench.text.models import Strict

PACKAGES = (
    "base-files",
    "bash",
    "busybox-static",
    "dash",
    "ethtool",
    "iperf3",
    "iproute2",
    "kmod",
    "mount",
    "procps",
    "tcpdump",
)
GUEST_SUITES = ("forky", "sid")
"""Suites for the guest's packages, in order of preference."""

OLDEST_IPROUTE2 = (6, 18)
"""The first iproute2 whose tc supports dualpi2."""

_LEFT_OUT = ("doc", "man", "locale", "info", "lintian", "bug", "bash-completion", "zsh", "systemd")
"""Folders below /usr/share that no guest reads; fewer files make a quicker build."""

_MOUNT_POINTS = ("dev", "proc", "sys", "run", "tmp", "trial", "lab/bin", "lab/modules", "root", "mnt")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
    "etc/hostname": "lab\n",
    "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
}
_UNPACK_S = 120


_RECIPE = digest_of(
    [
        RECIPE["userland"],
        *PACKAGES,
        *_LEFT_OUT,
        *_MOUNT_POINTS,
        *(text for pair in _FILES.items() for text in pair),
    ]
)


class UserlandInfo(Strict):
    """The cache's note on an unpacked userland."""

    recipe: str
    suite: str
    packages: dict[str, str]


@dataclass(frozen=True)
class Userland:
    """An unpacked userland: `path` holds `root` and `info.json`; its name is the digest of its packages."""

    path: Path
    info: UserlandInfo

    @property
    def root(self) -> Path:
        """The files, as a guest sees them."""
        return self.path / "root"


def find_userland(cache: Cache, name: str) -> Userland | None:
    """Return the userland of this name; None if the cache does not have it."""
    path = cache.part("userland", name)
    info = read_note(path / "info.json", UserlandInfo)
    return None if info is None else Userland(path, info)


def cached_userland(cache: Cache) -> Userland | None:
    """Return the userland that was unpacked last, of those with the packages that a guest needs now."""
    found: list[tuple[float, Userland]] = []
    for file in (cache.root / "userland").glob("*/info.json"):
        info = read_note(file, UserlandInfo)
        if info is not None and info.recipe == _RECIPE:
            found.append((file.stat().st_mtime, Userland(file.parent, info)))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def build_userland(cache: Cache, archives: tuple[Archive, ...], say: Say, *, force: bool = False) -> Userland:
    """Unpack the newest packages into the cache, unless they are there.

    Raises:
        TestbedError: No suite has packages that are new enough, or a step failed.
    """
    apt, suite, packages = obtain(cache, archives, GUEST_SUITES, PACKAGES, "the guest's", say)
    return _unpack(cache, apt, suite, packages, say, force)


def obtain(
    cache: Cache,
    archives: tuple[Archive, ...],
    suites: tuple[str, ...],
    names: tuple[str, ...],
    whose: str,
    say: Say,
) -> tuple[ScratchApt, str, tuple[Package, ...]]:
    """Return apt on the first suite that has these packages, the suite, and them with what they depend on.

    Raises:
        TestbedError: No suite has packages that are new enough.
    """
    failures: list[str] = []
    for archive, suite in itertools.product(archives, suites):
        say(f"fetching the package lists of {suite}", None)
        try:
            apt = ScratchApt.open(cache.root / "apt", archive, suite, cache.logs / f"userland-{suite}.log")
            packages = apt.resolve(names)
        except TestbedError as error:
            failures.append(f"{suite} at {archive.uri}: {why(error)}")
            continue
        found = [package.version for package in packages if package.name == "iproute2"]
        if found and version_key(found[0]) >= OLDEST_IPROUTE2:
            return apt, suite, packages
        failures.append(f"{suite} at {archive.uri}: its iproute2 is too old for dualpi2")
    tried = "".join(f"\n  {line}" for line in failures) or "\n  no Debian archive in the apt configuration"
    raise TestbedError(
        f"could not obtain packages for {whose} userland; tried:{tried}",
        hint="add a Debian mirror to the machine's apt sources",
    )


def _unpack(
    cache: Cache, apt: ScratchApt, suite: str, packages: tuple[Package, ...], say: Say, force: bool
) -> Userland:
    listed = (f"{package.name} {package.version} {package.digest}" for package in packages)
    digest = digest_of([_RECIPE, *listed])
    part = cache.part("userland", digest)
    info = UserlandInfo(recipe=_RECIPE, suite=suite, packages={p.name: p.version for p in packages})
    if read_note(part / "info.json", UserlandInfo) is not None and not force:
        return Userland(part, info)
    say(f"downloading {len(packages)} packages of {suite}", None)
    with cache.stage("userland", digest) as stage:
        root = stage / "root"
        root.mkdir()
        fill(root, apt, packages, _MOUNT_POINTS, _FILES, say)
        _complete(apt.commands, root)
        write_whole(stage / "info.json", info.model_dump_json(indent=1))
    return Userland(part, info)


def fill(
    root: Path,
    apt: ScratchApt,
    packages: tuple[Package, ...],
    mount_points: Iterable[str],
    files: Mapping[str, str],
    say: Say,
) -> None:
    """Unpack packages below a root, and add folders and files that nothing installs there.

    Raises:
        TestbedError: A download or a program failed.
    """
    downloads = root.with_name("downloads")
    downloads.mkdir()
    debs = apt.download(packages, downloads)
    # base-files first: it contains the links /bin -> usr/bin ..., which other packages unpack through
    ordered = sorted(debs, key=lambda deb: (not deb.name.startswith("base-files_"), deb.name))
    for number, deb in enumerate(ordered):
        say("unpacking packages", number / len(ordered))
        _unpack_package(apt.commands, deb, root)
    remove_tree(downloads)
    _open_modes(root)
    for name in mount_points:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def _unpack_package(commands: Commands, deb: Path, root: Path) -> None:
    """Unpack a package's files below a root, without those that no guest reads."""
    left_out = [f"--exclude=./usr/share/{name}/*" for name in _LEFT_OUT]
    commands.pipe(
        ["dpkg-deb", "--fsys-tarfile", deb],
        ["tar", "-x", "-C", root, "--no-same-owner", "--keep-directory-symlink", *left_out],
        what=f"unpacking {deb.name}",
        timeout_s=_UNPACK_S,
    )


def _complete(commands: Commands, root: Path) -> None:
    """Do the rest of the work of maintainer scripts, as far as the guest needs it."""
    _link_busybox(commands, root)
    # The loader finds libraries in its standard folders without a cache, but programs start faster with one.
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if ldconfig:
        try:
            commands.run([ldconfig, "-r", root, "-X"], what="ldconfig", timeout_s=60)
        except TestbedError:
            (root / "etc" / "ld.so.cache").unlink(missing_ok=True)


def _open_modes(root: Path) -> None:
    """Make all files below a root readable for everybody, and remove set-id bits.

    A guest runs as the user who starts it; set-id files in a user's cache would let others act as that user.
    """
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder, name)
            if not path.is_symlink():
                mode = path.stat().st_mode & 0o777
                path.chmod(mode | (0o755 if path.is_dir() or mode & 0o100 else 0o644))


def _link_busybox(commands: Commands, root: Path) -> None:
    """Add busybox's `cat`, `ls`, `less` and so on, where no package has the program."""
    busybox = root / "usr" / "bin" / "busybox"
    listed = commands.output([busybox, "--list"], what="listing busybox's programs", timeout_s=20)
    for name in listed.split():
        if not any(os.path.lexists(root / "usr" / folder / name) for folder in ("bin", "sbin")):
            (root / "usr" / "bin" / name).symlink_to("busybox")
