# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The decision table as people see it."""

from __future__ import annotations

import io
import re
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from reports.render.documents import markdown
from reports.render.terminal import as_text, terminal
from reports.render.words import GLYPHS, side_text
from reports.result.load import RunTables
from reports.result.regret import Prevalence, regret
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, Word, decide
from tests.unit.reports.conftest import Make, write


@pytest.fixture
def decision(make: Make) -> Decision:
    cells: list[dict[str, Any]] = [
        {"aqm": aqm, "buffer_bdp": buffer, "classic.ecn": ecn, "l4s": [l4s] * 3, "classic": [95 - l4s] * 3}
        for aqm, ecn, l4s in (("fifo", "off", 45.9), ("codel", "off", 73.6), ("codel", "classic", 88.6))
        for buffer in (1.0, 4.0)
    ]
    cells += [
        {"aqm": "dualpi2", "delay": 0.3, "l4s": [42], "classic": [53]},
        {
            "aqm": "fifo-ecn",
            "aqm.form": "robust",
            "l4s": [1.6, 9],
            "classic": [94, 9],
            "status": ["ok", "invalid"],
        },
    ]
    return decide(make(cells), load_rule("pam25"))


def test_a_verdict_is_glyph_word_and_numbers(decision: Decision) -> None:
    text = as_text(decision, 200)
    assert "✓ ok, unsure (1 trial) ★" in text
    assert "▲ classic-starved" in text
    assert re.search(r"CoDel \(\+ECN\), [14] BDP: 88\.6 % \(88\.6 v 6\.4 Mbit/s, delay \S+ v \S+ ms\)", text)
    assert "not run" in text, "there is no DualPI2 against CUBIC with ECN"


def test_what_a_table_states_about_itself(decision: Decision) -> None:
    for text in (as_text(decision, 300, full=True), markdown(decision)):
        assert re.search(r"rule `?pam25`?, version 1", text, re.IGNORECASE)
        assert "goodput of group l4s within 20-80 % of the link's rate in every cell" in text
        assert "20 valid trials of 8 cells, 1 to 3 per cell, on virtual" in text
        assert "kernels: 7.3.4; modules: tcp_prague=ABC" in text
        assert "left out: 1 trial" in text
        assert "hint for 1 trial: " in text
        assert "l4sbench docs troubleshooting " in text
        assert "invalid cell-0007/2: the apparatus was wrong" in text
        assert "rate 100 Mbit/s, RTT 10 ms, 60 s measured" in text
        assert "queue forms: FIFO (+ECN) robust" in text


def test_only_words_that_occur_are_explained(decision: Decision) -> None:
    text = as_text(decision, 200, full=True)
    assert "▲ classic-starved: Prague gets more than 80 %" in text
    assert "undecided" not in text
    assert "without a valid trial" not in text


@pytest.mark.parametrize(
    ("rule", "goodputs", "verdict"),
    [
        ("pam25", [50.0], "✓ ok, unsure (1 trial)"),
        (
            "pam25",
            [40.0, 60.0],
            "✓ ok, unsure: Prague may get 0 to 100 % of the link, limits 20 and 80 (2 trials)",
        ),
        ("pam25", [40.0, 40.1, 39.9], "✓ ok"),
        (
            "pam25",
            [10.0, 19.0, 2.0],
            "▼ l4s-starved, unsure: Prague may get 0 to 31 % of the link, limit 20 (3 trials)",
        ),
        ("pam25", [10.0, 10.2, 10.1], "▼ l4s-starved"),
        ("l4sbench1", [50.0], "? undecided (1 trial)"),
        ("l4sbench1", [40.0, 40.1, 39.9], "✓ ok"),
        (
            "l4sbench1",
            [52.5, 62.8, 48.7],
            "? undecided: CUBIC may get 22 to 58 Mbit/s, limit 25 (3 trials)",
        ),
        (
            "l4sbench1",
            [30.0, 60.0, 45.0],
            (
                "? undecided: Prague may get 8 to 82 Mbit/s, limit 25; "
                "CUBIC may get 13 to 87 Mbit/s, limit 25 (3 trials)"
            ),
        ),
        # so near to the limit that whole numbers would not show it
        (
            "l4sbench1",
            [25.2, 25.6, 25.0],
            "? undecided: Prague may get 24.5 to 26.0 Mbit/s, limit 25 (3 trials)",
        ),
    ],
)
def test_a_verdict_shows_how_sure_it_is(make: Make, rule: str, goodputs: list[float], verdict: str) -> None:
    tables = make([{"aqm": "fifo", "l4s": goodputs, "classic": [95 - own for own in goodputs]}])
    decision = decide(tables, load_rule(rule))
    text = as_text(decision, 200, "l4sbench run mine.yaml", full=True)
    assert re.search(rf"^ Single queue \(drop\) +{re.escape(verdict)} *$", text, re.MULTILINE)
    sure = "unsure" not in verdict and "undecided" not in verdict
    remedy = (
        "to make it sure: `l4sbench run mine.yaml --sure` adds trials to the cells in doubt, up to 10 each"
    )
    assert (remedy in text) is not sure
    assert ("unsure: the means say so" in text) is ("unsure" in verdict)
    glyph, word = verdict.split(" ", 1)
    assert f"{glyph} **{re.split('[,:]| [(]', word)[0]}**" in markdown(decision)
    assert (", unsure" in markdown(decision)) is ("unsure" in verdict)


def test_an_unsure_tick_is_not_green(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for goodputs, colour in (([50.0], "33"), ([50.0, 50.1, 50.2], "32")):
        tables = make([{"aqm": "fifo", "l4s": goodputs, "classic": [40.0] * len(goodputs)}])
        out = io.StringIO()
        Console(file=out, force_terminal=True, width=140).print(terminal(decide(tables, load_rule("pam25"))))
        assert f"\x1b[1;{colour}m✓ ok" in out.getvalue()


def test_where_many_trials_leave_doubt_more_are_offered(make: Make) -> None:
    goodputs = [10.0, 35.0] * 6
    tables = make([{"aqm": "fifo", "l4s": goodputs, "classic": [60.0] * 12}])
    text = as_text(decide(tables, load_rule("pam25")), 200, "l4sbench run mine.yaml")
    assert "`l4sbench run mine.yaml --sure --trials 24` adds trials to the cells in doubt, up to 24" in text


def test_no_colours_where_there_is_no_terminal(decision: Decision, monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(*, terminal_: bool) -> str:
        out = io.StringIO()
        Console(file=out, force_terminal=terminal_, width=140).print(terminal(decision))
        return out.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" not in printed(terminal_=False)
    assert "\x1b[" not in as_text(decision)
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", printed(terminal_=True)), "colours on a terminal"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", printed(terminal_=True)), "and none if they are not wanted"


def test_markdown_has_equally_wide_tables(decision: Decision) -> None:
    text = markdown(decision)
    for table in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        widths = {line.replace("\\|", "").count("|") for line in table.strip().split("\n")}
        assert len(widths) == 1, table
    assert "| CoDel (+ECN) | 73.6 (21.4) | 73.6 (21.4) |" in text
    assert "### Prague against CUBIC, ECN classic" in text


def test_every_word_has_a_glyph_of_its_own() -> None:
    assert set(GLYPHS) == set(Word)
    assert len(set(GLYPHS.values())) == len(GLYPHS)


def test_cells_without_a_valid_trial(make: Make) -> None:
    cells: list[dict[str, Any]] = [
        {"aqm": "fifo", "status": ["failed"]},
        {"aqm": "codel", "l4s": [50], "classic": [40]},
    ]
    decision = decide(make(cells), load_rule("pam25"))
    assert "x invalid" in as_text(decision)
    assert "no valid trial" in as_text(decision)
    assert "| FIFO | no valid trial |" in markdown(decision)
    assert "x invalid: a cell without a valid trial" in markdown(decision)


def test_an_entry_shows_an_interval_only_in_doubt(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "l4s": [24.0, 26.0, 25.0], "classic": [60.0] * 3},
        {"aqm": "dualpi2", "l4s": [19.0, 26.0, 24.0], "classic": [60.0] * 3},
    ]
    text = as_text(decide(make(cells), load_rule("pam25")), 200)
    assert "FIFO: 25.0 % (25.0 v 60.0 Mbit/s, delay " in text
    assert "DualPI2: 23.0 % (23.0 v 60.0 Mbit/s, delay " in text
    assert text.count("may get") == 1
    assert "ok, unsure: Prague may get 14 to 32 % of the link, limit 20 (3 trials)" in text


def test_a_row_of_several_queues_has_a_line_for_each(make: Make) -> None:
    cells = [
        {"aqm": "fq-codel", "l4s": [47.0, 47.1, 47.2], "classic": [48.0] * 3, "delay": [5.0] * 3},
        {"aqm": "fq-codel-l4s", "l4s": [46.0, 46.1, 46.2], "classic": [49.0] * 3, "delay": [0.5] * 3},
        {"aqm": "dualpi2", "l4s": [44.0, 44.1, 44.2], "classic": [51.0] * 3},
    ]
    decision = decide(make(cells), load_rule("l4sbench1"))
    text = as_text(decision, 160)
    assert re.search(r"^ Fair queuing +✓ ok ☆ *$", text, re.MULTILINE)
    assert re.search(
        r"^   FQ-CoDel \(\+ECN\) +✓ ok  47\.1 % \(47\.1 v 48\.0 Mbit/s, delay 5\.0 v [\d.]+ ms\)",
        text,
        re.MULTILINE,
    )
    assert re.search(r"^   FQ-CoDel \(\+L4S\) +✓ ok ★  46\.1 % ", text, re.MULTILINE)
    assert text.count("DualPI2") == 1, "a family of one queue has no line but its own"
    assert "| FQ-CoDel (+ECN) | ✓ ok<br>47.1 % (47.1 v 48.0 Mbit/s, delay 5.0 v " in markdown(decision)
    assert len(decision.verdicts) == 2, "the verdicts are those of families"


COMPETITORS = ("bbr1", "bbr3", "cubic", "reno")


def test_a_narrow_terminal_has_a_row_for_each_entry(make: Make) -> None:
    cells = [
        {
            "aqm": aqm,
            "classic.cc": cc,
            "classic.ecn": "classic",
            "l4s": [l4s] * trials,
            "classic": [95 - l4s] * trials,
        }
        for aqm, l4s, trials in (
            ("fq-codel", 47.0, 3),
            ("fq-codel-l4s", 46.0, 3),
            ("codel", 89.0, 3),
            ("fifo", 60, 1),
        )
        for cc in COMPETITORS
    ]
    decision = decide(make(cells), load_rule("l4sbench1"))
    lines = as_text(decision, 80).splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("Prague v"))) :]
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("against ") for line in table) == len(COMPETITORS)
    for words in (
        r"  Fair queuing +✓ ok",
        r"    FQ-CoDel \(\+ECN\) +✓ ok +47\.0 +47\.0 v 48\.0 +\S+ v \S+",
        r"  Single queue \(ECN\): CoDel +▲ classic-starved +89\.0 +89\.0 v 6\.0 +\S+ v \S+",
    ):
        assert sum(bool(re.match(words, line)) for line in table) == len(COMPETITORS), words
    assert "? Single queue (drop) against CUBIC, ECN classic: (1 trial)" in lines
    for width, figures in ((60, 2), (50, 1), (34, 0)):
        narrow = as_text(decision, width)
        assert max(map(len, narrow.splitlines())) <= width
        assert "FQ-CoDel" in narrow
        assert [name in narrow for name in ("  %", "Mbit/s", "delay ms")] == [n < figures for n in range(3)]
    assert "against CUBIC, ECN classic" in next(
        line for line in as_text(decision, 400).splitlines() if line.strip().startswith("queue")
    )


def test_the_rest_is_printed_on_request(decision: Decision) -> None:
    costs = regret(decision)
    short, full = (as_text(decision, regrets=costs, full=full) for full in (False, True))
    assert "left out: 1 trial\n" in re.sub(" +\n", "\n", short)
    assert "  hint for 1 trial: " in short
    assert "to make it sure: `" in short
    assert "--notes" in short.splitlines()[-1] + short.splitlines()[-2]
    for text in ("This says nothing about", "kernels: ", "On average over", "▲ classic-starved: "):
        assert text not in short
        assert text in full
    assert "--notes" not in full
    chosen = regret(decision, Prevalence(prevalence="mine", queues={"fifo": 1.0}))
    assert "as in mine" in re.sub(r"\s+", " ", as_text(decision, regrets=chosen))


def test_the_deciding_cell_shows_harm_where_there_are_baselines(make: Make) -> None:
    beside = {"aqm": "fifo", "l4s": [90.0] * 3, "classic": [5.0] * 3}
    alone: list[dict[str, Any]] = [
        {"aqm": "fifo", "classic.cc": None, "classic.ecn": None, "classic.count": None, "l4s": [95.0] * 3},
        {
            "aqm": "fifo",
            "l4s.cc": None,
            "l4s.ecn": None,
            "l4s.count": None,
            "classic": [95.0] * 3,
            "l4s": [0.0] * 3,
        },
    ]
    text = as_text(decide(make([beside, *alone]), load_rule("l4sbench1")), 200, full=True)
    assert re.search(r"FIFO: 90\.0 % \(90\.0 v 5\.0 Mbit/s, delay .* ms, harm 5 v 95 %\)", text)
    assert "harm: goodput that l4s v classic lose compared with running alone, from 2 baselines" in text
    doubtful = {"aqm": "fifo", "l4s": [60.0] * 3, "classic": [15.0, 25.0, 35.0]}
    text = as_text(decide(make([doubtful, *alone]), load_rule("l4sbench1")), 200)
    assert re.search(
        r"undecided: CUBIC may get 0 to \d\d % of what it gets alone, limit 25 \(3 trials\)", text
    )


def test_a_doubt_names_the_one_trial_beside_its_own_kind(make: Make) -> None:
    alone = {"l4s.cc": None, "l4s.ecn": None, "l4s.count": None, "l4s": [0] * 3, "classic": [95, 95.1, 95.2]}
    cells: list[dict[str, Any]] = [
        {"aqm": "fifo", "l4s": [85] * 3, "classic": [9, 10, 11]},
        {"aqm": "fifo"} | alone,
        {"aqm": "fifo", "l4s.cc": "cubic", "l4s.ecn": "off", "l4s": [48], "classic": [47]},
    ]
    text = as_text(decide(make(cells), load_rule("l4sbench1")), 200)
    assert re.search(
        r"CUBIC may get \d+ to \d+ % of what it gets alone, beside its own kind 49\.4 % in 1 trial \(3", text
    )


def test_a_doubt_names_the_one_trial_of_a_group_alone(make: Make) -> None:
    alone = {"l4s.cc": None, "l4s.ecn": None, "l4s.count": None, "l4s": [0], "classic": [95]}
    cells: list[dict[str, Any]] = [
        {"aqm": "fifo", "l4s": [60] * 3, "classic": [35] * 3},
        {"aqm": "fifo"} | alone,
    ]
    text = as_text(decide(make(cells), load_rule("l4sbench1")), 200)
    assert "undecided: CUBIC alone has only 1 trial (3 trials)" in text


def test_limits_of_a_fast_link_are_whole_numbers(make: Make) -> None:
    goodputs = {"l4s": [22_000, 60_000, 41_000], "classic": [50_000, 51_000, 52_000]}
    cell = {"aqm": "fifo", "rate_mbps": 100_000.0} | goodputs
    text = as_text(decide(make([cell]), load_rule("l4sbench1")), 200)
    assert re.search(r"Prague may get 0 to \d{5} Mbit/s, limit 25000 \(3 trials\)", text)


@pytest.mark.parametrize(
    ("goodput", "word", "mean"),
    [
        (19.96, "l4s-starved", "19.96"),
        (20.04, "ok", "20.0"),
        (79.96, "ok", "79.96"),
        (80.04, "classic-starved", "80.04"),
    ],
)
def test_a_mean_is_printed_on_its_side_of_the_limit(make: Make, goodput: float, word: str, mean: str) -> None:
    decision = decide(make([{"aqm": "fifo", "l4s": [goodput], "classic": [15]}]), load_rule("pam25"))
    assert [cell.word for cell in decision.cells] == [word]
    assert f"{mean} % (" in as_text(decision, 200, full=True)
    (cell,) = decision.cells
    assert side_text(cell, cell.judged.sides[0]) == f"Prague {mean} %, limits 20 and 80"


def test_verdicts_have_colours_of_their_own_that_black_does_not_hide(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    own = (("fifo", 5.0), ("codel", 89.0), ("dualpi2", 45.0))
    cells = [{"aqm": aqm, "l4s": [mbps] * 3, "classic": [95 - mbps] * 3} for aqm, mbps in own]
    out = io.StringIO()
    console = Console(file=out, width=160, force_terminal=True, color_system="standard")
    console.print(terminal(decide(make(cells), load_rule("pam25"))))
    words = ("▼ l4s-starved", "▲ classic-starved", "✓ ok")
    found = [re.search(rf"\x1b\[1;(\d+)m{word}", out.getvalue()) for word in words]
    assert [shown and shown[1] for shown in found] == ["94", "31", "32"], "bright blue, red, green"


def dropped(make: Make, **queue: Any) -> Decision:
    """A cell of an L4S flow with AccECN that got no mark: in each trial the queue dropped 256 packets."""
    tables = make([{"aqm": "codel", "rate_mbps": 2.0, "rtt_ms": 20.0, "l4s": [1] * 3, "classic": [0.9] * 3}])
    flows = tables.flows.with_columns(
        pl.when(pl.col("group") == "l4s").then(pl.lit("accecn")).otherwise(pl.lit("off")).alias("ecn"),
        delivered_ce_packets=pl.lit(0),
    )
    write(tables.folder, "flows", flows.to_dicts())
    sample = {"node": "router", "network": "net-rx", "handle": "3:", "kind": "codel", "cell": "cell-0000"}
    counts = {"drops_packets": 256, "marks_packets": 0, **queue}
    samples = [
        sample
        | {"trial": trial, "t_ms": t_ms, **{name: count * t_ms // 200 for name, count in counts.items()}}
        for trial in (1, 2, 3)
        for t_ms in (100, 200)
    ]
    write(tables.folder, "queues", samples)
    return decide(RunTables(tables.folder), load_rule("pam25"))


def test_a_queue_that_only_dropped_is_named(make: Make) -> None:
    text = as_text(dropped(make), 300, full=True)
    assert "queues: CoDel (+ECN) limit 4 packets" in text
    assert "only dropped: in 1 cell the queue can mark and flows use ECN, but it marked nothing" in text
    assert (
        "CoDel (+ECN): limit 4 packets; this queue dropped 768 and marked 0 packets in 3 trials, cell-0000"
        in text
    )


def test_a_queue_that_marked_others_or_dropped_nothing_is_not(make: Make) -> None:
    for counts in ({"marks_packets": 2}, {"drops_packets": 0}):
        assert "only dropped" not in as_text(dropped(make, **counts), 300, full=True)


def test_limits_are_as_stated_or_the_queues_own(make: Make) -> None:
    got = {"l4s": [40] * 3, "classic": [40] * 3}
    cells: list[dict[str, Any]] = [
        {"aqm": "fifo", "buffer_bdp": 1.0, **got},
        {"aqm": "fifo", "buffer_bdp": 4.0, **got},
        {"aqm": "codel", "aqm.limit": "default", **got},
        {"aqm": "dualpi2", "aqm.limit_packets": 200, **got},
    ]
    text = as_text(decide(make(cells), load_rule("pam25")), 300, full=True)
    assert "queues: FIFO limit 125 kB to 500 kB; " in text
    assert "CoDel (+ECN) limit 1000 packets" in text
    assert "DualPI2 limit 200 packets" in text
