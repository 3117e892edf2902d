# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Samples of queues -> table `queues`: by netlink (lab-sampler, `queues.jsonl`) or as JSON of `tc -s -j`.

Both kinds carry the names and units of `tc -j`. Kinds of queues count marks, delays and flows under different
names; catalog entries say which counters make which column.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.ahead import PLACE, Ahead, numbered
from collectors.collector import read_samples, refuse_samples
from collectors.exported import counters, exports_of, merged, values
from collectors.timed import timed_rows
from l4sbench import tables
from l4sbench.disk.plain import is_plain, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from l4sbench.catalog import Exports
    from l4sbench.program import Program
    from l4sbench.program.trial import EndedTrial

NETLINK_FILE: Final = "queues.jsonl"
TC_FILE: Final = "tc-{network}.txt"

_TC: Final[Mapping[str, type[pl.DataType]]] = {
    "t_ms": pl.Float64,
    "node": pl.String,
    "ifname": pl.String,
    "kind": pl.String,
    "handle": pl.String,
    "parent": pl.String,
    **dict.fromkeys(
        ("bytes", "packets", "drops", "overlimits", "requeues", "backlog_bytes", "qlen"), pl.Int64
    ),
}


def parse_queues(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `queues` from netlink samples; None without the file."""
    return _netlink_rows(trial.programs, trial.raw)


def parse_tc(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `queues` from samples of tc on every node; None without such files."""
    return _tc_rows(trial.programs, trial.raw)


def queue_rows(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame:
    """Return the samples of a trial however they were taken, in order; without rows if there are none."""
    found = _netlink_rows(programs, raw)
    if found is None:
        found = _tc_rows(programs, raw)
    return found if found is not None else tables.empty("queues")


_AHEAD: Final = Ahead()


def read_ahead(trials: Sequence[EndedTrial]) -> AbstractContextManager[None]:
    """Read the netlink samples of several trials together, for as long as the context lasts."""
    return _AHEAD.reading(NETLINK_FILE, trials, _alike, _of_trials)


def _alike(trial: EndedTrial) -> object:
    return exports_of("queues", trial.programs)


def _of_trials(trials: Sequence[EndedTrial]) -> pl.DataFrame:
    exports = exports_of("queues", trials[0].programs)
    read = [read_samples(trial.raw / NETLINK_FILE, _schema(exports)) for trial in trials]
    return _as_table(numbered(read), exports)


def _netlink_rows(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame | None:
    path = raw / NETLINK_FILE
    found = _AHEAD.of(path)
    if found is None and is_plain(path):
        exports = exports_of("queues", programs)
        return _as_table(numbered([read_samples(path, _schema(exports))]), exports).drop(PLACE)
    return found


def _tc_rows(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame | None:
    rows: list[dict[str, object]] = []
    exports = exports_of("queues", programs)
    schema = _schema(exports)
    for node, program in programs.items():
        sampled = (sampler.network for sampler in program.samplers if sampler.network is not None)
        for network in dict.fromkeys((*(link.network for link in program.links), *sampled)):
            path = raw / node / TC_FILE.format(network=network)
            if is_plain(path):
                refuse_samples(path)
                found = parse_tc_text(plain_text(path), path.name)
                named = ({name: value for name, value in row.items() if name in schema} for row in found)
                rows += ({**row, "node": node, "ifname": network} for row in named)
    return _as_table(numbered([pl.DataFrame(rows, schema=schema)]), exports).drop(PLACE) if rows else None


@cache  # most trials of a run export the same
def _schema(exports: tuple[Exports, ...]) -> dict[str, type[pl.DataType]]:
    return {**_TC, **counters(exports)}


def parse_tc_text(text: str, name: str = "tc") -> Iterator[dict[str, object]]:
    """Yield the rows of a file of samples of `tc -s -j qdisc`.

    A sample is a line `@ <milliseconds since the start instant>`, then tc's JSON on one line.

    Raises:
        BadRawError: a line is neither; the last line may be truncated.
    """
    return timed_rows(text, name, _qdiscs, "a sample without its time")


def _qdiscs(line: str) -> list[dict[str, object]]:
    try:
        return [
            {"backlog_bytes": qdisc.get("backlog"), **{key.strip(): value for key, value in qdisc.items()}}
            for qdisc in json.loads(line)
        ]
    except (TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error


def _as_table(samples: pl.DataFrame, exports: tuple[Exports, ...]) -> pl.DataFrame:
    """Return table `queues` of several trials, which the column `PLACE` tells apart."""
    key = [PLACE, "node", "network", "handle", "t_ms"]
    found = samples.select(PLACE, *_columns(exports)).sort(key, maintain_order=True)
    return found.unique(key, keep="last", maintain_order=True)


@cache
def _columns(exports: tuple[Exports, ...]) -> list[pl.Expr]:
    return [
        pl.col("node"),
        pl.col("ifname").alias("network"),
        pl.col("handle"),
        pl.col("t_ms").round().cast(pl.Int64),
        pl.col("kind"),
        pl.when(pl.col("parent") != "root").then(pl.col("parent")).alias("parent"),
        pl.col("bytes").alias("sent_bytes"),
        pl.col("packets").alias("sent_packets"),
        *[pl.col(name).alias(f"{name}_packets") for name in ("drops", "overlimits", "requeues")],
        pl.col("backlog_bytes"),
        pl.col("qlen").alias("backlog_packets"),
        *merged([_of_kind(source) for source in exports]),
    ]


def _of_kind(exports: Exports) -> dict[str, pl.Expr]:
    own = pl.col("kind") == exports.source
    return {name: pl.when(own).then(value) for name, value in values(exports).items()}
