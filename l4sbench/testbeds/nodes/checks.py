# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Checks of what this machine needs for booting nodes, and the command that installs what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from l4sbench.testbeds.virtual.lab.doctor import Check, program_checks

PROGRAMS = {
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "unshare": "util-linux",
}
"""Programs that a lab of nodes starts, by the Debian package that brings them."""

TYPICAL_MB = 192
"""Memory that a node uses after a playbook and a trial or two; see docs/nodes.md."""

_TRY_S = 20


def node_checks(nodes: int = 6, memory_mb: int = TYPICAL_MB) -> list[Check]:
    """Check what booting this many nodes needs, each with at most this much memory; change nothing."""
    programs = program_checks(PROGRAMS, lambda name: shutil.which(name, path=_path()))
    if not all(check.ok for check in programs):
        return programs
    tun = _tun()
    return [*programs, tun, _namespaces(taps=tun.ok), _memory(nodes, min(memory_mb, TYPICAL_MB))]


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _tun() -> Check:
    device = Path("/dev/net/tun")
    if os.access(device, os.R_OK | os.W_OK):
        return Check("tun device", True, str(device))
    if device.exists():
        return Check("tun device", False, f"no permission to open {device}", f"sudo chmod 0666 {device}")
    return Check("tun device", False, f"{device} is missing; a container gets it by `--device {device}`")


def _namespaces(*, taps: bool) -> Check:
    """Make networks as the lab does, in temporary namespaces; `taps`: taps can be made as well."""
    name = "user namespaces"
    argv = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"]
    links = "link add l4sbench0 type bridge\n" + ("tuntap add dev l4sbench1 mode tap\n" if taps else "")
    try:
        done = subprocess.run(
            [*argv, "ip", "-batch", "-"],
            input=links,
            capture_output=True,
            text=True,
            timeout=_TRY_S,
            check=False,
            env={**os.environ, "PATH": _path(), "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Check(name, False, str(error))
    if done.returncode == 0:
        return Check(name, True, "networks work without root")
    said = done.stderr.strip().splitlines()
    detail = f"this user cannot create a network namespace: {said[0] if said else 'unshare failed'}"
    return Check(name, False, detail, _mend_namespaces())


def _mend_namespaces() -> str | None:
    """Return the command that permits user namespaces; None when no known setting forbids them."""
    for setting, allows in (
        ("kernel.apparmor_restrict_unprivileged_userns", "0"),
        ("kernel.unprivileged_userns_clone", "1"),
    ):
        try:
            now = Path("/proc/sys", setting.replace(".", "/")).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if now != allows:
            return f"sudo sysctl {setting}={allows}"
    return None


def _memory(nodes: int, each_mb: int) -> Check:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text("ascii"), re.MULTILINE)
    available_mb = int(found[1]) // 1024 if found else 0
    needed_mb = nodes * each_mb
    detail = f"{available_mb} MB free"
    if available_mb >= needed_mb:
        return Check("memory", True, detail)
    return Check("memory", False, f"{detail}; {nodes} nodes need about {needed_mb}")
