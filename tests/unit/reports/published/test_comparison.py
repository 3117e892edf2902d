# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run beside the published cells."""

from __future__ import annotations

from typing import Any

import pytest

from l4sbench.errors import InputError
from reports.published import (
    StudyComparison,
    as_document,
    compare,
    difference_maps,
    markdown,
    printed_table,
    published_cells,
)
from reports.published.comparison import Errors
from tests.unit.reports.conftest import Make, measured


def like_published(against: str = "cubic") -> list[dict[str, Any]]:
    """A run that measured just what was published for Prague without fallback against a competitor."""
    wanted = {"l4s.cc": "prague", "classic.cc": against, "l4s.fallback": "off"}
    return [measured(cell, 3) for cell in published_cells() if wanted.items() <= cell.factors.items()]


def of(cells: list[dict[str, Any]], **factors: Any) -> dict[str, Any]:
    wanted = {name.replace("__", "."): value for name, value in factors.items()}
    return next(cell for cell in cells if all(cell[name] == value for name, value in wanted.items()))


def test_a_run_that_is_the_publication(make: Make) -> None:
    found = compare(make(like_published()))
    assert found.errors.cells == 2 * 9 * 5
    assert found.errors.mean_absolute == pytest.approx(0, abs=1e-9)
    assert (found.unrun, found.unmatched, found.trials) == (0, 0, (3, 3))
    assert not any(pair.changes_side for pair in found.pairs)


def test_a_congestion_control_without_a_fallback_has_it_off(make: Make) -> None:
    cells = like_published()
    for cell in cells:
        del cell["l4s.fallback"]
    assert len(compare(make(cells)).pairs) == 90


def test_differences_and_sides(make: Make) -> None:
    cells = like_published()
    fair = of(cells, aqm="fifo", buffer_bdp=1.0, classic__ecn="off")
    fair["l4s"] = [fair["l4s"][0] + 9] * 3
    starving = of(cells, aqm="fifo", buffer_bdp=4.0, classic__ecn="off")
    starving["l4s"] = [5.0, 6.0, 7.0]
    found = compare(make(cells))

    errors = [9.0, abs(6 - published_of("fifo", 4.0, "off"))]
    assert found.errors.mean_absolute == pytest.approx(sum(errors) / 90)
    (changed,) = found.changed(near_limit=False)
    assert (changed.queue, changed.place[1].value, changed.percent) == ("FIFO", 4.0, 6.0)
    by_queue = {queue: Errors.of(pairs) for queue, pairs in found.by(lambda pair: pair.queue).items()}
    assert by_queue["FIFO"].largest == pytest.approx(max(errors))
    assert by_queue["DualPI2"].mean_absolute == pytest.approx(0, abs=1e-9)


def published_of(aqm: str, buffer: float, ecn: str) -> float:
    cell = of(like_published(), aqm=aqm, buffer_bdp=buffer, classic__ecn=ecn)
    return float(cell["l4s"][0])


def test_cells_published_near_a_limit_stand_apart(make: Make) -> None:
    cells = like_published("bbr2")
    near = [c for c in cells if any(abs(c["l4s"][0] - limit) <= 5 for limit in (20, 80))]
    assert near, "some published cells are near a limit"
    for cell in near:
        cell["l4s"] = [50.0]
        cell["classic"] = [45.0]
    found = compare(make(cells))
    assert not found.changed(near_limit=False)
    outside = [c for c in like_published("bbr2") if 15 <= c["l4s"][0] < 20 or 80 < c["l4s"][0] <= 85]
    assert len(found.changed(near_limit=True)) == len(outside) > 0


def test_what_is_not_compared_is_counted(make: Make) -> None:
    cells = like_published()[:-4]
    cells.append({"aqm": "red", "l4s": [1], "classic": [1]})
    cells.append({"aqm": "fifo", "buffer_bdp": 3.0, "l4s": [1], "classic": [1]})
    found = compare(make(cells))
    assert (len(found.pairs), found.unrun, found.unmatched, found.invalid) == (86, 4, 2, 0)


def test_a_cell_without_a_valid_trial_was_published_and_run(make: Make) -> None:
    *cells, last = like_published()
    found = compare(make([*cells, last | {"status": ["invalid"] * 3}]))
    assert (len(found.pairs), found.unrun, found.unmatched, found.invalid) == (89, 0, 0, 1)
    with pytest.raises(InputError, match="has a valid trial"):
        compare(make([last | {"status": ["invalid"] * 3}]))
    assert "0 cells of the run that were not published, 1 without a valid trial, 0 published" in markdown(
        found, "l4sbench report"
    )


def test_nothing_in_common(make: Make) -> None:
    with pytest.raises(InputError, match="no cell of the run was published"):
        compare(make([{"aqm": "fifo", "rate_mbps": 10.0, "l4s": [5], "classic": [4]}]))


def test_other_names_of_the_groups(make: Make) -> None:
    tables = make(like_published())
    with pytest.raises(InputError, match="flow group new"):
        compare(tables, l4s="new")


def test_errata_stand_beside_what_they_touch(make: Make) -> None:
    assert "10,000 packets" in markdown(compare(make(like_published())), "make")
    fifo = [cell for cell in like_published() if cell["aqm"] == "fifo"]
    assert "errata" not in markdown(compare(make(fifo)), "make")


def test_the_page(make: Make) -> None:
    cells = like_published()
    of(cells, aqm="fifo", buffer_bdp=4.0, classic__ecn="off")["l4s"] = [5.0]
    comparison = compare(make(cells))
    page = markdown(comparison, "l4sbench run published/pam25")
    assert "Made by `l4sbench run published/pam25`." in page
    assert "- 90 cells, 1 to 3 trials each, 60 s, kernel 7.3.4" in page
    assert "**1**; published near a limit: 0 more" in page
    assert "| FIFO | 4 | CUBIC | off | 5.0 |" in page
    assert "### Prague against CUBIC, ECN classic" in page
    assert "| FIFO | 0.5 | 40.4 / 40.4 |" in page
    assert "+0.0" in page
    assert "-0.0" not in page
    assert isinstance(comparison, StudyComparison)


def test_a_run_like_the_published_one_agrees_with_all_printed_verdicts(make: Make) -> None:
    comparison = compare(make([*like_published(), *like_published("bbr1")]))
    assert comparison.rank_correlation == pytest.approx(1)
    known = [entry for entry in comparison.entries if entry.agrees is not None]
    assert len(known) == 8
    differing = [(e.printed.row, e.printed.column) for e in known if not e.agrees]
    assert differing == [("Fair queuing", "BBRv1")]
    text = markdown(comparison, "l4sbench run x")
    assert "ours agree in **7 of 8** entries" in text
    assert "FQ at 0.5 and 1 BDP" in text


def test_printed_verdicts_without_cells_are_shown_as_printed(make: Make) -> None:
    comparison = compare(make(like_published()))
    without = [e for e in comparison.entries if e.published_ok is None]
    assert {e.printed.column for e in without} == {"BBRv3"}
    assert "not available: as printed | not run" in markdown(comparison, "l4sbench run x")


def test_anrw24_has_its_own_queues_rule_and_errata(make: Make) -> None:
    comparison = compare(make(like_published()), "anrw24")
    assert {pair.published.factors["aqm"] for pair in comparison.pairs} == {
        "fifo",
        "fifo-ecn",
        "codel",
        "fq",
        "fq-codel",
        "dualpi2",
    }
    assert comparison.unmatched > 0
    assert all(entry.agrees for entry in comparison.entries)
    document = as_document(comparison)
    assert (document["study"], document["rule"]) == ("anrw24", "anrw24")
    dualpi2 = next(e for e in comparison.entries if e.printed.row == "DualPI2")
    assert any("10,000 packets" in erratum.text for erratum in dualpi2.errata)


def test_a_verdict_on_some_of_the_cells_says_how_many(make: Make) -> None:
    cells = [cell for cell in like_published() if cell["buffer_bdp"] == 4.0]
    comparison = compare(make(cells))
    assert all(entry.partial for entry in comparison.entries if entry.agrees is not None)
    assert "| 6 of 30 |" in markdown(comparison, "l4sbench run x")


def test_maps_show_ours_minus_published(make: Make) -> None:
    cells = like_published()
    of(cells, aqm="fifo", buffer_bdp=1.0, classic__ecn="off")["l4s"] = [50.9] * 3
    text = markdown(compare(make(cells)), "l4sbench run x").split("## Ours minus published")[1]
    without_ecn = text.split("### Prague against CUBIC, ECN off")[1]
    row = next(line for line in without_ecn.splitlines() if line.startswith("| FIFO |"))
    assert row.split("|")[2:4] == [" +0.0 ", " +5.0 "]


def test_sides_are_those_of_the_studys_own_limits(make: Make) -> None:
    cells = like_published()
    fifo = of(cells, aqm="fifo", buffer_bdp=4.0, classic__ecn="off")
    fifo["l4s"] = [21.0] * 3
    assert not compare(make(cells), "pam25").changed(near_limit=False)
    comparison = compare(make(cells), "anrw24")
    assert [pair.queue for pair in comparison.changed(near_limit=False)] == ["FIFO"]
    assert "change sides of 23 or 77 %" in markdown(comparison, "l4sbench run x")


def test_a_difference_that_an_erratum_explains_says_so(make: Make) -> None:
    about = {"l4s.fallback": "on", "classic.ecn": "classic"}
    cells = [
        about | {"aqm": "dualpi2", "buffer_bdp": b, "l4s": [43.7], "classic": [50.0]}
        for b in (0.5, 1.0, 2.0, 4.0, 8.0)
    ]
    comparison = compare(make(cells), "anrw24")
    assert comparison.agreeing == (0, 1, 1)
    text = markdown(comparison, "l4sbench run x")
    assert "agree in **0 of 1** entries; 1 more differ as an erratum says." in text
    assert "ok (**differs** as the erratum says)" in text
    entry = as_document(comparison)["entries"][0]  # type: ignore[index]
    assert (entry["printed_ok"], entry["ours_ok"], entry["corrected_ok"]) == (False, True, True)

    for cell in cells:
        cell["l4s"] = [8.6]
    starved = compare(make(cells), "anrw24")
    assert starved.agreeing == (1, 0, 1), "the error itself, repeated"


def test_maps_have_a_place_per_queue_and_buffer(make: Make) -> None:
    cells = [cell for cell in like_published() if (cell["aqm"], cell["buffer_bdp"]) != ("fifo", 8.0)]
    of(cells, aqm="fifo", buffer_bdp=4.0, classic__ecn="off")["l4s"] = [5.0] * 3
    off, classic = sorted(
        difference_maps(compare(make(cells))), key=lambda own: own.panels[0].about, reverse=True
    )
    assert (off.panels[0].about, classic.panels[0].about) == (
        "Prague against CUBIC, ECN off",
        "Prague against CUBIC, ECN classic",
    )
    assert [buffer.value for buffer in off.columns] == [0.5, 1.0, 2.0, 4.0, 8.0]
    places = {str(row): places for row, places in off.lines()}["FIFO"]
    assert places[4] is None
    assert places[3] is not None
    assert places[3].changes_side
    assert places[3].percent == pytest.approx(5 - published_of("fifo", 4.0, "off"))


def test_a_study_of_rates_and_round_trips_without_a_printed_table(make: Make) -> None:
    cells = [measured(cell, 2) for cell in printed_table("replication").published]
    found = compare(make(cells), "replication")
    assert found.entries == ()
    assert found.errors.cells == 72
    assert found.errors.mean_absolute == pytest.approx(0, abs=1e-9)
    assert set(found.pairings) == {
        f"Prague, fallback on as {scaling}, against {competitor}"
        for scaling in ("specified", "published")
        for competitor in ("CUBIC, ECN classic", "BBRv2, ECN off")
    }
    own = difference_maps(found)[0]
    assert [column.text for column in own.columns] == ["rate 4 Mbit/s", "rate 16 Mbit/s", "rate 64 Mbit/s"]
    assert [str(row) for row in own.rows] == [
        f"{queue}, rtt {rtt} ms" for queue in ("CoDel (+ECN)", "DualPI2") for rtt in (4, 16, 64)
    ]
    text = markdown(found, "l4sbench run it")
    assert "| queue | rate, Mbit/s | competitor | ECN |" in text or "None." in text
    assert "Known errata" not in text
    assert "Printed verdicts" not in text


def test_a_run_of_another_path_learns_which_paths_were_published(make: Make) -> None:
    cells = [measured(cell, 2) for cell in printed_table("replication").published]
    for cell in cells:
        cell["rtt_ms"] = 5.0
    with pytest.raises(InputError) as caught:
        compare(make(cells), "replication")
    assert str(caught.value) == (
        "no cell of the run was published in replication; "
        "published are buffer_bdp 8; rate_mbps 4, 16, 64; rtt_ms 4, 16, 64"
    )
