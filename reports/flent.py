# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials as data files of flent (https://flent.org), which opens, plots and combines them.

A file is one trial, as a file of flent's is one run of a test; trials of a cell have the same title, by which
flent groups repetitions. The test is `tcp_nup`, TCP uploads: series `TCP upload::1` and so on are the trial's
flows, in order of their names, whatever they send. A series `Ping (ms) ICMP` is there only for trials with
short connections, whose handshakes it has: the lab sends no ICMP.

Format: flent's `resultset.py`, version 4. Units are flent's: Mbit/s, milliseconds, packets, seconds.
"""

from __future__ import annotations

import gzip
import json
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from reports.result.load import file_name, valid_trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    from reports.result.load import RunTables

    _Points: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]
    """Instants in seconds, rising, and values."""

SUFFIX: Final = ".flent.gz"
_OURS: Final = "L4SBENCH"
MARK: Final = f'"{_OURS}": {{'.encode()
"""Bytes near the beginning of every such file, once it is unpacked."""
TEST: Final = "tcp_nup"
FORMAT: Final = 4
UPLOAD: Final = "TCP upload"
PING: Final = "Ping (ms) ICMP"

_STEP_S: Final = 0.1
_MOST_GAP_S: Final = 1.5
"""Points further apart than this are not joined: the flow had stopped, or nothing is known."""

_SOCKETS: Final[Mapping[str, str]] = {
    "tcp_cwnd": "cwnd_packets",
    "tcp_rtt": "srtt_ms",
    "tcp_rtt_var": "rttvar_ms",
    "tcp_pacing_rate": "pacing_mbps",
    "tcp_delivery_rate": "delivery_mbps",
    "tcp_unacked": "inflight_packets",
}
"""Columns of table `sockets`, by flent's names for them."""

_OF_TRIAL: Final = (
    "status",
    "reasons",
    "flags",
    "seed",
    "testbed",
    "traffic",
    "kernels",
    "modules",
    "folder",
)


@dataclass(frozen=True)
class FlentFile:
    """A data file of flent: its name, and its content."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Origin:
    """The run that trials are of: name of its matrix, its own name, when it began, and l4sbench's version."""

    matrix: str
    run: str
    began: datetime
    version: str


def flent_files(tables: RunTables, origin: Origin) -> Iterator[FlentFile]:
    """Yield a file for every valid trial, by cell and trial. Equal tables give equal files, byte for byte."""
    for trial in valid_trials(tables):
        one = _Trial(tables, trial, origin)
        if one.flows.height:
            plain = json.dumps(one.document(), sort_keys=True, allow_nan=False)
            yield FlentFile(one.name, gzip.compress(plain.encode(), mtime=0))


def flent_names(tables: RunTables) -> Iterator[str]:
    """Yield the names of these files."""
    return map(_name_of, valid_trials(tables))


def _name_of(trial: Mapping[str, object]) -> str:
    return file_name(f"{trial['cell']}-trial-{trial['trial']}", SUFFIX)


class _Trial:
    """One trial, whose instants are those of a run that began with its start instant."""

    def __init__(self, tables: RunTables, trial: Mapping[str, object], origin: Origin) -> None:
        self._trial = trial
        self._origin = origin
        self._factors = {name: trial[name] for name in tables.factors if trial[name] is not None}

        def own(table: str) -> pl.DataFrame:
            wanted = (pl.col("cell") == trial["cell"]) & (pl.col("trial") == trial["trial"])
            return tables.scan(table).filter(wanted).collect()

        self.flows = own("flows").sort("flow")
        self._intervals = own("intervals")
        self._requests = own("requests")
        self._sockets = own("sockets").filter(pl.col("side") == "sender")
        self._t0_s = origin.began.timestamp()

    @property
    def name(self) -> str:
        """The file's name."""
        return _name_of(self._trial)

    def document(self) -> dict[str, object]:
        """Return the file's content as plain data."""
        points = {
            f"{UPLOAD}::{number}": flow for number, flow in enumerate(self.flows.iter_rows(named=True), 1)
        }
        goodputs = {name: self._goodput(flow) for name, flow in points.items()}
        sampled = {name: self._sampled(str(flow["flow"])) for name, flow in points.items()}
        pings = self._pings()
        length_s = self._length_s(goodputs.values())
        x_values = [round(step * _STEP_S, 6) for step in range(math.floor(length_s / _STEP_S) + 1)]
        results: dict[str, list[float | None]] = {}
        for name, (at, values) in goodputs.items():
            results[name] = _at(x_values, at, values)
            for key, (when, what) in sampled[name].items():
                results[f"{name}::{key}"] = _at(x_values, when, what)
        uploads = [results[name] for name in points]
        results[f"{UPLOAD} sum"] = _over(uploads, sum)
        results[f"{UPLOAD} avg"] = _over(uploads, lambda there: sum(there) / len(there))
        raw = {name: self._raw(goodputs[name], sampled[name]) for name in points}
        if len(pings[0]):
            results[PING] = _at(x_values, *pings)
            raw[PING] = self._raw(pings, {})
        return {
            "version": FORMAT,
            "metadata": self._metadata(points, length_s),
            "x_values": x_values,
            "results": results,
            "raw_values": raw,
        }

    def _goodput(self, flow: Mapping[str, object]) -> _Points:
        """Return a flow's goodput per interval, at the end of each."""
        own = self._intervals.filter((pl.col("flow") == flow["flow"]) & pl.col("goodput_mbps").is_not_null())
        start_ms = flow["start_ms"]
        at = (own["t_ms"].to_numpy() + (start_ms if isinstance(start_ms, float) else 0.0)) / 1e3
        return at, own["goodput_mbps"].to_numpy()

    def _sampled(self, flow: str) -> dict[str, _Points]:
        """Return what samples of a flow's sender have, by flent's names."""
        own = self._sockets.filter(pl.col("flow") == flow).sort("t_ms")
        found: dict[str, _Points] = {}
        for key, column in _SOCKETS.items():
            there = own.filter(pl.col(column).is_not_null()).unique("t_ms", keep="first", maintain_order=True)
            if there.height:
                values = there[column].cast(pl.Float64).to_numpy()
                found[key] = there["t_ms"].to_numpy() / 1e3, values
        return found

    def _pings(self) -> _Points:
        """Return the round-trip times of the handshakes of short connections."""
        own = self._requests.filter(pl.col("handshake_ms").is_not_null()).sort("t_ms")
        own = own.unique("t_ms", keep="first", maintain_order=True)
        return own["t_ms"].to_numpy() / 1e3, own["handshake_ms"].to_numpy()

    def _length_s(self, goodputs: Iterable[_Points]) -> float:
        return max((float(at[-1]) for at, _ in goodputs if len(at)), default=_STEP_S)

    def _raw(self, points: _Points, sampled: Mapping[str, _Points]) -> list[dict[str, float]]:
        """Return single values with their instants, which flent keeps beside those at common steps."""
        rows = [{"t": self._t0_s + float(at), "val": float(value)} for at, value in zip(*points, strict=True)]
        by_time: dict[float, dict[str, float]] = {}
        for key, (when, values) in sampled.items():
            for at, value in zip(when, values, strict=True):
                by_time.setdefault(float(at), {"t": self._t0_s + float(at)})[key] = float(value)
        return sorted([*rows, *by_time.values()], key=lambda row: row["t"])

    def _metadata(self, points: Mapping[str, Mapping[str, object]], length_s: float) -> dict[str, object]:
        trial, origin = self._trial, self._origin
        began = origin.began.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        notes = [f"{name.removeprefix(UPLOAD).strip(':')}: {flow['flow']}" for name, flow in points.items()]
        if self._requests.height:
            notes.append(f"{PING}: handshakes of short connections")
        batch = uuid.uuid5(uuid.NAMESPACE_URL, f"l4sbench:{origin.matrix}/{origin.run}")
        return {
            "NAME": TEST,
            "TITLE": str(trial["cell"]),
            "NOTE": f"flows by number: {', '.join(notes)}",
            "TIME": began,
            "T0": began,
            "LENGTH": round(length_s),
            "TOTAL_LENGTH": round(length_s, 6),
            "STEP_SIZE": _STEP_S,
            "DELAY": 0,
            "HOST": str(self.flows["receiver"][0]),
            "HOSTS": sorted(set(map(str, self.flows["receiver"]))),
            "LOCAL_HOST": ", ".join(sorted(set(map(str, self.flows["sender"])))),
            "IP_VERSION": 6 if trial.get("family") == "ipv6" else 4,
            "FLENT_VERSION": f"l4sbench {origin.version}",
            "KERNEL_NAME": "Linux",
            "KERNEL_RELEASE": str(trial["kernels"] or ""),
            "BATCH_NAME": origin.matrix,
            "BATCH_TITLE": origin.run,
            "BATCH_TIME": began,
            "BATCH_UUID": str(batch),
            "DATA_FILENAME": self.name,
            "TEST_PARAMETERS": {
                "upload_streams": str(len(points)),
                "trial": str(trial["trial"]),
                **{name: str(value) for name, value in self._factors.items()},
            },
            "SERIES_META": {name: _series_meta(flow) for name, flow in points.items()},
            _OURS: {name: str(trial[name]) for name in _OF_TRIAL if trial[name] is not None},
        }


def _series_meta(flow: Mapping[str, object]) -> dict[str, object]:
    """Return what flent keeps of a series: here also which flow it is."""
    known = {
        "UNITS": "Mbits/s",
        "MEAN_VALUE": flow["goodput_mbps"],
        "CONG_CONTROL": flow["cc"],
        "FLOW": flow["flow"],
        "SEND": flow["send"],
        "ECN": flow["ecn"],
        "LENGTH": flow["seconds"],
        "TARGET": flow["receiver"],
    }
    return {name: value for name, value in known.items() if value is not None}


def _at(steps: Sequence[float], at: NDArray[np.float64], values: NDArray[np.float64]) -> list[float | None]:
    """Return values at common steps, as flent does: linear between two points, None where none are near."""
    if not len(at):
        return [None] * len(steps)
    wanted = np.asarray(steps)
    after = np.searchsorted(at, wanted - 1e-9)
    inside = (after > 0) & (after < len(at))
    gap = at[np.minimum(after, len(at) - 1)] - at[np.maximum(after - 1, 0)]
    near = (inside & (gap <= _MOST_GAP_S)) | (np.abs(wanted - at[0]) < 1e-6)
    found = np.interp(wanted, at, values)
    return [round(float(value), 6) if there else None for value, there in zip(found, near, strict=True)]


def _over(
    series: Sequence[Sequence[float | None]], value: Callable[[list[float]], float]
) -> list[float | None]:
    """Return a value over all series at every step, of those that have one there."""
    rows = ([one for one in row if one is not None] for row in zip(*series, strict=True))
    return [round(value(row), 6) if row else None for row in rows]
