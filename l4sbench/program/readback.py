# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Comparison of a node's read-backs with its program. Pure: text in, differences out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from l4sbench.catalog import Expectation
    from l4sbench.program.data import Expected


def differences(expected: Expected, text: str) -> tuple[str, ...]:
    """Compare `text`, from `tc -j` or `nft -j`, with what is expected; empty when all is as expected.

    A flag is set when its key is present and not false: tc prints some as `true`, some as `null`, and omits
    most flags that are not set.
    """
    entries = _entries(text)
    if entries is None:
        return (f"{expected.what}: the output is not JSON",)
    entry = _match(expected, entries)
    if entry is not None:
        found = (_difference(entry, value) for value in expected.values)
        return tuple(f"{expected.what}: {message}" for message in found if message)
    kinds = (entry.get("kind", entry.get("class")) for entry in entries)
    shown = ", ".join(str(kind) for kind in kinds if kind)
    return (f"{expected.what}: missing; found {shown or 'nothing'}",)


def found_values(expected: Expected, text: str) -> Mapping[str, object]:
    """Return what `text` shows of the keys that are expected; empty when it has no such entry."""
    entry = _match(expected, _entries(text) or [])
    if entry is None:
        return {}
    return {
        value.key: shown for value in expected.values for there, shown in [_at(entry, value.key)] if there
    }


def _entries(text: str) -> list[dict[str, object]] | None:
    try:
        listed = json.loads(text)
    except ValueError:
        return None
    if isinstance(listed, dict):
        listed = listed.get("nftables")
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _match(expected: Expected, entries: Iterable[dict[str, object]]) -> dict[str, object] | None:
    for entry in entries:
        if all(_at(entry, key) == (True, value) for key, value in expected.match):
            return entry
    return None


def _difference(entry: Mapping[str, object], expected: Expectation) -> str | None:
    there, shown = _at(entry, expected.key)
    wanted = expected.value
    if isinstance(wanted, bool):
        is_set = there and shown is not False
        if is_set == wanted:
            return None
        return (
            f"{expected.key} is not set and should be"
            if wanted
            else f"{expected.key} is set and should not be"
        )
    if not there:
        return f"{expected.key} is missing, expected {wanted}"
    if isinstance(wanted, int | float) and isinstance(shown, int | float) and not isinstance(shown, bool):
        same = abs(shown - wanted) <= expected.within
    else:
        same = shown == wanted
    return None if same else f"{expected.key} is {shown}, not {wanted}"


def _at(entry: Mapping[str, object], key: str) -> tuple[bool, object]:
    """Return True with the value if the entry has `key`, else False."""
    value: object = entry
    for name in key.split("."):
        if not isinstance(value, dict) or name not in value:
            return False, None
        value = cast("object", value[name])
    return True, value
