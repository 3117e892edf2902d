# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A PC of counted instructions: Debian's kernel under QEMU's `-icount`, where every run of it is the same.

    image = machine_image(folder)
    archive = run(image, part, seed=1, folder=folder, limit_s=600, stop=stop)

Its clock is the number of its instructions, a nanosecond each, and leaps to the next timer when it idles.
Nothing reaches it from outside: it has no disk, no network, no entropy but a seed's, and its date is fixed.
Its root is memory, which the kernel fills from an archive, and its results leave by a serial port.
"""

import hashlib
import json
import lzma
import re
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from l4sbench.disk import assets
from l4sbench.disk.files import write_whole
from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import TrialFailed
from l4sbench.testbeds.nodes.userland import node_userland
from l4sbench.testbeds.ssh.lean import compiled
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.scratchapt import ScratchApt
from l4sbench.testbeds.virtual.lab.source import version_key
from tests.lab.debian.root import archive as debian_archive
from tests.lab.icount import guest
from tests.lab.icount.cpio import Entry, archive, of_folder
from tests.patience import PATIENCE_S

SUITES = "trixie trixie-backports"
MEMORY_MB = 1536
NICENESS = 10
CPU = "max,la57=off,cx16=off"
"""Without cmpxchg16b: a kernel that QEMU 7.2 interrupts in it comes back with wrong flags, and faults."""
EPOCH = "2026-01-01T00:00:00"
LINE = "console=ttyS0 loglevel=4 mitigations=off nokaslr norandmaps tsc=reliable clocksource=tsc panic=-1"
# fmt: off
MODULES = (
    "kernel/drivers/net/veth.", "kernel/lib/", "kernel/net/802/", "kernel/net/bridge/bridge.",
    "kernel/net/core/", "kernel/net/ipv4/inet_", "kernel/net/ipv4/tcp_", "kernel/net/ipv4/udp_",
    "kernel/net/llc/", "kernel/net/netlink/", "kernel/net/packet/", "kernel/net/sched/",
)
"""Beginnings of paths of the modules that the machine has, of those that the kernel comes with."""
LEFT_OUT = (
    "boot/", "lab/", "trial/", "usr/bin/perl", "usr/bin/ssh", "usr/games/", "usr/include/", "usr/lib/apt/",
    "usr/lib/openssh/", "usr/lib/python3/", "usr/lib/systemd/", "usr/lib/x86_64-linux-gnu/perl",
    "usr/lib/x86_64-linux-gnu/systemd/", "usr/libexec/", "usr/sbin/sshd", "usr/share/", "usr/src/",
    "var/lib/dpkg/",
)
# fmt: on
"""Beginnings of paths in the userland of nodes that a trial does not need."""

_INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
exec python3 /guest.py
"""
_KERNEL = re.compile(r"linux-image-(\d+\.\d+\.\d+(?!.*(?:cloud|rt)).*-amd64)")
_POLL_S = 0.2


@dataclass(frozen=True)
class Image:
    """Kernel, modules and root of the machine.

    Attributes:
        kernel: Debian's kernel.
        root: Archive of its first root.
        release: The kernel's release.
        version: The kernel's packages and their versions.
        modules: Digest of each of our modules.
        digest: Digest of the root.
    """

    kernel: Path
    root: Path
    release: str
    version: str
    modules: Mapping[str, str]
    digest: str


def machine_image(folder: Path, modules: Path | None = None) -> Image:
    """Make what the machine boots, in a folder: the newest kernel of Debian, or that of our modules.

    Args:
        folder: Folder for it.
        modules: Our modules for a kernel, in a folder that is named by its release, as
            `tools/module_headers.py --keep` leaves them; None: none.

    Raises:
        TestbedError: the archive has no such kernel, or the lab is not built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    release, version = _unpack(modules.name if modules else None, folder)
    own = sorted(modules.glob("*.ko*")) if modules else []
    entries: dict[str, Entry] = {}
    userland = node_userland(Lab.locate(), lambda *_: None)
    for layer in (userland.base, userland.layer):
        entries |= {name: one for name, one in of_folder(layer) if not name.startswith(LEFT_OUT)}
    helper = assets.folder("roles") / "helper" / "files" / "helper"
    entries |= {f"helper/{path.name}": Entry.file(path.read_bytes()) for path in helper.glob("*.py")}
    entries["init"] = Entry.file(_INIT.encode(), executable=True)
    entries["guest.py"] = Entry.file(Path(guest.__file__).read_bytes())
    lean = compiled(folder).read_bytes()
    entries["var/lib/l4sbench/bin/lab-traffic"] = Entry.file(lean, executable=True)
    # where the kernel's first process finds its console
    entries["dev/console"] = Entry(stat.S_IFCHR | 0o600, device=(5, 1))
    entries |= dict(_modules(folder / "unpacked", release, own))
    root = folder / "root.cpio"
    digest = hashlib.sha256()
    with root.open("wb") as out:
        for piece in archive(entries):
            digest.update(piece)
            out.write(piece)
    return Image(
        kernel=next((folder / "unpacked").rglob("vmlinuz*")),
        root=root,
        release=release,
        version=version,
        modules={path.name.partition(".")[0]: _digest(path) for path in own},
        digest=digest.hexdigest(),
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _unpack(release: str | None, folder: Path) -> tuple[str, str]:
    """Unpack Debian's packages of a kernel into `unpacked`, and return its release and their versions."""
    cache = Cache.open()
    apt = ScratchApt.open(cache.root / "apt", debian_archive(), SUITES, cache.logs / "icount.log")
    if release is None:
        offered = (_KERNEL.fullmatch(one.name) for one in apt.offered("^linux-image-[0-9].*-amd64$"))
        release = max((one[1] for one in offered if one), key=version_key)
    # the one of the name linux-image has the kernel, or depends on those that have it
    packages = apt.offered(rf"^linux-(image|binary|modules)-{re.escape(release)}$")
    version, place = " ".join(f"{one.name} {one.version}" for one in packages), folder / "unpacked"
    if (place / "version").is_file() and (place / "version").read_text() == version:
        return release, version
    debs = folder / "debs"
    debs.mkdir(exist_ok=True)
    place.mkdir(exist_ok=True)
    for deb in apt.download(packages, debs):
        unpack = ["tar", "-x", "-C", str(place), "--no-same-owner"]
        apt.commands.pipe(
            ["dpkg-deb", "--fsys-tarfile", deb], unpack, what=f"unpacking {deb.name}", timeout_s=PATIENCE_S
        )
        deb.unlink()
    write_whole(place / "version", version)
    return release, version


def _modules(unpacked: Path, release: str, own: Sequence[Path]) -> Iterator[tuple[str, Entry]]:
    """Yield the kernel's modules of networks and ours, none compressed, and what modprobe reads of them."""
    there = unpacked / "usr" / "lib" / "modules" / release
    chosen = unpacked / "chosen" / "lib" / "modules" / release
    shutil.rmtree(unpacked / "chosen", ignore_errors=True)
    files = {path.relative_to(there).as_posix(): path for path in there.rglob("*.ko*")}
    files = {name: path for name, path in files.items() if name.startswith(MODULES)}
    files |= {f"updates/{path.name}": path for path in own}
    for name, path in files.items():
        target = chosen / name.removesuffix(".xz")
        target.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes()
        target.write_bytes(lzma.decompress(data) if name.endswith(".xz") else data)
    for path in there.glob("modules.*"):
        (chosen / path.name).write_bytes(path.read_bytes())
    depmod = ["/sbin/depmod", "-b", str(unpacked / "chosen"), release]
    Commands.logging_to(Cache.open().logs / "depmod.log").run(depmod, what="depmod", timeout_s=PATIENCE_S)
    for name, entry in of_folder(chosen):
        if not stat.S_ISDIR(entry.mode):
            yield f"usr/lib/modules/{release}/{name}", entry


def run(
    image: Image,
    part: Mapping[str, object],
    *,
    seed: int,
    folder: Path,
    limit_s: float,
    stop: threading.Event,
) -> Path:
    """Run a host's part of a trial on a machine, and return the archive of its results.

    Args:
        image: The image that the machine boots.
        part: The part.
        seed: Seed of its entropy.
        folder: For the machine's files.
        limit_s: Seconds by the clock of this machine after which it is ended.
        stop: Ends it.

    Raises:
        TrialFailed: it sent no results, or not within the limit.
        TrialStopped: `stop` was set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    result, console, root, record = (folder / name for name in ("result", "console", "initrd", "record"))
    with root.open("wb") as out:
        out.write(image.root.read_bytes())
        out.writelines(archive({"part.json": Entry.file(json.dumps(part, sort_keys=True).encode())}))
    with (folder / "qemu").open("wb") as said:
        argv = ["nice", "-n", str(NICENESS), "setpriv", "--pdeathsig", "KILL"]
        argv += machine(image.kernel, root, console, result, record, seed)
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
    deadline = time.monotonic() + limit_s
    try:
        while process.poll() is None:
            if stop.wait(_POLL_S):  # expires: it is asked again and again
                raise TrialStopped
            if time.monotonic() > deadline:
                raise TrialFailed(f"the machine did not end within {limit_s:g} s")
    finally:
        process.kill()
        process.wait()
        root.unlink()
        record.unlink(missing_ok=True)
    return _results(result, folder)


def machine(kernel: Path, root: Path, console: Path, result: Path, record: Path, seed: int) -> list[str]:
    """Return the command that starts the machine.

    It records its run, which nobody replays: only then do QEMU's main thread and the processor's take turns.
    Without that one of two runs was some nanoseconds off from 12.8 s on (docs/results/icount.md).
    """
    argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-accel", "tcg,thread=single", "-rtc", f"base={EPOCH},clock=vm"]
    argv += ["-icount", f"shift=0,sleep=off,rr=record,rrfile={record}"]
    argv += ["-seed", str(seed), "-cpu", CPU, "-machine", "q35", "-smp", "1", "-m", str(MEMORY_MB)]
    argv += ["-kernel", str(kernel), "-initrd", str(root), "-append", LINE]
    return [*argv, "-serial", f"file:{console}", "-serial", f"file:{result}"]


def _results(result: Path, folder: Path) -> Path:
    sent = result.read_bytes() if result.is_file() else b""
    length = int.from_bytes(sent[:8], "big")
    data, digest = sent[8 : 8 + length], sent[8 + length :]
    if not length or hashlib.sha256(data).digest() != digest:
        said = (folder / "console").read_text(errors="replace") if (folder / "console").is_file() else ""
        said += (folder / "qemu").read_text(errors="replace")
        raise TrialFailed(f"the machine sent no results: {said.strip()[-500:]}")
    found = folder / "results.tar.gz"
    write_whole(found, data)
    return found
