# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Queues and rules of one node: taken away, set up, read back and compared with what the program expects."""

from __future__ import annotations

import json
from typing import Any, Mapping

from system import Failed, port, resolve, run
from tuning import forget_rules, remember_queues, remember_rules


def queues(part: Mapping[str, Any], node: str, *, fresh: bool) -> list[str]:
    """Set up the node's queues, and its rules of nft if it has any; returns what was changed.

    With `fresh` they are made anew even when they are as asked, so that counters and state begin at zero.

    Raises:
        Failed: a command failed, or a queue reads back otherwise than asked for.
    """
    program = part["programs"][node]
    rules = program.get("rules", [])
    if not rules:
        forget_rules(part, node)
    if not fresh and program["setup"] and not differences(part, node):
        return []
    forget_rules(part, node)
    names = clear(part, node)
    if program["setup"]:
        remember_queues(part, node, names)
    if rules:
        remember_rules(part, node)
    for command in [*rules, *program["setup"]]:
        run(resolve(part, node, command["argv"]), timeout_s=command["timeout_s"])
    wrong = differences(part, node)
    if wrong:
        raise Failed(f"{node}: {'; '.join(wrong)}")
    return [" ".join(command["argv"]) for command in [*rules, *program["setup"]]]


def clear(part: Mapping[str, Any], node: str) -> list[str]:
    """Take away the node's queues, and return the names of its ports."""
    names = [port(part, node, link["network"]) for link in part["programs"][node]["links"]]
    for name in names:
        # the queue a port has by itself cannot be deleted, which is no failure
        run(["tc", "qdisc", "del", "dev", name, "root"], check=False)
    return names


def differences(part: Mapping[str, Any], node: str) -> list[str]:
    """Return how the node's queues differ from what its program expects."""
    program = part["programs"][node]
    shown = {
        reading["output"]: run(resolve(part, node, reading["argv"]), check=False).stdout
        for reading in program["readback"]
        if not reading["host"]
    }
    return [line for want in program["expected"] for line in differ(want, shown.get(want["output"], ""))]


def differ(expected: Mapping[str, Any], text: str) -> list[str]:
    """Compare `text`, from `tc -j` or `nft -j`, with what is expected.

    The same comparison as `l4sbench.program.differences`, which judges the trial afterwards.
    """
    what = expected["what"]
    try:
        plain = json.loads(text)
    except ValueError:
        return [f"{what}: the output is not JSON"]
    if isinstance(plain, dict):
        plain = plain.get("nftables")
    entries = [item for item in plain if isinstance(item, dict)] if isinstance(plain, list) else []
    for entry in entries:
        if all(_at(entry, key) == (True, value) for key, value in expected["match"]):
            found = (_differ(entry, value) for value in expected["values"])
            return [f"{what}: {message}" for message in found if message]
    kinds = (entry.get("kind", entry.get("class")) for entry in entries)
    names = ", ".join(str(kind) for kind in kinds if kind)
    return [f"{what}: missing; found {names or 'nothing'}"]


def _differ(entry: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    key, wanted = expected["key"], expected["value"]
    there, shown = _at(entry, key)
    if isinstance(wanted, bool):
        is_set = there and shown is not False
        if is_set == wanted:
            return None
        return f"{key} is not set and should be" if wanted else f"{key} is set and should not be"
    if not there:
        return f"{key} is missing, expected {wanted}"
    numbers = isinstance(wanted, (int, float)) and isinstance(shown, (int, float))
    if numbers and not isinstance(shown, bool):
        same = abs(shown - wanted) <= float(expected["within"])
    else:
        same = shown == wanted
    return None if same else f"{key} is {shown}, not {wanted}"


def _at(entry: Mapping[str, Any], key: str) -> tuple[bool, Any]:
    value: Any = entry
    for name in key.split("."):
        if not isinstance(value, dict) or name not in value:
            return False, None
        value = value[name]
    return True, value
