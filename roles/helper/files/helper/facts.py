# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Facts about a host: kernel, tools, modules, interfaces. Queried once, before anything runs."""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
import re
import shutil
import time
from pathlib import Path
from typing import Any, Iterable, Mapping

from system import STATE, Failed, boot_id, listed, namespaces, read_text, run

_NOWHERE = {"dummy", "ifb"}
"""Kinds of interfaces that do not lead to other hosts."""
_BROUGHT = re.compile(r"/(dkms|l4sbench)/")
"""In the paths of modules that a run or DKMS brings, whose files may be newer than what is loaded."""
EFI_VARIABLES = Path("/sys/firmware/efi/efivars")
_VERSIONS = {
    "iperf3": (["iperf3", "--version"], r"iperf ([0-9.]+)"),
    "tc": (["tc", "-V"], r"iproute2-(?:ss)?v?([0-9.]+)"),
    "ss": (["ss", "-V"], r"iproute2-(?:ss)?v?([0-9.]+)"),
    "ip": (["ip", "-V"], r"iproute2-(?:ss)?v?([0-9.]+)"),
    "ethtool": (["ethtool", "--version"], r"version ([0-9.]+)"),
    "tcpdump": (["tcpdump", "--version"], r"tcpdump version ([0-9.]+)"),
    "flent": (["flent", "--version"], r"Flent v([0-9.]+)"),
    "ping": (["ping", "-V"], r"iputils[- ]s?([0-9.]+)"),
    "iperf": (["iperf", "--version"], r"iperf version ([0-9.]+)"),
    "irtt": (["irtt", "version"], r"irtt version: ([0-9.]+)"),
    "netperf": (["netperf", "-V"], r"version ([0-9.]+)"),
    "netserver": (["netserver", "-V"], r"version ([0-9.]+)"),
    "nft": (["nft", "--version"], r"nftables v([0-9.]+)"),
}


def facts(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that a run must know of this host.

    Args:
        asked: `config`: kernel symbols without CONFIG_; `modules`, `ccs` and `queues`: names of interest.
    """
    release = read_text("/proc/sys/kernel/osrelease")
    config = kernel_config(release)
    return {
        "kernel_release": release,
        "kernel_version": read_text("/proc/sys/kernel/version"),
        "machine": platform.machine(),
        "distribution": _distribution(),
        "python": platform.python_version(),
        "root": os.geteuid() == 0,
        "systemd": Path("/run/systemd/system").is_dir(),
        "boot_id": boot_id(),
        "time_s": time.time(),
        "accecn": Path("/proc/sys/net/ipv4/tcp_ecn_option").exists(),
        "tools": {name: found for name in _VERSIONS if (found := _version(name))},
        "config": {name: config.get(name, "") for name in asked.get("config", [])} if config else None,
        "modules": {name: known for name in asked.get("modules", []) if (known := module(name, release))},
        "ccs": _ccs(asked.get("ccs", []), release),
        "queues": [kind for kind in asked.get("queues", []) if _tc_knows(kind)],
        "tc_folder": _tc_folder(),
        "interfaces": _interfaces(),
        "secure_boot": secure_boot(EFI_VARIABLES),
        "free_mb": shutil.disk_usage(STATE.parent if not STATE.exists() else STATE).free // 2**20,
    }


def secure_boot(variables: Path) -> bool:
    """Return True if the firmware lets this host run only what is signed (UEFI specification, 32.3)."""
    try:
        found = next(variables.glob("SecureBoot-*")).read_bytes()
    except (OSError, StopIteration):
        return False
    return found[4:5] == b"\1"  # four bytes of attributes come before the value


def kernel_config(release: str) -> dict[str, str]:
    """Return the kernel's configuration without CONFIG_; empty when the host does not provide it."""
    text = ""
    try:
        text = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except OSError:
        text = read_text(f"/boot/config-{release}") or read_text(f"/lib/modules/{release}/config")
    return dict(re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.MULTILINE))


def module(name: str, release: str) -> dict[str, str] | None:
    """Return source version and file of a module that is loaded or could be; None when there is none.

    Where a kernel was built without source versions of its modules, the file's digest takes their place. Of
    one that was brought the file counts, as trials load it again if another version is loaded (`wiring`).
    `state` is `loaded`, `there`, or, for a file that was built for another kernel, `for` and its release.
    """
    loaded = Path(f"/sys/module/{name}/initstate").exists()  # what is built in has no such file
    version = read_text(f"/sys/module/{name}/srcversion")
    own = STATE / "modules" / release / f"{name}.ko"
    try:
        ended = run(["modinfo", str(own) if own.exists() else name], check=False)
    except Failed:
        return {"srcversion": version, "file": "", "state": "loaded"} if version else None
    shown = dict(re.findall(r"^(\w+):\s+(.*)$", ended.stdout, re.MULTILINE))
    file = shown.get("filename", "")
    built_for = shown.get("vermagic", release).split()[0] if own.exists() else release
    stored = shown.get("srcversion", "")
    if stored and built_for == release and _BROUGHT.search(file):
        version = stored
    version = version or stored or _digest(file)
    state = "loaded" if loaded else "there" if built_for == release else f"for {built_for}"
    return {"srcversion": version, "file": file, "state": state} if version else None


def _digest(file: str) -> str:
    """Return the digest of a file, as long as a source version; empty for `(builtin)` and other words."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:24].upper()
    except OSError:
        return ""


def _version(name: str) -> str:
    """Return a tool's version, or `?` when it prints none; empty when the tool is missing."""
    argv, pattern = _VERSIONS[name]
    if not shutil.which(argv[0]):
        return ""
    try:
        ended = run(argv, check=False)
    except Failed:
        return "?"
    found = re.search(pattern, ended.stdout + ended.stderr)
    return found[1].rstrip(".") if found else "?"


def _ccs(names: Iterable[str], release: str) -> list[str]:
    """Return those of these congestion controls, by kernel name, that are available or can be loaded."""
    there = set(read_text("/proc/sys/net/ipv4/tcp_available_congestion_control").split())
    for name in names:
        known = None if name in there else module(f"tcp_{name}", release)
        if known is not None and not known["state"].startswith("for "):
            there.add(name)
    return [name for name in names if name in there]


def _tc_knows(kind: str) -> bool:
    """Return True if tc can set up a queue of this kind, by itself or by a file for it."""
    try:
        ended = run(["tc", "qdisc", "add", kind, "help"], check=False)
    except Failed:
        return False
    return "Unknown qdisc" not in ended.stdout + ended.stderr


def _tc_folder() -> str:
    """Return where tc looks for files about further queues, a path compiled into it; empty if unknown.

    A script that starts another tc sets it.
    """
    try:
        content = Path(shutil.which("tc") or "").read_bytes()
    except OSError:
        return ""
    found = re.search(rb"(?:\0|TC_LIB_DIR=)(/[\w./-]+/tc)(?:/\0|\n)", content)
    return found[1].decode() if found else ""


def _distribution() -> str:
    pairs = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', read_text("/etc/os-release"), re.MULTILINE))
    return f"{pairs.get('ID', '?')} {pairs.get('VERSION_ID', pairs.get('VERSION_CODENAME', '?'))}"


def _interfaces() -> list[dict[str, Any]]:
    found = []
    busy = _management()
    for netns in (None, *namespaces()):
        try:
            shown = listed(["ip", "-d", "-j", "link", "show"], netns=netns)
            addresses = _addresses("-4", netns)
            addresses_6 = _addresses("-6", netns)
        except Failed:
            continue
        found += [
            {
                "name": str(link["ifname"]),
                "mac": str(link.get("address", "")).lower(),
                "netns": netns,
                "addresses": addresses.get(str(link["ifname"]), []),
                "addresses_6": addresses_6.get(str(link["ifname"]), []),
                "management": netns is None and str(link["ifname"]) in busy,
            }
            for link in shown
            if link.get("link_type") == "ether" and link.get("linkinfo", {}).get("info_kind") not in _NOWHERE
        ]
    return found


def _addresses(version: str, netns: str | None) -> dict[str, list[str]]:
    """Return the addresses of every interface; of IPv6 without those that it has for its link in any case."""
    return {
        str(item["ifname"]): [
            f"{a.get('local')}/{a.get('prefixlen')}"
            for a in item["addr_info"]
            if version == "-4" or a.get("scope") != "link"
        ]
        for item in listed(["ip", "-j", version, "address", "show"], netns=netns)
        if "addr_info" in item
    }


def _management() -> set[str]:
    """Return the interfaces of the default route and of this connection, which experiments must not use."""
    found: set[str] = set()
    for family in ("-4", "-6"):
        ended = run(["ip", "-j", family, "route", "show", "default"], check=False)
        found |= set(re.findall(r'"dev":\s*"([^"]+)"', ended.stdout))
    own = _connected_to()
    for item in listed(["ip", "-j", "address", "show"]):
        if own and any(a.get("local") == own for a in item.get("addr_info", [])):
            found.add(str(item["ifname"]))
    return found


def _connected_to() -> str:
    """Return this host's address in the ssh connection that started this; sudo drops the variable."""
    pid = "self"
    while pid not in {"", "0", "1"}:
        for entry in read_text(f"/proc/{pid}/environ").split("\0"):
            name, _, value = entry.partition("=")
            if name == "SSH_CONNECTION" and len(value.split()) == 4:
                return value.split()[2].partition("%")[0]  # a link-local address has a zone
        parent = re.search(r"^PPid:\s+(\d+)", read_text(f"/proc/{pid}/status"), re.MULTILINE)
        pid = parent[1] if parent else ""
    return ""
