# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Published data: names, and printed decision tables against the published cells they were made from."""

from __future__ import annotations

import pytest

from l4sbench.catalog import Catalog
from l4sbench.errors import InputError
from reports.published import FACTORS, PrintedEntry, PublishedCell, errata, printed_table, published_cells
from reports.result.rules import load_rule


def test_published_cells() -> None:
    cells = published_cells()
    assert len(cells) == len({cell.key for cell in cells}) == 630
    wanted = {
        "aqm": "codel",
        "buffer_bdp": 2.0,
        "l4s.cc": "prague",
        "classic.cc": "cubic",
        "classic.ecn": "off",
    }
    (headline,) = (cell for cell in cells if wanted.items() <= cell.factors.items())
    assert headline.l4s_mbps == pytest.approx(88.2, abs=0.05)
    assert headline.classic_mbps == pytest.approx(6.6, abs=0.05)


def test_published_names_are_ours() -> None:
    cells = published_cells()
    assert {cell.factors["aqm"] for cell in cells} <= set(Catalog.load().queues)
    assert {cell.factors["classic.ecn"] for cell in cells} <= {"off", "classic", "accecn", "dctcp"}
    for erratum in errata():
        assert set(erratum.match) <= set(FACTORS), erratum


def disagreeing(study: str, low: float, high: float) -> list[PrintedEntry]:
    """Entries that any-cell limits on the published cells do not give; those without cells aside."""
    found = []
    for entry in printed_table(study).entries:
        own = behind(entry)
        if own and entry.ok != all(low <= cell.l4s_mbps <= high for cell in own):
            found.append(entry)
    return found


def behind(entry: PrintedEntry) -> list[PublishedCell]:
    return [cell for cell in published_cells() if entry.covers(cell.factors)]


def limits(study: str) -> tuple[float, float]:
    own = load_rule(printed_table(study).rule).limits_percent
    return own.low, own.high


def test_the_rule_of_anrw24_gives_all_sixteen_entries_and_other_limits_do_not() -> None:
    assert len(printed_table("anrw24").entries) == 16
    assert disagreeing("anrw24", *limits("anrw24")) == []
    assert disagreeing("anrw24", 20, 80) != []
    assert disagreeing("anrw24", 25, 75) != []


def test_the_rule_of_pam25_gives_every_entry_with_cells_but_the_stated_one() -> None:
    found = disagreeing("pam25", *limits("pam25"))
    assert [(entry.l4s, entry.row, entry.column) for entry in found] == [("prague", "Fair queuing", "BBRv1")]
    assert all(entry.exception for entry in found)


def test_exceptions_name_entries_of_the_table() -> None:
    stated = [entry for entry in printed_table("pam25").entries if entry.exception]
    assert [(entry.column, entry.ok) for entry in stated] == [("BBRv1", True), ("BBRv3", True)]


def test_entries_without_published_cells_are_those_against_bbr3() -> None:
    without = {entry.column for entry in printed_table("pam25").entries if not behind(entry)}
    assert without == {"BBRv3"}


def test_stars_are_printed_for_dualpi2() -> None:
    entries = printed_table("pam25").entries
    stars = {(entry.row, entry.column) for entry in entries if entry.star == "all"}
    assert stars == {("DualPI2", "CUBIC"), ("DualPI2", "BBRv2, one-sided ECN")}
    assert {entry.row for entry in entries if entry.star == "some"} == {"Fair queuing"}


def test_an_unknown_study_is_an_input_error() -> None:
    with pytest.raises(InputError, match="pam26 is not a published study"):
        printed_table("pam26")
