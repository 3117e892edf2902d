# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A data file that flent 2.3 left on a booted node (`flent ping -l 3 -t probe-0`, with irtt)."""

from __future__ import annotations

import gzip
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from collectors.collector import BadRawError
from collectors.kinds.flent import read_test

NAME = "ping-2026-11-23T020032.583518.probe-0.flent.gz"


@pytest.fixture
def folder(cases: Path, tmp_path: Path) -> Path:
    shutil.copy(cases / "flent" / NAME, tmp_path)
    return tmp_path


def test_every_value_with_its_instant(folder: Path) -> None:
    test = read_test(folder, "probe-0")
    plain = json.loads(gzip.decompress((folder / NAME).read_bytes()))
    assert test.result.seconds == 3
    for series in ("Ping (ms) ICMP", "Ping (ms) UDP"):
        own = [(t_ms, value) for name, t_ms, value in test.points if name == series]
        raw = plain["raw_values"][series]
        assert [value for _, value in own] == [row["val"] for row in raw]
        gaps_s = [(later[0] - at[0]) / 1e3 for at, later in pairwise(own)]
        assert gaps_s == pytest.approx([later["t"] - at["t"] for at, later in pairwise(raw)], abs=2e-6)
        assert -1000 < own[0][0] < own[-1][0] < 4000
        assert test.units[series] == "ms"


def test_another_flow_s_file_is_not_taken(folder: Path) -> None:
    with pytest.raises(BadRawError, match=r"^flent left no data file$"):
        read_test(folder, "probe-1")


def test_a_file_cut_short(folder: Path) -> None:
    (folder / NAME).write_bytes((folder / NAME).read_bytes()[:500])
    with pytest.raises(BadRawError, match=r"probe-0\.flent\.gz: Compressed file ended"):
        read_test(folder, "probe-0")


def test_a_file_cut_short_costs_its_own_flow_alone(folder: Path) -> None:
    (folder / "ping-0.probe-1.flent.gz").write_bytes((folder / NAME).read_bytes()[:500])
    assert read_test(folder, "probe-0").result.seconds == 3
    with pytest.raises(BadRawError, match=r"probe-1\.flent\.gz: Compressed file ended"):
        read_test(folder, "probe-1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not a data file of flent"),
        ("[1, 2]", "is not a data file of flent"),
        ('{"metadata": {"TITLE": "probe-0"}}', r"is not a data file of flent: KeyError 'version'"),
        (
            '{"version": 9, "metadata": {"TITLE": "probe-0"}}',
            r"flent's format 9 is not known; known are \(3, 4\)",
        ),
    ],
)
def test_what_is_no_data_file(folder: Path, text: str, told: str) -> None:
    (folder / NAME).write_bytes(gzip.compress(text.encode()))
    with pytest.raises(BadRawError, match=told):
        read_test(folder, "probe-0")


NESTED = "[" * 100_000 + "]" * 100_000
HUGE = "9" * 400


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ((), NESTED, "RecursionError maximum recursion depth exceeded"),
        (("metadata", "TOTAL_LENGTH"), HUGE, "OverflowError int too large to convert to float"),
        (("raw_values", "Ping (ms) ICMP", 0, "t"), HUGE, "OverflowError int too large to convert to float"),
        (("raw_values", "Ping (ms) ICMP", 0, "val"), HUGE, "OverflowError int too large to convert to float"),
        (("results", "Ping (ms) ICMP", 0), HUGE, "OverflowError int too large to convert to float"),
        (("x_values", 0), HUGE, "OverflowError int too large to convert to float"),
        (("version",), HUGE, r"flent's format 9+\.\.\. \(400 characters\) is not known"),
    ],
)
def test_numbers_and_nesting_without_end(
    folder: Path, path: tuple[str | int, ...], value: str, reason: str
) -> None:
    plain = json.loads(gzip.decompress((folder / NAME).read_bytes()))
    if path and path[0] in {"results", "x_values"}:
        plain["raw_values"] = {}
    text = json.dumps(_with(plain, path, "HERE")).replace('"HERE"', value)
    (folder / NAME).write_bytes(gzip.compress(text.encode()))
    with pytest.raises(BadRawError, match=reason):
        read_test(folder, "probe-0")


def _with(tree: Any, path: tuple[str | int, ...], value: str) -> Any:
    """Return a tree with a value at a path."""
    if not path:
        return value
    tree[path[0]] = _with(tree[path[0]], path[1:], value)
    return tree
