# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Data files of flent, which `send: flent` leaves -> table `flent`.

A file is found by its title, the flow's name: flent puts the time into the names of files. Its `raw_values`
are what its tools reported, at their own instants; `results` are the same at common steps, and for series
without the former they are taken (flent's `resultset.py`, versions 3 and 4).
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from collectors.collector import BadRawError, Collector, Rows
from collectors.reader import FlowResult, Reader
from collectors.result import Result
from l4sbench.disk.plain import open_plain
from l4sbench.disk.userfiles import short
from l4sbench.traffic.flent import FLENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from l4sbench.program import FlowRun, Program
    from l4sbench.program.trial import EndedTrial

PATTERN: Final = "*.flent.gz"
_MOST_BYTES: Final = 256 << 20
_VERSIONS: Final = (3, 4)
_DAMAGED: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""Errors that values of other kinds, integers too large for a float, and endless nesting lead to."""


@dataclass(frozen=True)
class FlentTest:
    """One run of a test.

    Attributes:
        result: How long it ran.
        points: Name of the series, ms since the test's start, value; in order of time.
        units: Of the series that have one, by name.
    """

    result: Result
    points: tuple[tuple[str, float, float], ...]
    units: Mapping[str, str]


class FlentReader(Reader):
    """Reads tests of flent, of which the tables of flows know how long they ran."""

    send = FLENT

    def read(self, programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str) -> FlowResult:
        """Return how long a test ran; it has no receiver whose figures count."""
        del programs
        try:
            return FlowResult(run, node, read_test(raw / node, run.flow).result, None, ())
        except BadRawError as error:
            return FlowResult(run, node, None, None, (replace(error.fault, at=run.flow),))


def parse_flent(trial: EndedTrial) -> Rows | None:
    """Return table `flent`; None in trials without a test of flent."""
    rows: Rows = []
    for node, program in trial.programs.items():
        for run in program.flows:
            if run.send != FLENT:
                continue
            test = read_test(trial.raw / node, run.flow)
            numbers: dict[str, int] = {}
            for series, t_ms, value in test.points:
                numbers[series] = numbers.get(series, 0) + 1
                rows.append(
                    {
                        "flow": run.flow,
                        "series": series,
                        "point": numbers[series],
                        "group": run.group,
                        "t_ms": t_ms,
                        "value": value,
                        "unit": test.units.get(series),
                    }
                )
    return rows or None


def read_test(folder: Path, flow: str) -> FlentTest:
    """Read the data file of a flow in a node's folder.

    Raises:
        BadRawError: there is none, or it is damaged or not from flent.
    """
    problems = []
    for path in sorted(folder.glob(PATTERN)):
        try:
            plain = _read(path)
            if plain["metadata"]["TITLE"] == flow:
                return _parsed(plain)
        except BadRawError as error:
            problems.append(str(error))
        except _DAMAGED as error:
            reason = short(f"{type(error).__name__} {error}")
            problems.append(f"{path.name} is not a data file of flent: {reason}")
    raise BadRawError("; ".join(problems) or "flent left no data file")


def _read(path: Path) -> Any:
    try:
        with open_plain(path) as file, gzip.GzipFile(fileobj=file) as packed:
            text = packed.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadRawError(f"{path.name}: {error}") from error
    if len(text) > _MOST_BYTES:
        raise BadRawError(f"{path.name} is larger than {_MOST_BYTES >> 20} MB")
    return json.loads(text)


def _parsed(plain: Mapping[str, Any]) -> FlentTest:
    if plain["version"] not in _VERSIONS:
        version = short(ascii(plain["version"]))
        raise BadRawError(f"flent's format {version} is not known; known are {_VERSIONS}")
    about = plain["metadata"]
    units = {
        str(name): str(meta["UNITS"])
        for name, meta in about.get("SERIES_META", {}).items()
        if "UNITS" in meta
    }
    points = sorted(_points(plain, _epoch_s(about["T0"])), key=lambda point: (point[0], point[1]))
    seconds = float(about.get("TOTAL_LENGTH") or about["LENGTH"])
    return FlentTest(Result(FLENT, seconds, 0, ()), tuple(points), units)


def _points(plain: Mapping[str, Any], t0_s: float) -> Iterator[tuple[str, float, float]]:
    raw, steps = plain["raw_values"], plain["x_values"]
    for series, values in plain["results"].items():
        if raw.get(series):
            found = [
                ((row["t"] - t0_s) * 1e3, row["val"]) for row in raw[series] if row.get("val") is not None
            ]
        else:
            found = [(at * 1e3, value) for at, value in zip(steps, values, strict=True) if value is not None]
        for t_ms, value in found:
            if math.isfinite(t_ms) and math.isfinite(value):
                yield str(series), round(float(t_ms), 3), float(value)


def _epoch_s(text: str) -> float:
    """Return an instant that flent writes in UTC, in seconds since the epoch."""
    return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC).timestamp()


FlentReader.collectors = (Collector("flent", "flent", parse_flent),)
