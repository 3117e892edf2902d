# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Samples of queues, by netlink and as JSON of tc, for every kind of qdisc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors import BadRawError
from collectors.queues import parse_queues, parse_tc, parse_tc_text
from tests.unit.collectors.conftest import Load


@pytest.fixture
def sampled(captured: Load, cases: Path) -> Callable[[str], pl.DataFrame]:
    """Samples of tc at the router's port in one of the captured cases."""

    def load(kind: str) -> pl.DataFrame:
        trial = captured("lean-dualpi2").ended
        text = (cases / "tc" / kind / "tc-net-rx.txt").read_text()
        (trial.raw / "router/tc-net-rx.txt").write_text(text)
        found = parse_tc(trial)
        assert found is not None
        assert found["network"].unique().to_list() == ["net-rx"]
        return found.filter(pl.col("kind") != "htb")

    return load


KINDS = {
    "bfifo": "bfifo",
    "codel": "codel",
    "codel-robust": "codel",
    "pie": "pie",
    "red": "red",
    "fq": "fq",
    "fq-codel": "fq_codel",
    "fq-codel-l4s": "fq_codel",
    "dualpi2": "dualpi2",
}


@pytest.mark.parametrize("case", KINDS)
def test_every_kind(sampled: Callable[[str], pl.DataFrame], case: str) -> None:
    found = sampled(case)
    assert found["kind"].to_list() == [KINDS[case]] * 2
    assert found["t_ms"].to_list() == [2000, 5000]
    assert found["parent"].to_list() == ["1:3", "1:3"]
    last = found.row(-1, named=True)
    assert last["sent_packets"] > 1000
    assert last["backlog_packets"] >= 0
    assert (last["marks_packets"] is None) == (case == "bfifo"), "only a FIFO cannot mark"
    has_delay = case not in {"bfifo", "red", "fq", "fq-codel", "fq-codel-l4s", "dualpi2"}
    assert (last["delay_ms"] is not None) == has_delay
    assert (last["flows"] is not None) == case.startswith("fq")


def test_marks_by_a_threshold_count_as_marks(sampled: Callable[[str], pl.DataFrame]) -> None:
    last = sampled("codel-robust").row(-1, named=True)
    assert last["marks_packets"] == last["threshold_marks_packets"] > 0


def test_dualpi2(sampled: Callable[[str], pl.DataFrame]) -> None:
    last = sampled("dualpi2").row(-1, named=True)
    assert 0 < last["prob"] < 1
    assert last["delay_classic_ms"] > 1
    assert (last["delay_l4s_ms"], last["l4s_packets"]) == (0, 0)
    assert last["classic_packets"] > 5000
    assert last["marks_packets"] > last["threshold_marks_packets"] == 0


def test_netlink_and_tc_agree(captured: Load) -> None:
    """The last sample by netlink, and what tc says after the flows: the same queue, the same names."""
    trial = captured("lean-dualpi2").ended
    by_netlink = parse_queues(trial)
    text = (trial.raw / "router/qdisc-net-rx.json").read_text().strip()
    (trial.raw / "router/tc-net-rx.txt").write_text(f"@ 9000\n{text}\n")
    by_tc = parse_tc(trial)
    assert by_netlink is not None
    assert by_tc is not None
    sampled_last = by_netlink.filter(pl.col("kind") == "dualpi2").row(-1, named=True)
    read_back = by_tc.filter(pl.col("kind") == "dualpi2").row(-1, named=True)
    assert by_netlink.columns == by_tc.columns
    for name, value in read_back.items():
        assert (value is None) == (sampled_last[name] is None), name
    for name in ("sent_packets", "marks_packets", "drops_packets", "l4s_packets", "classic_packets"):
        assert sampled_last[name] == pytest.approx(read_back[name], rel=0.05), name
    assert sampled_last["handle"] == read_back["handle"]


def test_the_root_has_no_parent(captured: Load) -> None:
    found = parse_queues(captured("lean-dualpi2").ended)
    assert found is not None
    assert found.filter(pl.col("kind") == "htb")["parent"].null_count() > 0


@pytest.mark.parametrize("text", ["[]\n", "@ x\n", "@ 0\n{not json\n", "@ 0\n[7]\n"])
def test_what_is_no_sample(text: str) -> None:
    with pytest.raises(BadRawError):
        list(parse_tc_text(text))


@pytest.mark.parametrize(
    ("file", "parse"), [("queues.jsonl", parse_queues), ("router/tc-net-rx.txt", parse_tc)]
)
def test_too_large_samples_are_not_read(captured: Load, file: str, parse: Callable[..., Any]) -> None:
    trial = captured("lean-dualpi2").ended
    sizes = {(2 << 30) + 1: "is larger than 2048 MB", (64 << 20) + 1: "has NULs"}  # as it has no content
    for size_bytes, problem in sizes.items():
        with (trial.raw / file).open("wb") as sparse:
            sparse.truncate(size_bytes)
        with pytest.raises(BadRawError) as caught:
            parse(trial)
        assert str(caught.value) == f"{Path(file).name} {problem}"


def test_a_cut_last_line_is_dropped(cases: Path) -> None:
    text = (cases / "tc/codel/tc-net-rx.txt").read_text()
    assert len(list(parse_tc_text(text))) == 4
    assert len(list(parse_tc_text(text[:-10]))) == 2
