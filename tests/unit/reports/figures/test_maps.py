# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Heat maps: every number is the table's, every place one cell, every text readable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from l4sbench.errors import InputError
from reports.colours import WCAG_AA, contrast, goodput_scale
from reports.figures import (
    delay_map,
    difference_map,
    goodput_map,
    published_map,
    published_maps,
    sheets,
    specification,
)
from reports.figures.heatmaps import painted_delay, painted_goodput
from reports.figures.painting import hatch_lines
from reports.published import compare
from reports.published.look import panel_title
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.unit.reports.conftest import Make

PAM25 = load_rule("pam25")


def rows_of(spec: Any, *fields: str) -> Iterator[dict[str, Any]]:
    """All rows in a specification that have these fields."""
    for rows in spec["datasets"].values():
        yield from (row for row in rows if set(fields) <= set(row))


def small(make: Make, **more: Any) -> Decision:
    """Four cells: starved, fair, dominating, undecided."""
    goodputs = {1.0: [5, 5, 5], 2.0: [48, 49, 50], 4.0: [90, 90, 90], 8.0: [70, 75, 85]}
    cells = [
        {"aqm": "codel", "buffer_bdp": buffer, "l4s": got, "classic": [95 - g for g in got], **more}
        for buffer, got in goodputs.items()
    ]
    return decide(make(cells), PAM25)


@pytest.mark.parametrize("draw", [goodput_map, delay_map])
def test_values_are_those_of_the_cells(make: Make, draw: Any) -> None:
    decision = small(make)
    (sheet,) = sheets(decision)
    drawn = {row["cell"]: row for row in rows_of(specification(draw(sheet, PAM25)), "cell", "percent")}
    cells = {cell.id: cell.result for cell in decision.cells}
    assert set(drawn) == set(cells)
    for cell, row in drawn.items():
        own = cells[cell]
        means = {
            "percent": own.share,
            "l4s_mbps": own.l4s.goodput,
            "classic_mbps": own.classic.goodput,
            "delay_ms": own.l4s.delay,
            "classic_delay_ms": own.classic.delay,
        }
        assert {name: row[name] for name in means} == {
            name: mean and mean.value for name, mean in means.items()
        }
        assert own.share
        assert (row["low"], row["high"]) == own.share.interval


def test_published_numbers_and_titles(published: Decision) -> None:
    (sheet,) = sheets(published)
    single, multi = (part for part, _ in published_maps([sheet]))
    assert single.queues == ("fifo", "pie-drop", "codel-drop", "fifo-ecn", "codel")
    assert multi.queues == ("fq", "fq-codel", "fq-codel-l4s", "dualpi2")
    cells = [next(iter(panel.places.values())) for panel in single.grid.panels]
    assert [panel_title(cell, "l4s", "classic") for cell in cells] == [
        "Prague vs CUBIC - No ECN",
        "Prague vs CUBIC - ECN",
        "Prague ECN Fallback vs CUBIC - ECN",
    ]
    spec = specification(published_map(single))
    printed = {(row["text"], row["bracket"]) for row in rows_of(spec, "text", "bracket")}
    # from the study's own figure: FIFO, 0.5 BDP, ECN; CoDel with ECN, 8 BDP, ECN
    assert {("40.6", "(53.8)"), ("88.6", "(6.4)")} <= printed
    assert {row["ink"] for row in rows_of(spec, "ink")} == {"#000000"}
    delays = specification(published_map(multi, "delay"))
    assert {row["ink"] for row in rows_of(delays, "ink")} == {"#ffffff"}


def test_rows_are_in_the_published_order(published: Decision) -> None:
    (sheet,) = sheets(published)
    assert sheet.queues[0] == "fifo"
    assert sheet.xs == ("0.5", "1", "2", "4", "8")
    assert len(sheet.grid.panels[0].places) == 45


def test_every_text_is_readable(published: Decision, make: Make) -> None:
    for decision in (published, small(make)):
        for sheet in sheets(decision):
            for panel in sheet.grid.panels:
                painted = [*painted_goodput(sheet, panel), *painted_delay(panel, PAM25)]
                assert painted
                for cell in painted:
                    assert contrast(cell.ink, cell.ground) >= WCAG_AA
                    assert cell.hatch is None or contrast(cell.hatch, cell.ground) > 1.2


def test_marks_and_hatches_say_without_colour(make: Make) -> None:
    (sheet,) = sheets(small(make))
    painted = {sheet.xs[p.x]: p for p in painted_goodput(sheet, sheet.grid.panels[0])}
    assert {at: p.mark for at, p in painted.items()} == {"1": "below", "2": "", "4": "above", "8": ""}
    assert {at: bool(p.hatch) for at, p in painted.items()} == {"1": False, "2": False, "4": False, "8": True}
    assert any("hatched" in text for text in _subtitle(goodput_map(sheet, PAM25)))


@pytest.mark.parametrize(
    ("rule", "labels"),
    [
        ("pam25", ["0", "40", "60", "100", "20", "80", "50 fair"]),
        ("anrw24", ["0", "40", "60", "100", "23", "77", "50 fair"]),
    ],
)
def test_ticks_of_the_colour_bar_leave_room_for_limits(make: Make, rule: str, labels: list[str]) -> None:
    (sheet,) = sheets(decide(make([{"aqm": "fifo", "l4s": [50], "classic": [40]}]), load_rule(rule)))
    text = json.dumps(specification(goodput_map(sheet, load_rule(rule))))
    assert json.dumps(json.dumps(labels))[1:-1] in text


def test_bimodal_cells_are_crossed(make: Make) -> None:
    got = [30, 31, 32, 70, 71, 72]
    cells = [{"aqm": "fifo", "l4s": got, "classic": [95 - g for g in got]}]
    decision = decide(make(cells), PAM25)
    assert [cell.result.bimodal for cell in decision.cells] == [True]
    (sheet,) = sheets(decision)
    (painted,) = painted_goodput(sheet, sheet.grid.panels[0])
    assert painted.crossed
    assert painted.hatch
    assert any("crossed" in text for text in _subtitle(goodput_map(sheet, PAM25)))


def test_marks_are_those_of_the_rule_that_decided(make: Make) -> None:
    """Nine L4S flows against one: half their fair share is 45 %, and 85 % starves nobody."""
    rule = load_rule("l4sbench1")
    nine: dict[str, Any] = {"aqm": "fifo", "l4s.count": 9}
    cells = [
        nine | {"buffer_bdp": 1.0, "l4s": [84.9, 85, 85.1], "classic": [10.0] * 3},
        nine | {"buffer_bdp": 2.0, "l4s": [39.9, 40, 40.1], "classic": [55.0] * 3},
        nine | {"buffer_bdp": 4.0, "l4s": [50.0, 40, 45], "classic": [50.0] * 3},
    ]
    (sheet,) = sheets(decide(make(cells), rule))
    painted = {sheet.xs[p.x]: p for p in painted_goodput(sheet, sheet.grid.panels[0])}
    assert {at: p.mark for at, p in painted.items()} == {"1": "", "2": "below", "4": ""}
    assert {at: bool(p.hatch) for at, p in painted.items()} == {"1": False, "2": False, "4": True}
    notes = " ".join(_subtitle(goodput_map(sheet, rule))).replace("\u00a0", " ")
    assert "l4s starved" in notes
    assert "bars: 95 % intervals of l4s and below it classic, ticks at their limits" in notes
    assert "undecided: Prague may get 33 to 57 Mbit/s, limit 45 (FIFO, 4 BDP)" in notes


def _subtitle(chart: Any) -> list[str]:
    return list(specification(chart)["title"]["subtitle"])


def test_low_latency_has_a_star(make: Make) -> None:
    cells = [
        {"aqm": "dualpi2", "buffer_bdp": b, "delay": d, "l4s": [50], "classic": [40]}
        for b, d in ((1.0, 0.4), (2.0, 1.0))
    ]
    (sheet,) = sheets(decide(make(cells), PAM25))
    assert [p.mark for p in painted_delay(sheet.grid.panels[0], PAM25)] == ["low-latency", ""]
    assert [p.text for p in painted_delay(sheet.grid.panels[0], PAM25)] == ["0.40", "1.0"]


def test_stars_of_the_map_are_those_of_the_table(make: Make) -> None:
    """Trials of 0.2, 0.9 and 1.6 ms: mean 0.9, but the interval ends at 2.6."""
    near = {"aqm": "dualpi2", "l4s": [45, 46, 47], "classic": [48] * 3, "delay": [0.2, 0.9, 1.6]}
    of_packets = PAM25.model_copy(update={"low_latency_of": "p99"})  # and no packets were captured
    wanted = {
        PAM25: ("all", "low-latency", "star: below 1 ms"),
        load_rule("l4sbench1"): ("none", "", "star: with its whole interval below 1 ms"),
        of_packets: ("none", "", "star: p99 of L4S queuing delay per packet below 1 ms"),
    }
    for rule, (entry, mark, note) in wanted.items():
        decision = decide(make([near]), rule)
        (sheet,) = sheets(decision)
        assert [verdict.low_latency for verdict in decision.verdicts] == [entry]
        assert [p.mark for p in painted_delay(sheet.grid.panels[0], rule)] == [mark]
        assert note in " ".join(_subtitle(delay_map(sheet, rule))).replace("\u00a0", " ")


def test_a_cell_without_a_valid_trial_says_so(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "buffer_bdp": 1.0, "status": ["invalid"]},
        {"aqm": "fifo", "buffer_bdp": 4.0, "l4s": [50], "classic": [40]},
    ]
    (sheet,) = sheets(decide(make(cells), PAM25))
    for chart in (goodput_map(sheet, PAM25), delay_map(sheet, PAM25)):
        assert [r["text"] + r["bracket"] for r in rows_of(specification(chart), "bracket")].count(
            "nonevalid"
        ) == 1
    published = specification(published_map(sheet))
    assert len(list(rows_of(published, "bracket"))) == 1


def test_colours_part_at_the_fair_share(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "l4s": [9], "classic": [86], "l4s.count": 1, "classic.count": 10},
        {"aqm": "fifo", "l4s": [86], "classic": [9], "l4s.count": 10, "classic.count": 1},
    ]
    found = {sheet.flows: sheet for sheet in sheets(decide(make(cells), PAM25))}
    assert found[1, 10].fair_percent == pytest.approx(100 / 11)
    scale = goodput_scale(found[1, 10].fair_percent)
    assert scale.colour(100 / 11) == "#f5f5f5"
    assert scale.colour(50) != "#f5f5f5"
    assert [sheet.slug for sheet in found.values()] == ["cubic_1v10", "cubic_10v1"]


def test_what_differs_makes_sheets_of_its_own(make: Make) -> None:
    cells = [
        {"aqm": "codel", "rtt_ms": rtt, "classic.cc": cc, "aqm.target_ms": t, "l4s": [50], "classic": [40]}
        for rtt in (10.0, 20.0)
        for cc in ("cubic", "bbr1")
        for t in (1.0, 5.0)
    ]
    decision = decide(make(cells), PAM25)
    assert [sheet.slug for sheet in sheets(decision, across="buffer_bdp")] == [
        *("bbr1_rtt-10-ms", "bbr1_rtt-20-ms", "cubic_rtt-10-ms", "cubic_rtt-20-ms"),
    ]
    assert sheets(decision)[0].rows == ("CoDel (+ECN), target 1 ms", "CoDel (+ECN), target 5 ms")
    across = sheets(decision)  # what differs, as buffers do not
    assert [(sheet.slug, sheet.xs, sheet.across) for sheet in across] == [
        ("bbr1", ("10", "20"), "rtt (ms)"),
        ("cubic", ("10", "20"), "rtt (ms)"),
    ]
    with pytest.raises(InputError, match="not a numeric factor"):
        sheets(decision, across="classic.cc")


def test_a_new_factor_makes_sheets_of_its_own(make: Make) -> None:
    cells = [{"aqm": "fifo", "path.kind": kind, "l4s": [50], "classic": [40]} for kind in ("fibre", "radio")]
    found = sheets(decide(make(cells), PAM25))
    assert [sheet.slug for sheet in found] == ["cubic_path.kind-fibre", "cubic_path.kind-radio"]
    assert found[0].title == "against CUBIC, path.kind fibre"


def test_cells_that_share_a_place_are_named(make: Make) -> None:
    """`anrw24` has flows with and without ECN in one column."""
    cells = [{"aqm": "fifo", "classic.ecn": ecn, "l4s": [50], "classic": [40]} for ecn in ("off", "classic")]
    with pytest.raises(InputError, match="FIFO at 1 BDP is two cells: cell-0000 and cell-0001"):
        sheets(decide(make(cells), load_rule("anrw24")))


def test_differences_to_published_cells(make: Make) -> None:
    cells = [
        {"aqm": "codel", "buffer_bdp": 1.0, "classic.ecn": "classic", "l4s": [84.9], "classic": [10.0]},
        {"aqm": "codel", "buffer_bdp": 4.0, "classic.ecn": "classic", "l4s": [88.6], "classic": [6.0]},
        {"aqm": "codel", "buffer_bdp": 3.0, "classic.ecn": "classic", "l4s": [50.0], "classic": [45.0]},
    ]
    tables = make(cells)
    (sheet,) = sheets(decide(tables, PAM25))
    spec = specification(difference_map(sheet, compare(tables)))
    # published: 74.9 and 88.6 Mbit/s of 100; nobody published 3 BDP
    drawn = {row["at"]: (row["text"], row["bracket"]) for row in rows_of(spec, "text", "bracket")}
    assert drawn == {"1": ("+10.0", "(74.9)"), "4": ("+0.0", "(88.6)")}
    assert "diamond" in str(spec["vconcat"])


def test_hatches_stay_within_the_cell() -> None:
    for crossed in (False, True):
        lines = hatch_lines(56, 44, crossed=crossed)
        assert len(lines) > 8
        for x, y, x2, y2 in lines:
            assert 0 <= min(x, x2) <= max(x, x2) <= 56
            assert 0 <= min(y, y2) <= max(y, y2) <= 44
            assert abs(x - x2) == pytest.approx(abs(y - y2))
