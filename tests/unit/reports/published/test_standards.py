# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdicts of made-up sheets on made-up trials: what two flows got in some cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from l4sbench.errors import InputError
from reports.published.standards import (
    Case,
    Conformance,
    Place,
    RequirementSheet,
    RowOutcome,
    judge,
    load_margins,
    load_sheet,
    offered,
)
from reports.published.standards.model import Level, NegativeControl
from reports.published.standards.render import as_document, as_junit, markdown, notes, rows, summary
from reports.result.load import RunTables, load
from tests.unit.reports.conftest import write

Got = Mapping[str, Sequence[float]]
"""Queue -> what the new flow got in each trial, beside an old one with 10 Mbit/s."""


def sheet(*claims: Mapping[str, Any], level: str = "MUST", more: int = 0, **row: Any) -> RequirementSheet:
    """Return a sheet of a row with these claims, and `more` that are like it."""
    own: dict[str, Any] = {"section": "1", "level": level, "requires": "It is so.", "applies": "sender"}
    own |= {"groups": ["new"], "matrix": {"rate": "100mbit"}}
    own |= {"claims": [{"threshold": "proposed", **claim} for claim in claims]}
    listed = [own | row | {"id": f"A{number}"} for number in range(1, more + 2)]
    return RequirementSheet.model_validate(
        {"sheet": "s", "document": "RFC 0", "about": "About.", "rows": listed}
    )


def tables(
    folder: Path, got: Got, status: str = "ok", old: Mapping[tuple[str, int], float] | None = None
) -> RunTables:
    trials: list[dict[str, Any]] = []
    flows: list[dict[str, Any]] = []
    for aqm, goodputs in got.items():
        for trial, goodput in enumerate(goodputs, start=1):
            key = {"cell": aqm, "trial": trial}
            about = {"seed": "1", "inputs": "i", "folder": f"{trial}-i", "rate_mbps": 100.0, "aqm": aqm}
            trials.append(key | about | {"status": status, "reasons": None if status == "ok" else "no ECN"})
            ends = {"cc": "x", "sender": "a", "receiver": "b"}
            if status == "ok":
                flows.append(key | ends | {"flow": "new-0", "group": "new", "goodput_mbps": goodput})
                left = (old or {}).get((aqm, trial), 10.0)
                flows.append(key | ends | {"flow": "old-0", "group": "old", "goodput_mbps": left})
    write(folder / "tables", "trials", trials)
    write(folder / "tables", "flows", flows)
    for name in ("packet_flows", "packets"):
        write(folder / "tables", name, [])
    return load(folder)


def place(aqm: str) -> Place:
    return Place(aqm, {"aqm": aqm.removesuffix("-other")}, f"aqm={aqm}")


def verdict(
    found: RunTables, of: RequirementSheet, *cells: str, others: Mapping[str, tuple[Place, ...]] | None = None
) -> Conformance:
    case = Case(of.rows[0], "mine", tuple(map(place, cells)), others or {})
    return judge(found, of, [case])


RATIO = {"measure": "ratio_per_flow", "at_least": 0.5, "at_most": 2}


@pytest.mark.parametrize(
    ("goodputs", "outcome"),
    [
        ([10.0, 11.0, 10.5], RowOutcome.PASS),
        ([30.0, 31.0, 32.0], RowOutcome.FAIL),
        ([1.0, 1.1, 0.9], RowOutcome.FAIL),
        ([18.0, 19.0, 20.0], RowOutcome.UNDECIDED),  # the mean is inside, the interval is not
        ([5.0, 15.0, 10.0], RowOutcome.UNDECIDED),
        ([10.0], RowOutcome.UNDECIDED),
    ],
)
def test_the_whole_interval_decides(tmp_path: Path, goodputs: list[float], outcome: RowOutcome) -> None:
    found = verdict(tables(tmp_path, {"fifo": goodputs}), sheet(RATIO), "fifo")
    assert [one.outcome for one in found.verdicts] == [outcome]
    (finding,) = found.verdicts[0].findings
    assert finding.trials == len(goodputs)
    assert finding.value == pytest.approx(sum(goodputs) / len(goodputs) / 10)


def test_an_interval_ends_at_the_least_value_of_its_measure(tmp_path: Path) -> None:
    found = verdict(tables(tmp_path, {"fifo": [1.0, 30.0, 2.0]}), sheet(RATIO), "fifo")
    (finding,) = found.verdicts[0].findings
    assert finding.ends is not None
    assert finding.ends[0] == 0
    assert finding.ends[1] == pytest.approx(3.88, abs=0.01)


def test_many_rows_need_narrower_intervals(tmp_path: Path) -> None:
    found = tables(tmp_path, {"fifo": [10.0, 13.0, 16.0]})
    assert (
        verdict(found, sheet(RATIO | {"at_least": 0.1, "at_most": 3}), "fifo").verdicts[0].outcome
        is RowOutcome.PASS
    )
    many = verdict(found, sheet(RATIO | {"at_least": 0.1, "at_most": 3}, more=19), "fifo")
    assert many.verdicts[0].outcome is RowOutcome.UNDECIDED
    assert "(Bonferroni)" in notes(many)[0]


def test_a_row_fails_in_one_cell_and_passes_in_all(tmp_path: Path) -> None:
    found = tables(tmp_path, {"fifo": [10.0] * 3, "pie": [90.0] * 3, "red": [50.0] * 3, "lost": [10.0, 12.0]})
    (failed,) = verdict(found, sheet(RATIO), "fifo", "red", "pie", "lost").verdicts
    assert failed.outcome is RowOutcome.FAIL
    assert failed.deciding is not None
    assert failed.deciding.place.cell == "pie"  # the farthest outside
    assert failed.broken
    (expected,) = verdict(found, sheet(RATIO, level="expected"), "pie").verdicts
    assert expected.outcome is RowOutcome.FAIL
    assert not expected.broken
    (passed,) = verdict(found, sheet(RATIO | {"where": {"aqm": ["fifo"]}}), "fifo", "pie").verdicts
    assert passed.outcome is RowOutcome.PASS


def test_cells_are_compared_by_trial(tmp_path: Path) -> None:
    found = tables(
        tmp_path, {"fifo": [10.0, 20.0, 30.0], "pie": [9.0, 18.1, 27.0], "fifo-other": [11.0, 22.0, 33.0]}
    )
    claim = {"measure": "goodput_mbps", "than": {"aqm": "fifo"}, "at_least": 0.8}
    (compared,) = verdict(found, sheet(claim), "fifo", "pie").verdicts
    assert compared.outcome is RowOutcome.PASS
    assert [finding.place.cell for finding in compared.findings] == ["pie"]
    beside = {"measure": "goodput_mbps", "than": "cubic", "at_most": 1.0}
    others = {"cubic": (place("fifo-other"),)}
    (better,) = verdict(found, sheet(beside), "fifo", others=others).verdicts
    assert better.outcome is RowOutcome.PASS
    assert better.findings[0].value == pytest.approx(10 / 11)
    (nobody,) = verdict(found, sheet(beside), "fifo").verdicts
    assert nobody.outcome is RowOutcome.NOT_POSSIBLE


def test_a_ratio_to_nothing_compares_with_others(tmp_path: Path) -> None:
    starving = {"fifo": [10.0] * 3, "pie": [10.0] * 3, "red": [10.0] * 3}
    found = tables(tmp_path, starving, old={("pie", 2): 0.0, ("red", 1): 0.0})
    claim = {"measure": "ratio_per_flow", "than": {"aqm": "fifo"}, "at_least": 0.5, "at_most": 2}
    (more,) = verdict(found, sheet(claim), "fifo", "pie").verdicts
    assert more.outcome is RowOutcome.FAIL
    assert rows(judge(found, sheet(claim), [more.case]))[0]["by"].startswith("ratio_per_flow over that")
    (less,) = verdict(found, sheet(claim | {"than": {"aqm": "pie"}}), "fifo", "pie").verdicts
    assert (less.outcome, less.findings[0].value) == (RowOutcome.FAIL, 0)
    (both,) = verdict(found, sheet(claim | {"than": {"aqm": "pie"}}), "red", "pie").verdicts
    assert (both.outcome, both.reason) == (RowOutcome.UNDECIDED, "it is infinite in both cells")


def test_what_may_not_happen_is_judged_trial_by_trial(tmp_path: Path) -> None:
    never = {"measure": "goodput_mbps", "at_most": 0, "each_trial": True}
    assert (
        verdict(tables(tmp_path, {"fifo": [0.0]}), sheet(never), "fifo").verdicts[0].outcome
        is RowOutcome.PASS
    )
    once = tables(tmp_path, {"fifo": [0.0, 0.0, 1.0]})
    assert verdict(once, sheet(never), "fifo").verdicts[0].outcome is RowOutcome.FAIL


def test_what_is_missing_is_no_verdict(tmp_path: Path) -> None:
    found = tables(tmp_path, {"fifo": [10.0] * 3})
    (not_run,) = verdict(found, sheet(RATIO), "fifo", "pie").verdicts
    assert (not_run.outcome, not_run.reason) == (RowOutcome.UNDECIDED, "1 of 2 cells have not run")
    (no_packets,) = verdict(found, sheet({"measure": "ect1_percent", "at_least": 100}), "fifo").verdicts
    assert no_packets.outcome is RowOutcome.NOT_POSSIBLE
    (invalid,) = verdict(tables(tmp_path, {"fifo": [1.0] * 3}, "invalid"), sheet(RATIO), "fifo").verdicts
    assert (invalid.outcome, invalid.reason) == (RowOutcome.NOT_POSSIBLE, "3 of 3 trials invalid: no ECN")
    assert (
        judge(None, sheet(RATIO), [Case(sheet(RATIO).rows[0], "mine")]).verdicts[0].outcome
        is RowOutcome.UNDECIDED
    )
    assert as_document(verdict(found, sheet(RATIO), "fifo"))["sheet"] == "s"


def test_margins_change_proposed_limits_only(tmp_path: Path) -> None:
    margins = tmp_path / "mine.yml"
    margins.write_text("margins: mine\nrows: {A1: {ratio_per_flow: {at_most: 4}}}\n")
    found = tables(tmp_path, {"fifo": [30.0, 31.0, 32.0]})
    wider = sheet(RATIO).with_margins(load_margins(margins))
    assert verdict(found, wider, "fifo").verdicts[0].outcome is RowOutcome.PASS
    with pytest.raises(InputError, match=r"mine\.yml:2:.*the limits of A1 are stated in the document"):
        sheet(RATIO | {"threshold": "stated"}).with_margins(load_margins(margins))
    margins.write_text("margins: mine\nrows: {A2: {}, A1: {ratio: {at_most: 4}}}\n")
    with pytest.raises(InputError, match="s has no row A2") as raised:
        sheet(RATIO).with_margins(load_margins(margins))
    assert "A1 has no claim ratio" in str(raised.value)


def test_documents_have_every_verdict(tmp_path: Path) -> None:
    found = verdict(tables(tmp_path, {"fifo": [30.0, 31.0, 32.0]}), sheet(RATIO), "fifo")
    (row,) = rows(found)
    assert row["verdict"] == "fail"
    assert row["by"].startswith("ratio_per_flow 3.1 [2.9")
    assert row["by"].endswith("proposed limits 0.5 to 2; 3 trials, aqm=fifo")
    assert summary(found) == ["mine: 1 fail; fails MUST A1"]
    assert "| A1 | 1 | MUST | mine | **fail** |" in markdown(found, "l4sbench conform s")
    suites = JUnitXml.fromstring(as_junit(found).encode())
    assert (suites.tests, suites.failures) == (1, 1)


def test_rounding_takes_no_figure_over_its_limit(tmp_path: Path) -> None:
    asked = sheet({"measure": "goodput_mbps", "at_least": 99})
    (row,) = rows(verdict(tables(tmp_path, {"fifo": [98.97] * 3}), asked, "fifo"))
    assert row["verdict"] == "fail"
    assert "goodput_mbps 98.97 [98.97, 98.97], proposed limit at least 99" in row["by"]


def test_candidates_are_side_by_side(tmp_path: Path) -> None:
    found = tables(tmp_path, {"fifo": [10.0] * 3, "pie": [90.0] * 3, "red": [10.0] * 4})
    of = sheet(RATIO, more=1)
    cases = [Case(of.rows[0], aqm, (place(aqm),)) for aqm in ("fifo", "pie", "red")]
    unfit = Case(of.rows[1], "fifo", hindrance=(RowOutcome.NOT_APPLICABLE, "it is no sender"))
    lines = markdown(judge(found, of, [*cases, unfit]), "l4sbench conform s").splitlines()
    assert "| row | requires | limits (3 trials) | fifo | pie | red |" in lines
    (own,) = (line for line in lines if line.startswith("| A1, MUST |"))
    assert own.split(" | ")[1:] == [
        "It is so.",
        "ratio_per_flow proposed limits 0.5 to 2",
        r"pass, 1 \[1, 1\]",
        r"**fail**, 9 \[9, 9\]",
        r"pass, 1 \[1, 1\], 4 trials |",
    ]
    assert not any(line.startswith("| A2, MUST |") for line in lines)  # it applies to none of them
    alone = markdown(judge(found, of, cases[:1]), "l4sbench conform s")
    assert "| row | requires |" not in alone


def test_a_control_that_does_not_fail_makes_its_row_untrusted(tmp_path: Path) -> None:
    of = sheet(RATIO)
    found = tables(tmp_path, {"fifo": [10.0] * 3, "pie": [90.0] * 3})
    control = NegativeControl(candidate="bad", because="it starves others")
    cases = [Case(of.rows[0], "bad", (place(aqm),), control=control) for aqm in ("fifo", "pie")]
    asked = judge(found, of, cases)
    assert [one.trusted for one in asked.verdicts] == [False, True]
    assert notes(asked)[1:] == ["A1 is not to be trusted: bad must fail, as it starves others."]
    assert JUnitXml.fromstring(as_junit(asked).encode()).failures == 1
    other = control.model_copy(update={"claim": "another claim"})
    for_another_reason = judge(found, of, [Case(of.rows[0], "bad", (place("pie"),), control=other)])
    assert not for_another_reason.verdicts[0].trusted


@pytest.mark.parametrize(
    ("name", "row", "level"),
    [
        ("rfc9332", "C5", Level.SHOULD),  # "SHOULD NOT need any configuration"
        ("rfc9332", "C6", Level.MAY),  # "the following parameters MAY be operator-configurable"
        ("rfc9743", "F18", Level.MUST),  # "MUST evaluate the impact of changes in the path"
        ("rfc9768", "E3", Level.EXPECTED),  # "is not stated normatively (in capitals)"
        ("rfc9768", "E4", Level.EXPECTED),  # the same
    ],
)
def test_rows_have_the_force_of_their_document(name: str, row: str, level: Level) -> None:
    assert load_sheet(name).row(row).level is level


def test_what_cannot_be_measured_is_in_the_sheet_with_the_reason() -> None:
    rows_of = {row.id: row for row in load_sheet("rfc9743").rows}
    assert [f"F{number}" for number in range(1, 21)] == list(rows_of)
    musts = [name for name, row in rows_of.items() if row.not_possible and row.level is Level.MUST]
    assert musts == ["F11", "F19"]


@pytest.mark.parametrize("name", offered())
def test_sheets_are_valid(name: str) -> None:
    found = load_sheet(name)
    assert found.measured
    assert all(row.requires for row in found.rows)
