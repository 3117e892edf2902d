# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Time series of every trial, one script per cell beside the page, which loads it when the cell is shown.

A page that was opened from disk may not fetch a file, but it may load a script. What is drawn, and how, is
decided in `reports.figures`; the page exchanges the rows of its specifications.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from l4sbench.errors import InputError
from l4sbench.plain import is_plain, read_plain
from reports.result.load import HeldTables

if TYPE_CHECKING:
    import polars as pl

    from reports.figures import TrialSeries
    from reports.result.load import RunTables

CELLS_AT_ONCE: Final = 20
"""Cells whose samples are in memory together."""

SPECIFICATIONS: Final = "specifications"
"""Name of the script with the charts' specifications; no cell's id, as these have a hash."""

_FIGURE: Final = 4
"""Significant figures that a chart shows."""


def scripts(tables: RunTables) -> Iterator[tuple[str, str]]:
    """Yield every script by its name: one per cell that has series, then that of the specifications.

    A cell's calls `l4sbenchSeries(cell, {trial: {spec, flows, queue, fair, state}})`: `flows` and `queue` are
    the columns of `TrialSeries`, `state` those of its panels by the names of their data sets. `spec` is the
    place of the trial's specification in what the last script hands to
    `l4sbenchSpecifications({specs, configs: {light, dark}})`.
    """
    from reports.figures import named_panels, trial_series
    from reports.figures.style import config

    specifications = _Specifications()
    cells = tables.trials["cell"].unique(maintain_order=True).to_list()
    for start in range(0, len(cells), CELLS_AT_ONCE):
        held = HeldTables(tables.folder, frozenset(cells[start : start + CELLS_AT_ONCE]))
        found: dict[str, dict[int, object]] = {}
        for cell, trial in held.trials.select("cell", "trial").iter_rows():
            try:
                series = trial_series(held, cell, trial)
            except InputError:
                continue  # not valid, or nothing was sampled: the page reports it
            found.setdefault(cell, {})[trial] = {
                "spec": specifications.place(series),
                "flows": _columns(series.flows),
                "queue": _columns(series.queue),
                "fair": _short(series.fair_mbps),
                "state": {name: _columns(panel.rows) for name, panel in named_panels(series).items()},
            }
        for cell, trials in found.items():
            yield cell, f"l4sbenchSeries({_json(cell)},{_json(trials)});\n"
    known = {"specs": specifications.specs, "configs": {"light": config("light"), "dark": config("dark")}}
    yield SPECIFICATIONS, f"l4sbenchSpecifications({_json(known)});\n"


def digest(tables: RunTables) -> str:
    """Return a digest that changes with the tables and with the code, on which `scripts` depends."""
    from reports.figures import series

    found = hashlib.sha256(_json(sorted(tables.cells or ())).encode())
    own = [Path(__file__), Path(series.__file__)]
    for path in (
        *(tables.folder / f"{name}.parquet" for name in ("trials", "sockets", "queues", "catalog")),
        *own,
    ):
        content = read_plain(path) if is_plain(path) else b""
        found.update(b"%d\n" % len(content))
        found.update(content)
    return found.hexdigest()[:12]


class _Specifications:
    """The charts' specifications without rows, each kept once, as making one takes a while."""

    def __init__(self) -> None:
        self.specs: list[object] = []
        self._places: dict[object, int] = {}

    def place(self, series: TrialSeries) -> int:
        """Return the index of the specification for such a series."""
        from reports.figures import time_series

        queues = tuple(series.queue["queue"].unique().sort())
        panels = tuple((panel.title, panel.words, panel.lines, panel.flat) for panel in series.panels)
        key = (series.groups, series.end_s, series.warmup_s, series.bin_ms, queues, series.flat, panels)
        if key not in self._places:
            plain = time_series(series).to_dict()
            kept = {name: plain[name] for name in ("$schema", "vconcat")}
            self._places[key] = len(self.specs)
            self.specs.append(kept | {"bin_ms": series.bin_ms})
        return self._places[key]


def _columns(frame: pl.DataFrame) -> dict[str, list[object]]:
    """Return numbers as they are, words as runs `[word, count]`: rows are sorted by them."""
    found: dict[str, list[object]] = {}
    for name in frame.columns:
        values = frame[name].to_list()
        if frame[name].dtype.is_numeric():
            found[name] = [_short(value) for value in values]
        else:
            found[name] = [[word, sum(1 for _ in run)] for word, run in groupby(values)]
    return found


def _short(value: Any) -> Any:
    return float(f"{value:.{_FIGURE}g}") if isinstance(value, float) else value


def _json(plain: object) -> str:
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
