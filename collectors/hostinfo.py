# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kernels and settings of the nodes, as read back -> table `hosts`.

`host.json` (of the whole trial, or of one node in its folder) has the kernel and the modules; the outputs of
a program's read-backs have qdiscs (`tc -j qdisc`), offloads (`ethtool -k`), sysctls (`sysctl`) and settings
of switches (`control.py show`).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collectors.collector import BadRawError, Rows, raw_bytes, raw_text
from l4sbench.disk.plain import is_plain
from l4sbench.program import ReadKind
from l4sbench.program.data import PAUSES_FILE, ROUND_TRIPS_FILE, WALKS_FILE

if TYPE_CHECKING:
    from l4sbench.program import Program, Readback
    from l4sbench.program.trial import EndedTrial

HOST_FILE: Final = "host.json"

OFFLOAD_NAMES: Final[Mapping[str, str]] = {
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
}
"""Offloads that a program sets: the name that ethtool prints -> the name that it accepts."""


_BUILD: Final[Mapping[str, str]] = {"lab": "lab", "kernel_source": "source"}
"""Names in `host.json` -> facts of kind `kernel` in table `hosts`."""


@dataclass(frozen=True)
class NodeKernel:
    """Kernel of a node, and the source versions of the modules that it can load.

    `build` has, of a lab's kernel, the lab's name and where its source came from, in words.
    """

    release: str
    modules: Mapping[str, str]
    build: Mapping[str, str]


def read_kernel(raw: Path, node: str) -> NodeKernel | None:
    """Read a node's `host.json`, or else the whole trial's; None without either. Raises BadRawError."""
    for name in (f"{node}/{HOST_FILE}", HOST_FILE):
        path = f"{raw}/{name}"
        if is_plain(path):
            try:
                return _kernel(raw_bytes(path, name))
            except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise BadRawError(f"{name}: {type(error).__name__} {error}") from error
    return None


@lru_cache(maxsize=8)  # that of a whole trial is read for each of its nodes
def _kernel(content: bytes) -> NodeKernel:
    plain = json.loads(content)
    modules = {str(name): str(version) for name, version in plain.get("modules", {}).items()}
    build = {fact: str(plain[name]) for name, fact in _BUILD.items() if name in plain}
    return NodeKernel(str(plain["kernel_release"]), modules, build)


def parse_qdiscs(text: str) -> list[dict[str, object]]:
    """Parse `tc -s -j qdisc show` into one map per qdisc. Raises BadRawError."""
    try:
        plain = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadRawError("is not JSON from tc") from error
    if not isinstance(plain, list) or not all(isinstance(item, dict) for item in plain):
        raise BadRawError("is not a list of qdiscs")
    return plain


def parse_offloads(text: str) -> dict[str, bool]:
    """Parse tso, gso, gro and lro from `ethtool -k`, those that the device has."""
    found = {}
    for line in text.splitlines():
        name, colon, state = line.partition(":")
        if colon and (short := OFFLOAD_NAMES.get(name.strip())):
            found[short] = state.split()[:1] == ["on"]
    return found


def parse_sysctls(text: str) -> dict[str, str]:
    """Parse lines `name = value`; runs of blanks in a value become single spaces."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): " ".join(value.split()) for name, _, value in pairs}


def parse_parameters(text: str) -> dict[str, str]:
    """Parse lines `<folder of the parameters>/<name>:<value>` into `<module> <parameter>` -> value."""
    found = {}
    for line in text.splitlines():
        path, colon, value = line.partition(":")
        parts = Path(path).parts
        if colon and len(parts) >= 3 and parts[-2] == "parameters":
            found[f"{parts[-3]} {parts[-1]}"] = value.strip()
    return found


def read_output(raw: Path, node: str, output: str) -> str | None:
    """Read a raw file of a node; None when it is missing or no file. Raises BadRawError: it is too large."""
    try:
        return raw_text(f"{raw}/{node}/{output}", f"{node}/{output}")
    except OSError:
        return None


def parse_hosts(trial: EndedTrial) -> Rows | None:
    """Return table `hosts`; None when the trial has no such files."""
    rows: dict[tuple[str, str, str], str] = {}
    for node, program in trial.programs.items():
        for kind, name, value in _facts(trial.raw, node, program):
            rows[node, kind, name] = value
    found: Rows = [
        {"node": node, "kind": kind, "name": name, "value": value}
        for (node, kind, name), value in rows.items()
    ]
    return found or None


def _facts(raw: Path, node: str, program: Program) -> Iterator[tuple[str, str, str]]:
    kernel = read_kernel(raw, node)
    if kernel is not None:
        yield "kernel", "release", kernel.release
        yield from (("kernel", fact, value) for fact, value in kernel.build.items())
        for module in program.modules:
            if module.name in kernel.modules:
                yield "module", module.name, kernel.modules[module.name]
    if program.pauses and (text := read_output(raw, node, PAUSES_FILE)) is not None:
        yield "pauses", "path.pause", json.dumps(parse_pauses(text), sort_keys=True)
    if program.walks and (text := read_output(raw, node, WALKS_FILE)) is not None:
        yield "walk", "path.jitter", json.dumps(parse_walks(text), sort_keys=True)
    if program.echoes and (text := read_output(raw, node, ROUND_TRIPS_FILE)) is not None:
        for address, rtt_ms in parse_round_trips(text).items():
            yield "rtt", address, f"{rtt_ms:g} ms"
    for reading in program.readback:
        text = read_output(raw, node, reading.output)
        if text is not None:
            yield from _read_back(reading, text)


def _read_back(reading: Readback, text: str) -> Iterator[tuple[str, str, str]]:
    network = reading.network
    if reading.kind is ReadKind.QDISCS:
        for qdisc in parse_qdiscs(text):
            shown = {"kind": qdisc.get("kind"), **_mapping(qdisc.get("options"))}
            yield "qdisc", f"{network} {qdisc.get('handle')}", json.dumps(shown, sort_keys=True)
        return
    match reading.kind:
        case ReadKind.OFFLOADS:
            for name, on in parse_offloads(text).items():
                yield "offload", f"{network} {name}", "on" if on else "off"
        case ReadKind.SYSCTLS:
            yield from (("sysctl", name, value) for name, value in parse_sysctls(text).items())
        case ReadKind.PARAMETERS:
            yield from (("parameter", name, value) for name, value in parse_parameters(text).items())
        case ReadKind.SWITCH:
            for shown in parse_qdiscs(text):
                yield (
                    "switch",
                    f"{shown.get('network')} {shown.get('kind')}",
                    json.dumps(shown, sort_keys=True),
                )
        case ReadKind.RULES:
            for rule in parse_rules(text):
                value = json.dumps(rule, sort_keys=True)
                yield "rule", f"{network} {rule.get('handle')}", value
        case ReadKind.KERNEL if len(words := text.split()) >= 3:
            yield "kernel", "release", words[2]


def parse_pauses(text: str) -> dict[str, object]:
    """Return number, median and longest of the pauses that a helper made; only the number if it made none."""
    try:
        listed = _mapping(json.loads(text)).get("length_ms")
    except (ValueError, RecursionError):
        listed = None
    numbers = listed if isinstance(listed, list) else []
    lengths = sorted(one for one in numbers if isinstance(one, int | float))
    if not lengths:
        return {"number": 0}
    return {"number": len(lengths), "median_ms": statistics.median(lengths), "longest_ms": lengths[-1]}


def parse_walks(text: str) -> list[dict[str, int]]:
    """Return the steps of a node's walks, and for how many tc was set; none if it is malformed."""
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found: list[dict[str, int]] = []
    for own in map(_mapping, listed) if isinstance(listed, list) else ():
        done, steps = own.get("set"), own.get("steps")
        if isinstance(done, int) and isinstance(steps, int):
            found.append({"set": done, "steps": steps})
    return found


def parse_round_trips(text: str) -> dict[str, float]:
    """Return the round-trip times in ms that a helper measured, by address; none of what did not answer."""
    try:
        listed = _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}
    return {str(name): float(own) for name, own in listed.items() if isinstance(own, int | float)}


def parse_rules(text: str) -> list[dict[str, object]]:
    """Parse the rules that `nft -j` lists; none if it is not its output."""
    try:
        listed = _mapping(json.loads(text)).get("nftables")
    except (ValueError, RecursionError):
        return []
    entries = listed if isinstance(listed, list) else []
    return [rule for entry in entries if (rule := _mapping(_mapping(entry).get("rule")))]


def _mapping(plain: object) -> dict[str, object]:
    return {str(key).strip(): value for key, value in plain.items()} if isinstance(plain, dict) else {}
