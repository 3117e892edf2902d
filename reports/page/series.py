# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Time series of every trial, one script per cell beside the page, which loads it when the cell is shown.

A page that was opened from disk may not fetch a file, but it may load a script. What is drawn, and how, is
decided in `reports.figures`; the page exchanges the rows of its specifications.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import astuple
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk.plain import is_plain, open_plain

if TYPE_CHECKING:
    import polars as pl

    from reports.figures import TrialSeries
    from reports.result.load import RunTables

ROWS_AT_ONCE: Final = 50_000
"""Samples of sockets that are in memory together; whole cells."""

_BLOCK_BYTES: Final = 1 << 20

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
    from reports.figures import series_of
    from reports.figures.style import config

    specifications, numbers = _Specifications(), _Numbers()
    for part in tables.parts("sockets", ROWS_AT_ONCE):
        found: dict[str, list[str]] = {}
        for series in series_of(part, part.trials):
            own = _script(series, specifications.place(series), numbers)
            found.setdefault(series.cell, []).append(f'"{series.trial}":{own}')
        for cell, trials in found.items():
            yield cell, f"l4sbenchSeries({_json(cell)},{{{','.join(trials)}}});\n"
    known = {"specs": specifications.specs, "configs": {"light": config("light"), "dark": config("dark")}}
    yield SPECIFICATIONS, f"l4sbenchSpecifications({_json(known)});\n"


def digest(tables: RunTables) -> str:
    """Return a digest that changes with the tables and with the code, on which `scripts` depends."""
    found = hashlib.sha256(_json(sorted(tables.cells or ())).encode())
    # by its path, as importing it takes longer than all the rest of a page whose series are there already
    figures = Path(__file__).parents[1] / "figures"
    own = [Path(__file__), figures / "series.py", figures / "programs.py"]
    parts = ("trials", "flows", "sockets", "qlog", "queues", "events", "catalog")
    for path in (*(tables.folder / f"{name}.parquet" for name in parts), *own):
        if not is_plain(path):
            found.update(b"0\n")
            continue
        with open_plain(path) as file:
            found.update(b"%d\n" % os.fstat(file.fileno()).st_size)
            while content := file.read(_BLOCK_BYTES):
                found.update(content)
    return found.hexdigest()[:12]


class _Specifications:
    """The charts' specifications without rows, each kept once, as making one takes a while."""

    def __init__(self) -> None:
        self.specs: list[object] = []
        self._places: dict[object, int] = {}

    def place(self, series: TrialSeries) -> int:
        """Return the index of the specification for such a series."""
        queues = tuple(sorted(set(series.queue["queue"].to_list())))
        panels = tuple(
            (panel.title, panel.words, panel.lines, panel.groups, panel.flat) for panel in series.panels
        )
        key = (series.groups, series.end_s, series.warmup_s, series.bin_ms, queues, series.flat, panels)
        if key not in self._places:
            from altair.utils.schemapi import debug_mode

            from reports.figures import time_series

            with debug_mode(False):  # no checks against Vega-Lite's schema, which tests do
                plain = time_series(series).to_dict(validate=False)
            kept = {name: plain[name] for name in ("$schema", "vconcat")}
            self._places[key] = len(self.specs)
            self.specs.append(kept | {"bin_ms": series.bin_ms})
        return self._places[key]


def _script(series: TrialSeries, spec: int, numbers: _Numbers) -> str:
    """Return a trial's series as JSON. Most of a report's time goes here: a line has 300 points."""
    from reports.figures import named_panels

    state = ",".join(
        f"{_json(name)}:{_columns(panel.rows, numbers)}" for name, panel in named_panels(series).items()
    )
    return (
        f'{{"spec":{spec},"flows":{_columns(series.flows, numbers)},"queue":{_columns(series.queue, numbers)}'
        f',"fair":{_json([astuple(share) for share in series.fair])},"state":{{{state}}}}}'
    )


def _columns(frame: pl.DataFrame, numbers: _Numbers) -> str:
    """Return numbers as they are, words as runs `[word, count]`: rows are sorted by them."""
    found = []
    for column in frame:
        if column.dtype.is_float():
            # + 0.0 makes zeros of negative zeros, which are the same key
            values = ",".join(map(numbers.__getitem__, (column + 0.0).to_list()))
        elif column.dtype.is_numeric():
            values = ",".join(map(_json, column.to_list()))
        else:
            runs = groupby(column.to_list())
            values = ",".join(f"[{_json(word)},{len(list(run))}]" for word, run in runs)
        found.append(f"{_json(column.name)}:[{values}]")
    return f"{{{','.join(found)}}}"


class _Numbers(dict[float | None, str]):
    """Floats as JSON, as charts show them: few differ, so each is formatted once."""

    def __missing__(self, number: float | None) -> str:
        if len(self) > _MOST_NUMBERS:
            self.clear()
        short = None if number is None else float(f"{number:.{_FIGURE}g}")
        text = self[number] = _json(short)
        return text


_MOST_NUMBERS: Final = 100_000


def _json(plain: object) -> str:
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
