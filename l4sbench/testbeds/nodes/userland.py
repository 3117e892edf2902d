# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The root of booted nodes, which have more than the lab's guest: sshd, Python, sudo and common tools.

A layer over the guest's userland, with only the packages that this lacks; a node sees both as one root and
writes into memory above them. Packages are unpacked, not installed, as the guest's are; what maintainer
scripts would have done, as far as a node needs it, is in `_FILES`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.disk.files import write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.aptsources import debian_archives, read_sources
from l4sbench.testbeds.virtual.lab.cache import Cache, digest_of, read_note
from l4sbench.testbeds.virtual.lab.userland import (
    PACKAGES,
    Userland,
    fill,
    find_userland,
    obtain,
)
from l4sbench.text.models import Strict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from l4sbench.testbeds.virtual.lab import Lab
    from l4sbench.testbeds.virtual.lab.command import Commands
    from l4sbench.testbeds.virtual.lab.scratchapt import Package, ScratchApt

    Say = Callable[[str, float | None], None]

KIND = "node-userland"

NODE_PACKAGES = (
    "apt",
    "coreutils",
    "dpkg",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "iputils-ping",
    "libpam-modules",
    "mawk",
    "netbase",
    "openssh-client",
    "openssh-server",
    "openssh-sftp-server",
    "passwd",
    "python3",
    "python3-apt",
    "rsync",
    "sed",
    "sudo",
    "tar",
    "util-linux",
    "xz-utils",
)
"""Packages that Ansible and people expect on a Debian host, beyond those of the guest."""

USER = "debian"
"""The user for logins, with sudo without a password as on a cloud image."""

_RECIPE_VERSION = "1"
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_MOUNT_POINTS = ("dev", "proc", "sys", "run", "tmp", "mnt", "root", "var/lib/dpkg/info", "var/log")
_PASSWD = f"""\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
sshd:x:101:65534::/run/sshd:/usr/sbin/nologin
tcpdump:x:102:102::/nonexistent:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
{USER}:x:1000:1000::/home/{USER}:/bin/bash
"""
_GROUP = f"""\
root:x:0:
daemon:x:1:
adm:x:4:{USER}
tty:x:5:
sudo:x:27:{USER}
shadow:x:42:
utmp:x:43:
tcpdump:x:102:
nogroup:x:65534:
{USER}:x:1000:
"""
_FILES = {
    "etc/passwd": _PASSWD,
    "etc/group": _GROUP,
    # no password matches "*", and unlike "!" it does not lock the account for sshd
    "etc/shadow": "".join(f"{line.split(':')[0]}:*:19000:0:99999:7:::\n" for line in _PASSWD.splitlines()),
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/nsswitch.conf": "".join(
        f"{name}: files\n"
        for name in ("passwd", "group", "shadow", "hosts", "networks", "services", "protocols")
    ),
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/profile": "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n",
    "etc/sudoers": (
        "Defaults !fqdn\n"
        'Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"\n'
        f"root ALL=(ALL:ALL) ALL\n{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n"
    ),
    **{
        f"etc/pam.d/{name}": "".join(f"{kind} sufficient pam_permit.so\n" for kind in ("account", "session"))
        + "auth required pam_deny.so\n"
        for name in ("sudo", "sudo-i", "su", "other", "login", "sshd")
    },
    "etc/ssh/sshd_config": (
        "HostKey /etc/ssh/ssh_host_ed25519_key\n"
        "AuthorizedKeysFile .ssh/authorized_keys\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        "UsePAM no\nUseDNS no\nPidFile none\nPrintMotd no\nSubsystem sftp internal-sftp\n"
        "# a whole playbook knocks at once\nMaxStartups 100\nMaxSessions 100\n"
        "SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    ),
}

_UNPACK_PYTHON_S = 300


_RECIPE = digest_of(
    [
        _RECIPE_VERSION,
        *NODE_PACKAGES,
        *(text for pair in _LINKS.items() for text in pair),
        *_MOUNT_POINTS,
        *(text for pair in _FILES.items() for text in pair),
    ]
)


class LayerInfo(Strict):
    """The cache's record of an unpacked layer."""

    recipe: str
    below: str
    suite: str
    packages: dict[str, str]


@dataclass(frozen=True)
class NodeUserland:
    """The root of a node: a layer over the guest's userland.

    Attributes:
        layer: Files that nodes have beyond the guest.
        base: The guest's userland.
        digest: Digest of both.
    """

    layer: Path
    base: Path
    digest: str


def node_userland(lab: Lab, say: Say) -> NodeUserland:
    """Return the userland of nodes, from the cache or, once, from the Debian archive of the guest.

    Raises:
        TestbedError: No archive offers the packages, or a step failed.
    """
    cache = Cache.open(lab.kernel.parents[2])
    base = find_userland(cache, lab.userland.name)
    if base is None:
        raise TestbedError("the lab is incomplete: its userland is missing", hint="l4sbench lab build")
    part = _cached(cache, base)
    if part is None:
        with cache.lock(lambda message: say(message, None), 3600.0):
            part = _cached(cache, base) or _build(cache, base, say)
    part.touch()  # no lab's record names it, so it is pruned by age
    return NodeUserland(part / "root", base.root, part.name)


def _cached(cache: Cache, base: Userland) -> Path | None:
    found = []
    for file in (cache.root / KIND).glob("*/info.json"):
        info = read_note(file, LayerInfo)
        if info is not None and (info.recipe, info.below) == (_RECIPE, base.path.name):
            found.append(file)
    return max(found, key=lambda file: file.stat().st_mtime).parent if found else None


def _build(cache: Cache, base: Userland, say: Say) -> Path:
    archives, wanted = debian_archives(read_sources()), (*PACKAGES, *NODE_PACKAGES)
    apt, suite, packages = obtain(cache, archives, (base.info.suite,), wanted, "the nodes'", say)
    lacking = tuple(p for p in packages if base.info.packages.get(p.name) != p.version)
    listed = (f"{p.name} {p.version} {p.digest}" for p in packages)
    digest = digest_of([_RECIPE, base.path.name, *listed])
    info = LayerInfo(
        recipe=_RECIPE,
        below=base.path.name,
        suite=suite,
        packages={p.name: p.version for p in packages},
    )
    say(f"downloading {len(lacking)} packages of {suite}", None)
    with cache.stage(KIND, digest) as stage:
        root = stage / "root"
        for name, target in _LINKS.items():
            (root / target).mkdir(parents=True)
            (root / name).symlink_to(target)
        _note_packages(apt, packages, root)
        fill(root, apt, lacking, _MOUNT_POINTS, _FILES, say)
        _compile_python(apt.commands, root, base.root, say)
        write_whole(stage / "info.json", info.model_dump_json(indent=1))
    return cache.part(KIND, digest)


def _note_packages(apt: ScratchApt, packages: Iterable[Package], root: Path) -> None:
    """Write dpkg's status, so that dpkg and apt on the node know the packages that are unpacked."""
    shown = apt.commands.output(
        ["apt-cache", "show", "--no-all-versions", *(f"{p.name}={p.version}" for p in packages)],
        what="reading the packages' descriptions",
        timeout_s=60,
    )
    archives_own = re.compile(r"^(Filename|Size|MD5sum|SHA\d+|Description-md5): .*\n", re.MULTILINE)
    stanzas = [
        f"Status: install ok installed\n{archives_own.sub('', stanza + chr(10))}"
        for stanza in shown.strip().split("\n\n")
    ]
    status = root / "var" / "lib" / "dpkg" / "status"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text("\n".join(stanzas), encoding="utf-8")


def _compile_python(commands: Commands, root: Path, base: Path, say: Say) -> None:
    """Byte-compile Python's library; nodes would do so after every boot, and Ansible starts Python often."""
    say("compiling the nodes' Python library", None)
    library = next((root / "usr" / "lib").glob("python3.*"))
    folders = [folder / "usr" / "lib" / "x86_64-linux-gnu" for folder in (root, base)]
    commands.run(
        [
            folders[1] / "ld-linux-x86-64.so.2",
            "--library-path",
            ":".join(map(str, folders)),
            root / "usr" / "bin" / library.name,
            "-E",
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "unchecked-hash",
            "-s",
            root,
            "-p",
            "/",
            library,
            root / "usr" / "lib" / "python3" / "dist-packages",
        ],
        what="compiling Python's library",
        timeout_s=_UNPACK_PYTHON_S,
    )
