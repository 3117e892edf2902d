# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The matrices of the published tables have the cells of every entry, with ids that do not change unseen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from l4sbench.app.api import load_matrix
from l4sbench.facts.factors import column_of
from reports.published import compare, printed_table, published_cells
from reports.result.load import RunTables
from tests.unit.reports.conftest import measured

WITHOUT_FALLBACK = {"l4s.fallback": "off"}
"""The value for congestion controls that do not have the factor."""

IDS = {
    "pam25": {
        "fifo_1bdp_100mbit_10ms_cubic_prague_host-vm-79dc156e91",
        "fifo-ecn_2bdp_100mbit_10ms_bbr2.classic_prague_aqm.form-literal_host-vm-5081911dd2",
        "fifo_1bdp_100mbit_10ms_bbr2_bbr2-l4s_host-vm-eb56769c92",
        "fifo_2bdp_100mbit_10ms_bbr3_prague_host-vm-8c8b6ff45a",
    },
    "anrw24": {
        "fifo_1bdp_100mbit_10ms_cubic_prague_host-vm-79dc156e91",
        "fifo-ecn_2bdp_100mbit_10ms_bbr2.classic_prague_aqm.form-literal_host-vm-5081911dd2",
    },
}


def factors(matrix: str) -> list[dict[str, object]]:
    """Return the factors of a matrix's cells as columns of table `trials`."""
    cells = load_matrix(matrix).cells
    return [WITHOUT_FALLBACK | dict(column_of(*factor) for factor in cell.factors.items()) for cell in cells]


@pytest.mark.parametrize("study", ["pam25", "anrw24"])
def test_every_printed_entry_has_cells(study: str) -> None:
    cells = factors(study)
    for entry in printed_table(study).entries:
        assert any(entry.covers(cell) for cell in cells), entry


@pytest.mark.parametrize(
    ("study", "beside"), [("pam25", {}), ("anrw24", {"l4s.cc": "prague"}), ("replication", {})]
)
def test_every_published_cell_is_in_a_matrix(study: str, beside: Mapping[str, str]) -> None:
    named = {"pam25": ("pam25", "pam25-fallback")}.get(study, (study,))
    cells = [cell for matrix in named for cell in factors(matrix)]
    published = printed_table(study).published
    wanted = {cell.key for cell in published if beside.items() <= cell.factors.items()}
    if study == "anrw24":  # this study has neither two-sided ECN nor L4S-BBRv2
        wanted = {key for key in wanted if "dctcp" not in key}
    names = tuple(published[0].factors)
    assert wanted <= {tuple(cell.get(name, "specified") for name in names) for cell in cells}


@pytest.mark.parametrize("study", IDS)
def test_ids_of_cells_stay(study: str) -> None:
    assert IDS[study] <= {cell.id for cell in load_matrix(study).cells}


def test_a_run_of_all_cells_is_beside_all_56_entries(make: Callable[[Any], RunTables]) -> None:
    """40 and 16; against BBRv3 nothing is published, and ours are shown."""
    cells = [measured(cell) for cell in published_cells()]
    bbr3 = {"classic.cc": "bbr3", "classic.ecn": "dctcp", "l4s": [50.0], "classic": [45.0]}
    queues = sorted({str(cell.factors["aqm"]) for cell in published_cells()})
    cells += [{**bbr3, "l4s.cc": l4s, "aqm": aqm} for l4s in ("prague", "bbr2-l4s") for aqm in queues]
    tables = make(cells)
    found = {study: compare(tables, study).entries for study in ("pam25", "anrw24")}
    assert {study: len(entries) for study, entries in found.items()} == {"pam25": 40, "anrw24": 16}
    assert all(entry.ok is not None for entries in found.values() for entry in entries)
    differing = [e.printed for e in found["pam25"] if not e.agrees and e.published_ok is not None]
    assert [(e.l4s, e.row, e.column) for e in differing] == [("prague", "Fair queuing", "BBRv1")]
    assert all(entry.agrees for entry in found["anrw24"])
