# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Common functions of the helper: commands, files that appear whole, interfaces by their addresses.

The helper runs on the hosts of an experiment: Python 3.9 or newer, standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Sequence

STATE = Path(os.environ.get("L4SBENCH_STATE", "/var/lib/l4sbench"))
"""Folder of everything that the helper keeps on a host."""
PROGRAMS = {"lab-traffic": STATE / "bin" / "lab-traffic"}
"""Programs that a run copies to the host; others are the host's own."""
EXECUTABLE = "%exec/"
"""Before the name of a program of the user's own, which a run copies to the host, too."""
NAMESPACE_PREFIX = "l4sb-"
HUB = "l4sb-hub"
"""Namespace of the bridges of a host that holds several nodes."""

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


class Failed(Exception):  # noqa: N818  (it names an event)
    """A failure, with a reason for the person who started the run.

    `secondary`: it is only a consequence of a failure elsewhere. `missed`: this node missed the start, so
    the trial may be tried again at once.
    """

    def __init__(self, reason: str, *, secondary: bool = False, missed: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.secondary = secondary
        self.missed = missed


def run(
    argv: Sequence[str],
    *,
    timeout_s: float = 10.0,
    netns: str | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises Failed when it cannot be run, and with `check` when it fails."""
    full = [*in_namespace(netns), *argv]
    try:
        ended = subprocess.run(
            full, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError as error:
        raise Failed(f"{full[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(argv)}: no end within {timeout_s:g} s") from error
    if check and ended.returncode:
        said = (ended.stderr or ended.stdout).strip()[-500:]
        raise Failed(f"{' '.join(argv)}: ended with code {ended.returncode}: {said}")
    return ended


def take_all(steps: Iterable[Callable[[], list[str]]]) -> list[str]:
    """Take every step, also after one that fails, and return what they changed. Raises Failed at the end."""
    changed: list[str] = []
    failures = []
    for step in steps:
        try:
            changed += step()
        except Failed as failure:
            failures.append(failure.reason)
    if failures:
        raise Failed("; ".join(failures))
    return changed


def in_namespace(netns: str | None) -> list[str]:
    """Return the words that run a command in a network namespace."""
    return ["ip", "netns", "exec", netns] if netns else []


def listed(argv: Sequence[str], *, netns: str | None = None) -> list[dict[str, Any]]:
    """Return the JSON list that a command of iproute2 prints. Raises Failed."""
    text = run(argv, netns=netns).stdout
    try:
        plain = json.loads(text or "[]")
    except ValueError as error:
        raise Failed(f"{' '.join(argv)}: its output is not JSON; iproute2 4.17 or newer is needed") from error
    return [item for item in plain if isinstance(item, dict) and item]


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file that appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(text.encode() if isinstance(text, str) else text)
    partial.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the map in a file; None when there is none."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return plain if isinstance(plain, dict) else None


def read_text(path: str | Path) -> str:
    """Return a small file's text, stripped; empty when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def boot_id() -> str:
    """Return the id of this boot."""
    return read_text("/proc/sys/kernel/random/boot_id")


def namespace_of(part: Mapping[str, Any], node: str) -> str | None:
    """Return the namespace of a node of this host; None for the only node of a host."""
    return NAMESPACE_PREFIX + node if len(part["host_nodes"]) > 1 else None


def namespaces() -> list[str]:
    """Return the network namespaces of this host that are ours."""
    try:
        names = [str(item.get("name")) for item in listed(["ip", "-j", "netns", "list"])]
    except Failed:
        return []
    return [name for name in names if name.startswith(NAMESPACE_PREFIX)]


def links(netns: str | None = None) -> list[dict[str, Any]]:
    """Return the interfaces of a namespace as `ip -j link` shows them."""
    return listed(["ip", "-j", "link", "show"], netns=netns)


def by_mac(mac: str, netns: str | None = None) -> str | None:
    """Return the name of the interface with this hardware address, other than bridges and veths."""
    for link in links(netns):
        same = str(link.get("address", "")).lower() == mac.lower()
        if same and not link.get("linkinfo") and link.get("link_type") != "loopback" and not is_made(link):
            return str(link["ifname"])
    return None


def is_made(link: Mapping[str, Any]) -> bool:
    """Return True if it is one of our own bridges or veths, which have no hardware behind them."""
    return "link_index" in link or "link" in link or str(link["ifname"]).startswith(("br-", "hub-"))


def port(part: Mapping[str, Any], node: str, network: str) -> str:
    """Return the interface of a node at a network, seen from the node's namespace. Raises Failed."""
    mac = part["ports"].get(network)
    here = [name for name in part["networks"][network] if name in part["host_nodes"]]
    if len(part["host_nodes"]) > 1 and (mac is None or len(here) > 1):
        return str(network)
    name = by_mac(mac) if mac else None
    if name is None:
        raise Failed(f"{node} has no interface with the address {mac or '(none given)'} for {network}")
    return name


def resolve(part: Mapping[str, Any], node: str, argv: Sequence[str]) -> list[str]:
    """Return an argument list with `@<network>` replaced by the node's interface at the network.

    A program that a run copies to the host is replaced by its place.
    """
    words = [port(part, node, word[1:]) if word.startswith("@") else str(word) for word in argv]
    first = words[0]
    if first.startswith(EXECUTABLE):
        return [str(STATE / "bin" / Path(first).name), *words[1:]]
    return [str(PROGRAMS.get(first, first)), *words[1:]]


def duration_ns(text: str) -> int:
    """Return the nanoseconds of a duration in a program, such as `1.5ms`."""
    number = text.rstrip("nums")
    return int(Decimal(number) * _UNITS[text[len(number) :]])


def ended_from_outside(_number: int, _frame: object) -> None:
    """Handle a signal: the process cleans up and reports why it ended."""
    raise Failed("it was ended from outside")
