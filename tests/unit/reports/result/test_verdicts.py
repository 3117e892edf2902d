# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdicts: from cell means to the decision table, and the published table from published cells."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l4sbench.errors import InputError
from reports.published import published_cells
from reports.render.words import left_out_hints
from reports.result.cells import GroupResult
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.stats import estimate
from reports.result.verdicts import Decision, Verdict, Word, decide
from tests.unit.reports.conftest import Make, entry, measured, write

PAM25 = load_rule("pam25")


def only(decision: Decision) -> Verdict:
    (verdict,) = decision.verdicts
    return verdict


def share(verdict: Verdict) -> float:
    """Return the percent of the link's rate in the cell that decides."""
    assert verdict.worst.result.share is not None
    return verdict.worst.result.share.value


def goodput(group: GroupResult) -> float:
    assert group.goodput is not None
    return group.goodput.value


@pytest.mark.parametrize(
    ("goodputs", "word"),
    [
        ([20.0, 80.0], Word.OK),
        ([50.0, 19.9], Word.L4S_STARVED),
        ([50.0, 80.1], Word.CLASSIC_STARVED),
        ([19.9, 80.1], Word.BOTH),
    ],
)
def test_any_cell_outside_decides(make: Make, goodputs: list[float], word: Word) -> None:
    cells = [
        {"aqm": "fifo", "buffer_bdp": i + 1.0, "l4s": [g], "classic": [95 - g]}
        for i, g in enumerate(goodputs)
    ]
    assert only(decide(make(cells), PAM25)).word is word


def test_cell_means_decide_and_not_trials(make: Make) -> None:
    verdict = only(decide(make([{"aqm": "fifo", "l4s": [10, 40, 40], "classic": [85, 55, 55]}]), PAM25))
    assert verdict.word is Word.OK
    assert (share(verdict), goodput(verdict.worst.result.classic), verdict.trials) == (30, 65, 3)


def test_a_verdict_is_sure_if_intervals_alone_give_it(make: Make) -> None:
    def verdict_of(*cells: list[float]) -> Verdict:
        rows = [
            {"aqm": "fifo", "buffer_bdp": n + 1.0, "l4s": own, "classic": [95 - mbps for mbps in own]}
            for n, own in enumerate(cells)
        ]
        return only(decide(make(rows), PAM25))

    low, high, even, open_ = [5.0, 5.1, 5.2], [90.0, 90.1, 90.2], [50.0, 50.1, 50.2], [18.0, 40.0, 24.0]
    found = {
        name: verdict_of(*cells)
        for name, cells in {
            "ok": (even, even),
            "ok in doubt": (even, open_),
            "starved": (low, open_),
            "starved in doubt": (even, [18.0, 18.1, 22.0]),
            "both": (low, high),
            "both in doubt": (low, [78.0, 85.0, 82.0]),
            "one trial": ([50.0],),
        }.items()
    }
    assert {name: verdict.sure for name, verdict in found.items()} == {
        "ok": True,
        "ok in doubt": False,
        "starved": True,
        "starved in doubt": False,
        "both": True,
        "both in doubt": False,
        "one trial": False,
    }
    assert [len(verdict.unsure_cells) for verdict in found.values()] == [0, 1, 1, 1, 0, 1, 1]


def test_percent_is_of_the_links_rate(make: Make) -> None:
    cells = [{"aqm": "fifo", "rate_mbps": 10.0, "l4s": [1.9], "classic": [7.5]}]
    assert only(decide(make(cells), PAM25)).word is Word.L4S_STARVED


def test_the_worst_cell_is_the_one_farthest_outside(make: Make) -> None:
    cells = [
        {"aqm": "codel", "buffer_bdp": 1.0, "l4s": [85], "classic": [9]},
        {"aqm": "codel", "buffer_bdp": 2.0, "l4s": [88.6], "classic": [6.4]},
        {"aqm": "fifo-ecn", "buffer_bdp": 1.0, "l4s": [50], "classic": [45]},
    ]
    verdict = only(decide(make(cells), PAM25))
    assert str(verdict.worst.label) == "CoDel (+ECN), 2 BDP"
    assert (verdict.word, goodput(verdict.worst.result.l4s)) == (Word.CLASSIC_STARVED, 88.6)


def test_of_an_ok_group_the_cell_nearest_to_a_limit_is_shown(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "buffer_bdp": b, "l4s": [g], "classic": [95 - g]} for b, g in ((1.0, 30), (4.0, 60))
    ]
    verdict = only(decide(make(cells), PAM25))
    assert share(verdict) == 30


def test_rows_are_families_and_columns_competitors(make: Make) -> None:
    ok = {"l4s": [50], "classic": [45]}
    cells = [
        {"aqm": aqm, "classic.cc": cc, "classic.ecn": ecn, **ok}
        for aqm in ("fifo", "codel-drop", "codel", "dualpi2", "fq-codel")
        for cc, ecn in (("cubic", "off"), ("cubic", "classic"), ("bbr1", "off"))
    ]
    decision = decide(make(cells), PAM25)
    (question,) = decision.questions
    assert str(question) == "Prague"
    table = decision.table(question)
    assert table.rows == ("Single queue (drop)", "Single queue (ECN)", "DualPI2", "Fair queuing")
    assert [str(column) for column in table.columns] == [
        "BBRv1, ECN off",
        "CUBIC, ECN off",
        "CUBIC, ECN classic",
    ]
    found = entry(decision, "Prague", "Single queue (drop)", "BBRv1, ECN off")
    assert found is not None
    assert {cell.label.head for cell in found.cells} == {"FIFO", "CoDel (drop)"}


def test_each_setting_of_the_l4s_group_is_a_question_of_its_own(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "l4s.fallback": fallback, "l4s": [goodput], "classic": [40]}
        for fallback, goodput in (("off", 50), ("on", 8))
    ]
    decision = decide(make(cells), PAM25)
    assert {str(v.question): v.word for v in decision.verdicts} == {
        "Prague, fallback off": Word.OK,
        "Prague, fallback on": Word.L4S_STARVED,
    }


def test_questions_and_columns_are_in_the_order_of_their_numbers(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "l4s.count": own, "classic.count": other, "l4s": [50], "classic": [40]}
        for own in (10, 2)
        for other in (25, 5, 10)
    ]
    decision = decide(make(cells), PAM25)
    assert [str(question) for question in decision.questions] == ["Prague, count 2", "Prague, count 10"]
    assert [str(column) for column in decision.table(decision.questions[0]).columns] == [
        "CUBIC, ECN off, count 5",
        "CUBIC, ECN off, count 10",
        "CUBIC, ECN off, count 25",
    ]


def test_what_differs_stands_in_a_cells_label(make: Make) -> None:
    cells = [
        {"aqm": "codel", "aqm.target_ms": target, "rtt_ms": rtt, "l4s": [50], "classic": [40]}
        for target in (5.0, 1.0)
        for rtt in (10.0, 20.0)
    ]
    cells.append({"aqm": "fifo-ecn", "aqm.form": "robust", "l4s": [50], "classic": [40]})
    verdict = only(decide(make(cells), PAM25))
    assert {str(cell.label) for cell in verdict.cells} == {
        *(f"CoDel (+ECN), aqm.target {t} ms, rtt {r} ms" for t in (1, 5) for r in (10, 20)),
        "FIFO (+ECN), rtt 10 ms",
    }


def test_parameters_that_one_congestion_control_alone_has_are_in_no_label(make: Make) -> None:
    cells: list[dict[str, Any]] = [
        {"aqm": "fifo", "classic.cc": "bbr2", "classic.beta": 76, "l4s": [50], "classic": [40]},
        {"aqm": "fifo", "classic.cc": "cubic", "l4s": [50], "classic": [40]},
    ]
    decision = decide(make(cells), PAM25)
    assert {str(verdict.column) for verdict in decision.verdicts} == {"BBRv2, ECN off", "CUBIC, ECN off"}
    assert {str(cell.label) for verdict in decision.verdicts for cell in verdict.cells} == {"FIFO"}


def test_low_latency(make: Make) -> None:
    def verdict(*delays: float) -> Verdict:
        cells = [
            {"aqm": aqm, "delay": delay, "l4s": [50], "classic": [45]}
            for aqm, delay in zip(("fq-codel-l4s", "fq-codel"), delays, strict=False)
        ]
        return only(decide(make(cells), PAM25))

    assert verdict(0.9, 0.5).low_latency == "all"
    assert (verdict(0.9, 1.0).low_latency, verdict(0.9, 1.0).low_latency_in) == ("some", ("FQ-CoDel (+L4S)",))
    assert verdict(2.0, 1.0).low_latency == "none"


def test_low_latency_by_the_whole_interval(make: Make) -> None:
    """Trials of 0.8 and 0.9 ms: mean 0.85, but the interval ends at 1.49."""
    near = {"aqm": "dualpi2", "l4s": [50, 51], "classic": [45, 44], "delay": [0.8, 0.9]}
    sure = near | {"delay": [0.80, 0.81]}
    ours = load_rule("l4sbench1")
    assert only(decide(make([near]), PAM25)).low_latency == "all"
    assert only(decide(make([near]), ours)).low_latency == "none"
    assert only(decide(make([sure]), ours)).low_latency == "all"


def captured(tables: RunTables, *p99_ms: float) -> RunTables:
    """The tables with the packets of the L4S flow in the first trials, by the p99 of their queuing delay."""
    counts = ("data", "ack", "retransmits", "lost", "ce")
    rest = {"group": "l4s", "seconds": 60.0, "sojourn_samples": 1, **{f"{n}_packets": 1 for n in counts}}
    rows = [
        {"cell": "cell-0000", "trial": trial, "flow": "l4s-0", "sojourn_p99_ms": p99, **rest}
        for trial, p99 in enumerate(p99_ms, start=1)
    ]
    write(tables.folder, "packet_flows", rows)
    return RunTables(tables.folder)


def test_low_latency_by_p99_of_captured_packets(make: Make) -> None:
    rule = PAM25.model_copy(update={"low_latency_of": "p99"})
    tables = make([{"aqm": "dualpi2", "l4s": [50, 51], "classic": [45, 44], "delay": 0.1}])
    assert only(decide(tables, rule)).low_latency == "none", "no packets were captured"
    decision = decide(captured(tables, 0.7, 1.1), rule)
    assert only(decision).low_latency == "all"
    sojourn = only(decision).cells[0].result.l4s.sojourn_p99
    assert sojourn is not None
    assert sojourn.value == pytest.approx(0.9)


def test_trials_without_captures_do_not_narrow_the_interval_of_the_delay(make: Make) -> None:
    trials = {"l4s": [50.0] * 6, "classic": [45.0] * 6}
    decision = decide(captured(make([{"aqm": "dualpi2", **trials}]), 0.7, 1.1), PAM25)
    found, wanted = only(decision).cells[0].result.l4s.sojourn_p99, estimate([0.7, 1.1], "ms", least=0.0)
    assert found is not None
    assert found.trials == 2
    assert found.interval == pytest.approx(wanted.interval)


def test_invalid_and_failed_trials_are_left_out_and_reported(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "l4s": [50, 1, 50], "classic": [40, 90, 40], "status": ["ok", "invalid", "failed"]}
    ]
    decision = decide(make(cells), PAM25)
    verdict = only(decision)
    assert (verdict.word, verdict.trials, verdict.left_out) == (Word.OK, 1, 2)
    assert [(t.trial, t.status) for t in decision.left_out] == [(2, "invalid"), (3, "failed")]
    assert decision.left_out[0].reasons == "the apparatus was wrong"


def test_trials_whose_goodput_is_not_known_are_reported(make: Make) -> None:
    """A flow with few bytes may be over before the warm-up is: the trial is valid, with nothing measured."""
    tables = make([{"aqm": "fifo", "l4s": [50, 52], "classic": [40, 40]}])
    flows = tables.flows.to_dicts()
    for row in flows:
        if (row["group"], row["trial"]) == ("classic", 2):
            row["goodput_mbps"] = None
    write(tables.folder, "flows", flows)
    decision = decide(RunTables(tables.folder), PAM25)
    assert (decision.trials, decision.verdicts[0].left_out) == (1, 1)
    (out,) = decision.left_out
    assert (out.trial, out.status) == (2, "ok")
    assert out.reasons.startswith("the goodput of classic is not known")
    assert not left_out_hints(decision)


def test_a_cell_without_an_interval_is_none_of_those_that_straddle_a_limit(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "buffer_bdp": 1.0, "status": ["failed"]},
        {"aqm": "fifo", "buffer_bdp": 2.0, "l4s": [45], "classic": [48]},
        {"aqm": "fifo", "buffer_bdp": 4.0, "l4s": [20, 30, 40], "classic": [50, 50, 50]},
    ]
    (row,) = decide(make(cells), load_rule("l4sbench1")).frame().to_dicts()
    assert (row["cells"], row["undecided_cells"]) == (3, 1)


def test_a_group_with_a_cell_without_a_valid_trial_is_not_ok(make: Make) -> None:
    good = {"aqm": "fifo", "buffer_bdp": 1.0, "l4s": [50], "classic": [40]}
    broken = {"aqm": "fifo", "buffer_bdp": 4.0, "status": ["invalid"]}
    assert only(decide(make([good, broken]), PAM25)).word is Word.INVALID
    starved = good | {"buffer_bdp": 8.0, "l4s": [5]}
    assert only(decide(make([good, broken, starved]), PAM25)).word is Word.L4S_STARVED
    verdict = only(decide(make([broken]), PAM25))
    assert (verdict.word, verdict.worst.result.share) == (Word.INVALID, None)


def test_what_was_not_measured_decides_before_what_is_well_and_earns_no_star(make: Make) -> None:
    good = {"aqm": "dualpi2", "buffer_bdp": 1.0, "l4s": [50], "classic": [40], "delay": 0.3}
    broken = {"aqm": "dualpi2", "buffer_bdp": 4.0, "status": ["invalid"]}
    verdict = only(decide(make([good, broken]), PAM25))
    assert (str(verdict.worst.label), verdict.low_latency) == ("DualPI2, 4 BDP", "none")
    assert only(decide(make([good]), PAM25)).low_latency == "all"


def test_cells_without_a_competitor_are_not_in_the_table(make: Make) -> None:
    solo = {
        "aqm": "fifo",
        "classic.cc": None,
        "classic.ecn": None,
        "classic.count": None,
        "status": ["invalid"],
    }
    decision = decide(make([{"aqm": "fifo", "l4s": [50], "classic": [40]}, solo]), PAM25)
    assert (len(only(decision).cells), decision.solo) == (1, 1)
    with pytest.raises(InputError, match="has a flow group classic"):
        decide(make([solo]), PAM25)


def test_a_family_the_rule_does_not_know_has_a_row_of_its_own(make: Make) -> None:
    tables = make([{"aqm": "mine", "l4s": [50], "classic": [40]}])
    assert only(decide(tables, PAM25)).row == "other queues"


def test_the_table_verdicts(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "l4s": [10, 12], "classic": [80, 80], "delay": 3.0, "status": ["ok", "ok", "failed"]}
    ]
    (row,) = decide(make(cells), PAM25).frame().to_dicts()
    assert (row["rule"], row["version"], row["verdict"]) == ("pam25", 1, "l4s-starved")
    assert (row["worst_percent"], row["worst_label"], row["delay_ms"]) == (11, "FIFO", 3.0)
    assert (row["cells"], row["trials"], row["left_out"]) == (1, 2, 1)
    assert (row["worst_trials"], row["undecided_cells"], row["bimodal_cells"]) == (2, 1, 0)
    assert (row["worst_low_percent"], row["worst_high_percent"]) == (0, pytest.approx(11 + 12.7062))
    assert row["worst_l4s_harm_percent"] is None


@settings(max_examples=20)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_ok_means_that_every_cell_is_within(make: Make, goodputs: list[float]) -> None:
    cells = [
        {"aqm": "fifo", "buffer_bdp": i + 1.0, "l4s": [g], "classic": [9]} for i, g in enumerate(goodputs)
    ]
    verdict = only(decide(make(cells), PAM25))
    assert (verdict.word is Word.OK) == all(20 <= g <= 80 for g in goodputs)
    assert abs(share(verdict) - 50) == max(abs(g - 50) for g in goodputs)


def published(make: Make, **where: str) -> RunTables:
    """Published cells as if they were a run of one trial each."""
    wanted = {name.replace("__", "."): value for name, value in where.items()}
    return make([measured(cell) for cell in published_cells() if wanted.items() <= cell.factors.items()])


# BBRv1, CUBIC, BBRv2 whose receiver echoes once a round trip, or as DCTCP. BBRv3's cells are not there.
PAM25_TABLE_1 = {
    "prague": {
        "Single queue (drop)": "x ok x x",
        "Single queue (ECN)": "x x x ok",
        "DualPI2": "x ok ok x",
        "Fair queuing": "x ok ok ok",  # BBRv1 is printed as ok, but FQ at 0.5 and 1 BDP has 7.9 and 9.3
    },
    "bbr2-l4s": {
        "Single queue (drop)": "x ok ok ok",
        "Single queue (ECN)": "x x x ok",
        "DualPI2": "x ok ok x",
        "Fair queuing": "ok ok ok ok",
    },
}


@pytest.mark.parametrize("l4s", PAM25_TABLE_1)
def test_pam25_reproduces_the_published_table(make: Make, l4s: str) -> None:
    decision = decide(published(make, l4s__cc=l4s, l4s__fallback="off"), PAM25)
    competitors = {
        "BBRv1": ["BBRv1, ECN off"],
        "CUBIC": ["CUBIC, ECN off", "CUBIC, ECN classic"],
        "BBRv2, one-sided": ["BBRv2, ECN classic"],
        "BBRv2, two-sided": ["BBRv2, ECN dctcp"],
    }
    (question,) = decision.questions
    found: dict[str, str] = {}
    for row in decision.table(question).rows:
        words = []
        for columns in competitors.values():
            entries = [entry(decision, str(question), row, column) for column in columns]
            words.append("ok" if all(own and own.word is Word.OK for own in entries) else "x")
        found[row] = " ".join(words)
    assert found == PAM25_TABLE_1[l4s]
    starred = {verdict.row for verdict in decision.verdicts if verdict.low_latency == "all"}
    assert starred == {"DualPI2"}


ANRW24_TABLE_1 = {  # fallback off: CUBIC, BBRv2; fallback on: CUBIC, BBRv2
    "Single queue without ECN": "ok x ok x",
    "Single queue with ECN": "x x ok ok",
    "Fair queuing with ECN": "ok ok ok ok",
    "DualPI2": "ok ok x x",
}


def anrw24_table(decision: Decision) -> dict[str, str]:
    """Return the verdicts of the rule where the publication has an entry."""
    found: dict[str, str] = {}
    for row in ANRW24_TABLE_1:
        entries = [
            entry(decision, f"Prague, fallback {fallback}", row, f"{competitor}, ECN off or classic")
            for fallback in ("off", "on")
            for competitor in ("CUBIC", "BBRv2")
        ]
        found[row] = " ".join("ok" if own and own.word is Word.OK else "x" for own in entries)
    return found


def test_anrw24_reproduces_the_published_table(make: Make) -> None:
    """All sixteen entries with limits from 22 to 24, and not with those of 20 or 25."""
    rule, tables = load_rule("anrw24"), published(make, l4s__cc="prague")
    for low in (22, 23, 24):
        limits = rule.limits_percent.model_copy(update={"low": float(low), "high": 100.0 - low})
        decision = decide(tables, rule.model_copy(update={"limits_percent": limits}))
        assert anrw24_table(decision) == ANRW24_TABLE_1, low
    wrong = {20: ("Single queue without ECN", "ok ok ok x"), 25: ("DualPI2", "ok x x x")}
    for low, (row, words) in wrong.items():
        limits = rule.limits_percent.model_copy(update={"low": float(low), "high": 100.0 - low})
        decision = decide(tables, rule.model_copy(update={"limits_percent": limits}))
        assert anrw24_table(decision) == ANRW24_TABLE_1 | {row: words}


def test_the_row_without_ecn_of_anrw24_is_fifo_alone(make: Make) -> None:
    decision = decide(published(make, l4s__cc="prague"), load_rule("anrw24"))
    queues: dict[str, set[str]] = {}
    for verdict in decision.verdicts:
        queues.setdefault(verdict.row, set()).update(cell.label.head for cell in verdict.cells)
    assert queues["Single queue without ECN"] == {"FIFO"}
    assert queues["Other single queues without ECN"] == {"CoDel (drop)", "PIE (drop)"}
    assert queues["Fair queuing with ECN"] == {"FQ (+ECN)", "FQ-CoDel (+ECN)"}
    found = entry(decision, "Prague, fallback off", "Single queue without ECN", "BBRv2, ECN off or classic")
    assert found is not None
    assert (found.word, str(found.worst.label)) == (Word.CLASSIC_STARVED, "FIFO, 4 BDP, ECN classic")


def test_pam25_differs_from_the_published_table_in_fq_against_bbr1_alone(make: Make) -> None:
    """The entry is printed as a tick; two of its fifteen cells are outside, FQ at 0.5 and 1 BDP."""
    decision = decide(published(make, l4s__cc="prague", l4s__fallback="off"), PAM25)
    found = entry(decision, "Prague", "Fair queuing", "BBRv1, ECN off")
    assert found is not None
    outside = {str(cell.label): cell.result.share for cell in found.cells if cell.word is not Word.OK}
    assert (found.word, len(found.cells)) == (Word.L4S_STARVED, 15)
    assert {label: round(percent.value, 1) for label, percent in outside.items() if percent} == {
        "FQ (+ECN), 0.5 BDP": 7.9,
        "FQ (+ECN), 1 BDP": 9.3,
    }


def test_directions_in_the_published_cells(make: Make) -> None:
    decision = decide(published(make, l4s__cc="prague", l4s__fallback="off"), PAM25)
    found = {(v.row, str(v.column)): v for v in decision.verdicts}
    ecn = found["Single queue (ECN)", "CUBIC, ECN classic"]
    assert (ecn.word, str(ecn.worst.label)) == (Word.CLASSIC_STARVED, "FIFO (+ECN), 4 BDP")
    assert found["Single queue (ECN)", "CUBIC, ECN off"].word is Word.BOTH
    assert found["DualPI2", "BBRv1, ECN off"].word is Word.L4S_STARVED
    (question,) = decision.questions
    assert tuple(map(str, decision.table(question).columns)) == (
        *("BBRv1, ECN off", "BBRv2, ECN off", "BBRv2, ECN classic", "BBRv2, ECN dctcp"),
        *("CUBIC, ECN off", "CUBIC, ECN classic"),
    )


def test_the_rules(make: Make) -> None:
    assert load_rule("anrw24").limits_percent.low == 23
    with pytest.raises(InputError, match="did you mean pam25"):
        load_rule("pam24")
    tables = make([{"aqm": "fifo", "l4s": [21], "classic": [70]}])
    assert only(decide(tables, load_rule("pam25"))).word is Word.OK
    assert only(decide(tables, load_rule("anrw24"))).word is Word.L4S_STARVED
