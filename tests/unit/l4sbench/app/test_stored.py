# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run directory to read from: what filters choose has the same numbers as in the whole run."""

from __future__ import annotations

from pathlib import Path

from l4sbench.app import api
from tests.unit.l4sbench import small
from tests.unit.reports.conftest import DEFAULTS, FIXED, catalog_rows, write

TRIALS = {"fifo": 4, "codel": 2}


def test_filters_change_no_interval(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path, "  aqm: [fifo, codel]\n", trials="2")
    run = small.new_run(tmp_path / "runs", wanted)
    trials, flows = [], []
    for cell in sorted(wanted.cells, key=lambda cell: cell.id):
        for trial in range(1, TRIALS[cell.aqm] + 1):
            key = {"cell": cell.id, "trial": trial}
            about = {"status": "ok", "seed": "1", "inputs": "i", "folder": f"{trial}-i", "testbed": "virtual"}
            made_by = {"kernels": ["7.3.4"], "modules": ["tcp_prague=ABC"]}
            trials.append(key | FIXED | DEFAULTS | {"aqm": cell.aqm} | about | made_by)
            for group in cell.group_names:
                got = {"goodput_mbps": 40.0 + trial, "goodput_whole_mbps": 40.0, "srtt_minus_base_ms": 5.0}
                of_flow = {"flow": f"{group}-0", "group": group, "cc": "x", "sender": "a", "receiver": "b"}
                flows.append(key | of_flow | {"start_ms": 0.0, "seconds": 60.0} | got)
    tables = {"trials": trials, "flows": flows, "intervals": [], "sockets": [], "catalog": catalog_rows()}
    run.tables.mkdir()
    for name, rows in tables.items():
        write(run.tables, name, rows)

    def interval(*filters: str) -> tuple[float, float]:
        frame = api.decide(run.path, *filters).frame()
        (fifo,) = [row for row in frame.to_dicts() if row["trials"] == TRIALS["fifo"]]
        return fifo["worst_low_percent"], fifo["worst_high_percent"]

    assert interval() == interval("aqm=fifo")
