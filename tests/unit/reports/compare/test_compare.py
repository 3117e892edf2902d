# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Comparisons of two runs: what counts as worse, as the same, and as nobody can tell."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Failure, JUnitXml, Skipped
from scipy import stats

from l4sbench import tables
from l4sbench.errors import InputError
from reports.compare import ChangeKind, Comparison, Presence, compare, load_margins
from reports.compare.changes import changes
from reports.compare.margins import DEFAULT
from reports.compare.render import as_document, as_junit, as_text
from reports.compare.welch import difference, largest_p
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.stats import estimate
from reports.result.verdicts import Word
from tests.unit.reports.conftest import Make, write


@pytest.fixture
def compared(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Comparison]:
    def build(
        base: Sequence[Mapping[str, Any]],
        new: Sequence[Mapping[str, Any]],
        margins: Path = DEFAULT,
        rule: str | None = "pam25",
        looks: tuple[int, int] = (1, 1),
    ) -> Comparison:
        # `make` writes into one folder: the first run's frames are read before the second is written
        first = make(base)
        for table in ("trials", "flows", "catalog"):
            first.frame(table)
        _ = first.trials, first.flows, first.catalog
        second = make(new)
        return compare(
            first,
            second,
            names=("base", "new"),
            margins=load_margins(margins),
            rule=None if rule is None else load_rule(rule),
            looks=looks,
        )

    return build


def cell(aqm: str, l4s: Sequence[float], **rest: Any) -> dict[str, Any]:
    return {"aqm": aqm, "l4s": list(l4s), "classic": [95 - value for value in l4s], **rest}


def metric(comparison: Comparison, number: int, name: str) -> Any:
    return next(m for m in comparison.cells[number].metrics if m.name == name)


def test_equal_runs_are_the_same(compared: Callable[..., Comparison]) -> None:
    cells = [cell("fifo", [47.0, 48.0, 46.5]), cell("dualpi2", [44.0])]
    found = compared(cells, cells)
    assert not found.regressed
    assert {m.change for c in found.cells for m in c.metrics} == {ChangeKind.SAME}


def test_a_flow_that_starves_is_worse_and_the_verdict_says_so(compared: Callable[..., Comparison]) -> None:
    base = [cell("dualpi2", [47.0, 48.0, 46.5]), cell("fifo", [45.0, 45.5, 46.0])]
    new = [cell("dualpi2", [11.0, 12.0, 10.5]), cell("fifo", [45.1, 45.4, 46.1])]
    found = compared(base, new)
    assert found.regressed
    assert metric(found, 0, "unfairness_percent").change is ChangeKind.WORSE
    assert metric(found, 1, "unfairness_percent").change is ChangeKind.SAME
    (entry,) = found.entries
    assert (entry.base.value, entry.new.value, entry.regressed) == ("ok", "l4s-starved", True)
    worse = as_text(found).split("Worse by more than noise:")[1].split("\n\n")[0]
    assert "cell-0000: unfairness_percent" in worse
    assert "cell-0001" not in worse
    back = compared(new, base)
    assert not back.regressed
    assert metric(back, 0, "unfairness_percent").change is ChangeKind.BETTER


def test_p_values_are_those_of_welchs_test_shifted_by_the_margin(compared: Callable[..., Comparison]) -> None:
    base, new = [47.0, 52.0, 44.5, 40.0], [30.0, 38.0, 33.5]
    found = compared([cell("fifo", base)], [cell("fifo", new)])
    own = metric(found, 0, "unfairness_percent")
    was = np.array([abs(value / 95 - 0.5) * 100 for value in base])
    now = np.array([abs(value / 95 - 0.5) * 100 for value in new])
    expected = stats.ttest_ind(now - 5.0, was, equal_var=False, alternative="greater")
    assert own.p_worse == pytest.approx(expected.pvalue)
    assert own.base.value == pytest.approx(was.mean())
    whole = stats.ttest_ind(now, was, equal_var=False).confidence_interval()
    assert own.difference.interval == pytest.approx([whole.low, whole.high])


@pytest.mark.parametrize("spread", [(0.3, 1.5), (2.0, 0.5)])
def test_a_difference_has_one_test_and_one_interval(spread: tuple[float, float]) -> None:
    """The interval ends where the one-sided p values are 2.5 %."""
    was, now = ([at - away, at, at + away] for at, away in zip((7.0, 9.0), spread, strict=True))
    found = difference(estimate(was), estimate(now))
    assert found is not None
    assert found.value == pytest.approx(2.0)
    assert [found.p_above(found.interval[0]), found.p_below(found.interval[1])] == pytest.approx([0.025] * 2)
    assert found.p_differs == pytest.approx(stats.ttest_ind(now, was, equal_var=False).pvalue)
    assert difference(estimate(was), estimate([9.0])) is None, "one trial"


@given(st.lists(st.floats(0, 1), max_size=12), st.sampled_from((0.01, 0.05, 0.2)))
def test_the_largest_p_that_counts_is_that_of_benjamini_and_hochberg(
    tested: list[float], rate: float
) -> None:
    adjusted = stats.false_discovery_control(tested) if tested else ()
    counted = [p for p, q in zip(tested, adjusted, strict=True) if q <= rate]
    assert largest_p(tested, rate) == max(counted, default=-1.0)


def test_trials_that_do_not_vary_leave_no_room_for_chance() -> None:
    found = difference(estimate([7.0] * 3), estimate([9.0] * 3))
    assert found is not None
    assert (found.interval, found.p_differs) == ((2.0, 2.0), 0.0)
    assert (found.p_above(1.9), found.p_above(2.1)) == (0.0, 1.0)
    rounded = difference(estimate([0.3] * 3), estimate([0.1 + 0.2] * 3))
    assert rounded is not None
    assert rounded.p_differs == 1.0


def test_a_goodput_that_is_not_known_is_in_no_metric(make: Make) -> None:
    """A flow with few bytes was over before the warm-up was; what is no bulk transfer may have no goodput."""
    tables = make([cell("fifo", [47.0, 48.0])])
    flows = tables.flows.to_dicts()
    found = []
    for send in ("bulk", "flent"):
        gone = {"goodput_mbps": None, "send": send}
        write(tables.folder, "flows", [row | (gone if row["group"] == "classic" else {}) for row in flows])
        again = RunTables(tables.folder)
        (one,) = changes(again, again, load_margins())
        found.append({metric.metric: metric.base.value for metric in one.metrics if not metric.group})
    assert found == [{}, {"utilisation_percent": 47.5}]


def test_noise_is_unclear_and_never_a_regression(compared: Callable[..., Comparison]) -> None:
    found = compared([cell("fifo", [20.0, 70.0, 45.0])], [cell("fifo", [60.0, 15.0, 30.0])])
    assert not found.regressed
    assert metric(found, 0, "unfairness_percent").change is ChangeKind.UNCLEAR


def test_one_trial_never_decides(compared: Callable[..., Comparison]) -> None:
    found = compared([cell("fifo", [47.0])], [cell("fifo", [5.0])])
    own = metric(found, 0, "unfairness_percent")
    assert (own.change, own.p_worse) == (ChangeKind.UNCLEAR, None)
    assert not found.regressed
    assert not found.entries[0].regressed
    assert "though no cell behind it is worse by more than noise" in as_text(found)


def test_lower_utilisation_and_longer_delay_are_worse(compared: Callable[..., Comparison]) -> None:
    base = [{"aqm": "fifo", "l4s": [47.0, 47.1, 46.9], "classic": [47.0, 47.1, 46.9], "delay": 1.0}]
    new = [{"aqm": "fifo", "l4s": [40.0, 40.1, 39.9], "classic": [40.0, 40.1, 39.9], "delay": 3.0}]
    found = compared(base, new)
    assert metric(found, 0, "utilisation_percent").change is ChangeKind.WORSE
    assert metric(found, 0, "delay_ms of l4s").change is ChangeKind.WORSE
    assert metric(found, 0, "delay_ms of classic").change is ChangeKind.SAME
    assert metric(found, 0, "unfairness_percent").change is ChangeKind.SAME


def test_a_difference_within_the_margin_is_the_same(
    compared: Callable[..., Comparison], tmp_path: Path
) -> None:
    base = [cell("fifo", [47.0, 47.2, 46.9, 47.1])]
    new = [cell("fifo", [44.5, 44.6, 44.3, 44.4])]
    assert metric(compared(base, new), 0, "unfairness_percent").change is ChangeKind.SAME
    strict = tmp_path / "strict.yml"
    strict.write_text("margins: strict\nversion: 1\nmetrics: {unfairness_percent: {margin: 0.1}}\n")
    found = compared(base, new, strict)
    assert metric(found, 0, "unfairness_percent").change is ChangeKind.WORSE
    assert [m.metric for m in found.cells[0].metrics] == ["unfairness_percent"]


def test_cells_that_come_and_go(compared: Callable[..., Comparison]) -> None:
    base = [cell("fifo", [47.0, 47.0]), cell("codel", [47.0, 47.0]), cell("pie", [], status=["failed"])]
    new = [cell("fifo", [47.0, 47.0]), cell("codel", [], status=["failed", "invalid"]), cell("pie", [40.0])]
    found = compared(base, new)
    assert [c.presence for c in found.cells] == [Presence.BOTH, Presence.LOST, Presence.NEW]
    assert [c.regressed for c in found.cells] == [False, True, False]
    assert found.regressed
    assert "2 valid before; now 2 invalid or failed" in as_text(found)


@pytest.mark.long
def test_false_alarms_stay_below_the_rate(make: Make, tmp_path: Path) -> None:
    """Nothing changed and no margin hides it: an alarm in at most 5 % of comparisons, 200 of them."""
    margins = tmp_path / "none.yml"
    margins.write_text("margins: none\nversion: 1\nmetrics: {utilisation_percent: {margin: 0}}\n")
    draw = np.random.default_rng(20260102)
    values = draw.normal(47, 2, (2 * 200 * 4, 5)).tolist()
    every = make([{"aqm": "fifo", "l4s": own, "classic": [0.0] * 5} for own in values])
    trials, flows, catalog = (every.frame(name) for name in ("trials", "flows", "catalog"))
    folders = (tmp_path / "base", tmp_path / "new")
    for number, folder in enumerate(folders):
        # one half of the cells as the base, the other half under the same names as the new run
        named = {f"cell-{800 * number + place:04d}": f"cell-{place:04d}" for place in range(800)}
        for name, frame in (("trials", trials), ("flows", flows)):
            own = frame.filter(pl.col("cell").is_in(list(named)))
            own = own.with_columns(pl.col("cell").replace(named))
            tables.write(name, [own.lazy()], folder / f"{name}.parquet")
        tables.write("catalog", [catalog.lazy()], folder / "catalog.parquet")
    alarms = 0
    for number in range(200):
        chosen = frozenset(f"cell-{4 * number + place:04d}" for place in range(4))
        base, new = (RunTables(folder, chosen) for folder in folders)
        found = changes(base, new, load_margins(margins))
        alarms += any(cell.regressed for cell in found)
    # 3 sigma of a binomial above the rate
    assert alarms <= 200 * 0.05 + 3 * math.sqrt(200 * 0.05 * 0.95)


def test_runs_without_a_common_cell_are_an_input_error(make: Make, tmp_path: Path) -> None:
    one = make([cell("fifo", [47.0])])
    _ = one.trials
    other = make([cell("fifo", [47.0]), cell("codel", [47.0])])
    other = RunTables(other.folder, frozenset({"cell-0001"}))
    with pytest.raises(InputError, match="no cell in common"):
        compare(one, other, names=("a", "b"), margins=load_margins(), rule=load_rule("pam25"))


def test_junit_has_a_test_per_cell(compared: Callable[..., Comparison], tmp_path: Path) -> None:
    base = [cell("dualpi2", [47.0, 48.0, 46.5]), cell("fifo", [45.0, 45.5, 46.0]), cell("codel", [40.0])]
    new = [cell("dualpi2", [11.0, 12.0, 10.5]), cell("fifo", [45.1, 45.4, 46.1])]
    path = tmp_path / "compare.xml"
    path.write_text(as_junit(compared(base, new), "nightly"), encoding="utf-8")
    (suite,) = JUnitXml.fromfile(str(path))
    results = [[type(result) for result in case.result] for case in suite]
    assert results == [[Failure], [], [Skipped]]
    path.write_text(as_junit(compared(new, base), "nightly"), encoding="utf-8")
    *_, added = next(iter(JUnitXml.fromfile(str(path))))
    assert (added.result, added.system_out) == ([], "new: the base has no valid trial of this cell")


def test_verdicts_of_adaptive_runs_are_those_of_their_own_reports(
    compared: Callable[..., Comparison],
) -> None:
    """28 % is surely above 25 % by the interval of one look (from 25.5), not by one of three (from 23.6)."""
    steady, near = [cell("fifo", [45.0, 45.1, 45.2])], [cell("fifo", [27.0, 29.0, 28.0])]
    assert compared(steady, near, rule="l4sbench1").entries == ()
    (entry,) = compared(steady, near, rule="l4sbench1", looks=(3, 3)).entries
    assert (entry.base, entry.new) == (Word.OK, Word.UNDECIDED)


def test_json_holds_every_cell(compared: Callable[..., Comparison]) -> None:
    found = compared([cell("fifo", [45.0, 45.5])], [cell("fifo", [45.1, 45.4])])
    document = as_document(found)
    assert document["regressed"] is False
    assert isinstance(document["cells"], list)
    assert len(document["cells"]) == 1


def test_without_a_rule_numbers_are_side_by_side(compared: Callable[..., Comparison]) -> None:
    base = [cell("dualpi2", [47.0, 48.0, 46.5]), cell("fifo", [45.0, 45.5, 46.0])]
    new = [cell("dualpi2", [11.0, 12.0, 10.5]), cell("fifo", [45.1, 45.4, 46.1])]
    found = compared(base, new, rule=None)
    assert (found.rule, found.entries, found.undecidable) == (None, (), "")
    assert found.regressed, "metrics do not need a rule"
    differing = {(own.label, own.group, own.number) for own in found.numbers if own.differs}
    shares = ("goodput_mbps", "share_percent")
    assert differing == {("DualPI2", group, name) for group in ("l4s", "classic") for name in shares}
    share = next(own for own in found.numbers if (own.group, own.number) == ("l4s", "share_percent"))
    assert [share.base.value, share.new.value] == pytest.approx([47.17, 11.17], abs=0.01)
    text = as_text(found)
    assert re.search(r"\* +l4s +share_percent +47.17 \(45.27 to 49.06\) +-> +11.17 \(9.269 to 13.06\)", text)
    assert "equal in both runs: 4 numbers" in text, "delays"
    assert "Verdicts" not in text
    document: Any = as_document(found)
    assert document["rule"] is None
    assert len(document["numbers"]) == 12


def test_one_trial_and_equal_trials_are_no_chance(compared: Callable[..., Comparison]) -> None:
    one = compared([cell("fifo", [45.0])], [cell("fifo", [30.0])], rule=None)
    assert {own.p for own in one.numbers} == {None}
    assert not any(own.differs for own in one.numbers)
    equal = compared([cell("fifo", [45.0] * 3)], [cell("fifo", [44.0] * 3)], rule=None)
    assert {own.number for own in equal.numbers if own.differs} == {"goodput_mbps", "share_percent"}


def test_with_a_rule_cells_have_verdicts_too(compared: Callable[..., Comparison]) -> None:
    base, new = [cell("fifo", [45.0, 46.0]), cell("codel", [45.0])], [cell("fifo", [10.0, 11.0])]
    found = compared(base, new)
    assert [own.words for own in found.cells] == [(Word.OK, Word.L4S_STARVED), (Word.OK, None)]
    assert len(found.numbers) == 6
    assert "Side by side" not in as_text(found)


def test_cells_without_a_change_are_in_the_text_with_their_differences(
    compared: Callable[..., Comparison],
) -> None:
    base = [cell("dualpi2", [47.0, 48.0, 46.5]), cell("fifo", [20.0, 70.0, 45.0]), cell("codel", [45.0])]
    new = [cell("dualpi2", [47.1, 48.2, 46.5]), cell("fifo", [60.0, 15.0, 30.0]), cell("codel", [44.0])]
    text = as_text(compared(base, new))
    fifo, codel, dualpi2 = (line.split() for line in text.split("Neither worse")[1].splitlines()[2:5])
    assert fifo[:3] == ["?", "FIFO", "unfairness_percent"]
    assert re.fullmatch(r"\+3\.51 \(-[0-9.]+ to [0-9.]+\)", " ".join(fifo[5:])), "with its interval"
    assert codel == ["?", "CoDel", "(+ECN)", "unfairness_percent", "2.63", "3.68", "one", "trial"]
    assert dualpi2[:3] == ["=", "DualPI2", "unfairness_percent"]


def test_what_ran_distinguishes_the_sides(make: Make, tmp_path: Path) -> None:
    """Lab and commit are in the tables; the time of the run is in the name of its directory."""
    sides = []
    for lab, source in (("default", "linux-7.3.4.tar.xz"), ("mine", "kernel tree v7.3-2-gabc (Linux 7.3.4)")):
        made = make([cell("fifo", [45.0, 46.0])])
        facts = [
            {
                "cell": "cell-0000",
                "trial": 1,
                "node": "router",
                "kind": "kernel",
                "name": name,
                "value": value,
            }
            for name, value in (("release", "7.3.4"), ("lab", lab), ("source", source))
        ]
        write(made.folder, "hosts", facts)
        run = tmp_path / "runs" / lab / "20260102T030405Z"
        shutil.copytree(made.folder, run / "tables")
        sides.append(RunTables(run / "tables"))
    found = compare(*sides, names=("a", "b"), margins=load_margins(), rule=None)
    assert found.apart == ("lab", "kernel source")
    assert found.new.begun == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    text = as_text(found)
    assert "they differ in: lab, kernel source" in text
    assert "lab mine; Linux 7.3.4; kernel source kernel tree v7.3-2-gabc (Linux 7.3.4)" in text
    again = compare(sides[0], sides[0], names=("a", "b"), margins=load_margins(), rule=None)
    assert "both ran on the same testbed, kernel and modules" in as_text(again)
    itself = compare(sides[0], sides[0], names=("a", "a"), margins=load_margins(), rule=None)
    assert "both are the same run; `l4sbench run MATRIX --new` begins another one" in as_text(itself)


def test_a_verdict_that_was_not_ok_changes_without_excuses(compared: Callable[..., Comparison]) -> None:
    found = compared([cell("fifo", [15.0, 15.1, 15.2])], [cell("fifo", [94.0, 94.1, 94.2])])
    assert found.regressed
    assert "l4s-starved -> classic-starved" in as_text(found)
    assert "though no cell" not in as_text(found)
