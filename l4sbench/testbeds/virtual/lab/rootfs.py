# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The guest's root folder, assembled from userland, tools and modules; and its first boot."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache, digest_of
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.inputs import RECIPE
from l4sbench.testbeds.virtual.lab.kernel import Kernel
from l4sbench.testbeds.virtual.lab.programs import LabModule, Tools
from l4sbench.testbeds.virtual.lab.userland import Userland

_BOOT_S = 60
_ANSWERS = ("pass ", "fail ", "release ", "random ", "end")
_CHECK = "lab/check"
_CHECK_SCRIPT = """\
#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
# First boot of a new lab: check that everything that trials need works.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
try() { if "$@" >/run/said 2>&1; then echo "pass $*"; else echo "fail $*: $(cat /run/said)"; fi; }
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run
while read -r module; do try insmod "/lab/modules/$module.ko"; done </lab/modules/order
try tc -V; try ss -V; try iperf3 -v; try ethtool --version; try tcpdump --version
try ip link add first type dummy
try ip link set first up
try tc qdisc add dev first root handle 1: htb default 10
try tc class add dev first parent 1: classid 1:10 htb rate 100mbit
try tc qdisc add dev first parent 1:10 handle 10: dualpi2
try ip link add bridge type bridge
try ip link add v0 type veth peer name v1
try ethtool -K v0 tso off gso off gro off
echo "release $(cat /proc/sys/kernel/osrelease)"
echo "random $(cat /proc/sys/kernel/random/uuid)"
echo end
exec /usr/bin/busybox poweroff -f
"""


def compose_rootfs(
    cache: Cache, userland: Userland, tools: Tools, modules: Sequence[LabModule], *, force: bool = False
) -> Path:
    """Link userland, tools and modules (in load order) into one folder. Costs no space: files are hard links.

    Returns:
        The part's folder, which is the guest's root.
    """
    digests = (module.info.digest for module in modules)
    digest = digest_of([RECIPE["rootfs"], userland.path.name, tools.digest, _CHECK_SCRIPT, *digests])
    part = cache.part("rootfs", digest)
    if force or not part.is_dir():
        with cache.stage("rootfs", digest) as stage:
            shutil.copytree(userland.root, stage, symlinks=True, copy_function=_link, dirs_exist_ok=True)
            for path in tools.path.iterdir():
                _link(path, stage / "lab" / "bin" / path.name)
            for module in modules:
                _link(module.path, stage / "lab" / "modules" / module.path.name)
                for extension in module.tc_extensions:
                    _link(extension, _tc_folder(stage) / extension.name)
            order = "".join(f"{module.name}\n" for module in modules)
            (stage / "lab" / "modules" / "order").write_text(order, encoding="utf-8")
            check = stage / _CHECK
            check.write_text(_CHECK_SCRIPT, encoding="utf-8")
            check.chmod(0o755)
    return part


def _tc_folder(root: Path) -> Path:
    """Return where the userland's tc looks for extensions: beside its distributions for netem."""
    for path in sorted(root.glob("usr/lib/**/tc/normal.dist")):
        return path.parent
    raise TestbedError("the userland has no folder for extensions of tc", hint="l4sbench lab build --force")


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target, follow_symlinks=False)


def first_boot(kernel: Kernel, rootfs: Path, log: Path) -> None:
    """Boot twice with one seed, in virtual time, and let the guest check what trials need.

    Raises:
        TestbedError: The guest does not boot, something in it does not work, or the boots differ.
    """
    said = [_boot(kernel, rootfs, log) for _ in range(2)]
    failed = [line.removeprefix("fail ") for line in said[0] if line.startswith("fail ")]
    hint = f"the whole log is {log}"
    if failed:
        raise TestbedError(f"the new guest boots, but {'; '.join(failed)}", hint=hint)
    if f"release {kernel.info.release}" not in said[0] or "end" not in said[0]:
        raise TestbedError("the new guest does not boot", hint=hint)
    if said[0] != said[1]:
        raise TestbedError("two boots with one seed differ: the guest is not deterministic", hint=hint)


def _boot(kernel: Kernel, rootfs: Path, log: Path) -> list[str]:
    """Boot once and return the answers of the guest's check."""
    said: list[str] = []

    def on_line(line: str) -> None:
        if line.startswith(_ANSWERS):
            said.append(line.rstrip())  # the console ends lines with \r\n

    with tempfile.TemporaryDirectory(prefix="l4sbench-") as home:
        # not quiet: if a guest does not boot, the log shows how far it got
        argv: list[str | Path] = [
            kernel.path / "linux",
            "rootfstype=hostfs",
            f"rootflags={rootfs}",
            "ro",
            f"init=/{_CHECK}",
            "mem=256M",
            "con=null",
            "con0=fd:0,fd:1",
            "seccomp=on",
            f"uml_dir={home}",
            "lab.seed=1",
            "time-travel=inf-cpu",
            "time-travel-start=1700000000000000000",
            "panic=-1",
        ]
        commands = Commands.logging_to(log, {"TMPDIR": home})  # where the guest's memory file goes
        commands.run(argv, what="booting the new guest", timeout_s=_BOOT_S, on_line=on_line)
    return said
