# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Tables of runs that never were: every test says what its cells got."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from l4sbench import tables
from l4sbench.catalog import Catalog
from reports.published import PublishedCell
from reports.result.load import RunTables, load
from reports.result.verdicts import Decision, Verdict

Make = Callable[[Sequence[Mapping[str, Any]]], RunTables]

FIXED = {"rate_mbps": 100.0, "rtt_ms": 10.0, "duration_s": 60.0, "l4s.cc": "prague", "l4s.ecn": "accecn"}
DEFAULTS = {
    "buffer_bdp": 1.0,
    "classic.cc": "cubic",
    "classic.ecn": "off",
    "l4s.count": 1,
    "classic.count": 1,
}


def entry(decision: Decision, question: str, row: str, column: str) -> Verdict | None:
    """Return an entry of a decision table by the texts of its labels; None where it has none."""
    place = (question, row, column)
    return next((v for v in decision.verdicts if (str(v.question), v.row, str(v.column)) == place), None)


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    frame = pl.DataFrame(rows, infer_schema_length=None) if rows else tables.empty(name)
    tables.write(name, [tables.conform(name, frame).lazy()], folder / f"{name}.parquet")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Cells: maps of factors, `l4s` and `classic` (Mbit/s per trial), `delay` (ms), `status` (per trial)."""

    def build(cells: Sequence[Mapping[str, Any]]) -> RunTables:
        trials: list[dict[str, Any]] = []
        flows: list[dict[str, Any]] = []
        for number, cell in enumerate(cells):
            got = {"l4s": [], "classic": [], "delay": 5.0, "status": [], **cell}
            factors = {
                name: value
                for name, value in got.items()
                if name in {"aqm", "lab"} or "." in name or "_" in name
            }
            own = FIXED | DEFAULTS | factors
            own = {name: value for name, value in own.items() if value is not None}
            count = max(len(got["l4s"]), len(got["status"]), 1)
            status = [*got["status"], *["ok"] * (count - len(got["status"]))]
            for trial in range(1, count + 1):
                key = {"cell": f"cell-{number:04d}", "trial": trial}
                about = {"status": status[trial - 1], "seed": "1", "inputs": "i", "folder": f"{trial}-i"}
                about |= {"kernels": ["7.3.4"], "testbed": "virtual", "modules": ["tcp_prague=ABC"]}
                about["reasons"] = None if about["status"] == "ok" else "the apparatus was wrong"
                trials.append(key | own | about)
                if about["status"] != "ok":
                    continue
                for group in (name for name in ("l4s", "classic") if f"{name}.cc" in own):
                    goodput = float(got[group][trial - 1])
                    delays = got["delay"] if isinstance(got["delay"], list) else [got["delay"]] * count
                    delay = delays[trial - 1] if group == "l4s" else 7.0
                    flows.append(
                        key
                        | {"flow": f"{group}-0", "group": group, "cc": "x", "sender": "a", "receiver": "b"}
                        | {"start_ms": 0.0, "seconds": 60.0}
                        | {
                            "goodput_mbps": goodput,
                            "goodput_whole_mbps": goodput,
                            "srtt_minus_base_ms": delay,
                        }
                    )
        folder = tmp_path / "tables"
        write(folder, "trials", trials)
        write(folder, "flows", flows)
        for name in ("intervals", "sockets"):
            write(folder, name, [])
        write(folder, "catalog", catalog_rows())
        return load(tmp_path)

    return build


def measured(cell: PublishedCell, trials: int = 1) -> dict[str, Any]:
    """A published cell as a run's, for `make`: as if every trial had got the published means."""
    goodputs = {"l4s": [cell.l4s_mbps] * trials, "classic": [cell.classic_mbps] * trials}
    return {**cell.factors, **goodputs, "delay": cell.delay_ms}


@cache
def catalog_rows() -> list[dict[str, Any]]:
    catalog = Catalog.load()
    rest = {"about": "about", "digest": "d"}
    rows: list[dict[str, Any]] = [
        {"kind": "queue", "name": name, "label": q.label, "family": q.family, "l4s": q.l4s, **rest}
        for name, q in catalog.queues.items()
    ]
    rows += (
        {"kind": "cc", "name": name, "label": cc.label, "family": None, "l4s": cc.l4s, **rest}
        for name, cc in catalog.congestion_controls.items()
    )
    return rows
