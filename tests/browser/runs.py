# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs for the page: tables of captured trials, replicated into as many cells as a test wants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from collectors.assemble import collect
from l4sbench import tables
from l4sbench.catalog import Catalog
from l4sbench.store import Run
from reports.result.load import RunTables, load
from tests.captured import captured_trial

SOURCES = ("lean-dualpi2", "lean-codel-warmup")

SHARES = {  # percent that the L4S group gets without and with ECN of its competitor
    "fifo": (48.0, 47.0),
    "codel-drop": (37.0, 36.0),
    "codel": (85.0, 86.0),
    "fifo-ecn": (1.0, 89.0),
    "dualpi2": (45.0, 44.0),
    "fq-codel-l4s": (47.0, 46.0),
}


@dataclass(frozen=True)
class Wanted:
    """A cell to make: its factors, and what the L4S group gets in each trial, in percent (None: invalid)."""

    factors: Mapping[str, Any]
    percents: Sequence[float | None]
    flags: Sequence[str] | None = None
    reasons: str = "queue read back otherwise"
    id: str = field(default="")
    sampled: bool = True

    @property
    def cell(self) -> str:
        """Its id, which looks as ids do."""
        own = "_".join(f"{value}" for value in self.factors.values())
        return self.id or f"{own}-{abs(hash_of(own)):010x}"[:80]


def hash_of(text: str) -> int:
    """A number that is the same in every process."""
    return sum((place + 1) * ord(letter) * 2654435761 for place, letter in enumerate(text)) % 2**40


def small() -> list[Wanted]:
    """Every verdict there is, a trial left out, a flag, and a cell with two modes that got more trials."""
    found = []
    for (aqm, shares), buffer, ecn in product(SHARES.items(), (1.0, 4.0), ("off", "classic")):
        percent = shares[ecn == "classic"] + buffer / 10
        percents: list[float | None] = [percent - 0.5, percent, percent + 0.5]
        flags = None
        if (aqm, buffer, ecn) == ("fifo", 4.0, "off"):
            percents = [25.0, 26.0, 70.0, 71.0, 24.0, 70.5, 25.5, 69.0, 24.5, 71.5]
        if (aqm, buffer, ecn) == ("codel", 1.0, "off"):
            percents = [78.0, 83.0, 80.0]
        if (aqm, buffer, ecn) == ("codel-drop", 1.0, "off"):
            percents = [24.5, 26.5, 25.5]
        if (aqm, buffer, ecn) == ("codel-drop", 4.0, "classic"):
            percents, flags = [36.0, None, 37.0], ["low-utilisation"]
        found.append(Wanted({"aqm": aqm, "buffer_bdp": buffer, "classic.ecn": ecn}, percents, flags))
    return found


def large(spread: Sequence[float] = (-0.3, 0.0, 0.4), *, sampled: bool = True) -> list[Wanted]:
    """A thousand cells, with trials so far from their means; the last one is always sampled."""
    buffers = [0.5 * step for step in range(1, 11)]
    found = []
    for (aqm, shares), buffer, ecn, rtt in product(
        list(SHARES.items())[:5],
        buffers,
        ("off", "classic"),
        (2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0),
    ):
        percent = shares[ecn == "classic"] * (1 - rtt / 1000) + buffer / 10
        factors = {"aqm": aqm, "buffer_bdp": buffer, "classic.ecn": ecn, "rtt_ms": rtt}
        found.append(Wanted(factors, [percent + away for away in spread], sampled=sampled))
    return [*found[:-1], replace(found[-1], sampled=True)]


def make(folder: Path, wanted: Sequence[Wanted]) -> RunTables:
    """Write the tables of such a run, made of captured trials, below `folder`."""
    return replicate(_captured(folder / "captured"), wanted, folder / "run")


def replicate(source: RunTables, wanted: Sequence[Wanted], run: Path) -> RunTables:
    """Write the tables of a run whose cells are copies of the source's, in turns, with other factors."""
    names = source.trials.filter(pl.col("status") == "ok")["cell"].unique(maintain_order=True).to_list()
    plan = pl.DataFrame(
        [
            {
                "source": names[place % len(names)],
                "cell": cell.cell,
                "trial": number,
                "percent": percent if percent is not None else 0.0,
                "status": "invalid" if percent is None else "ok",
                "reasons": cell.reasons if percent is None else None,
                "flags": None if percent is None else cell.flags,
                "sampled": cell.sampled,
                **{f"factor {name}": value for name, value in cell.factors.items()},
            }
            for place, cell in enumerate(wanted)
            for number, percent in enumerate(cell.percents, 1)
        ],
        infer_schema_length=None,
    )
    into = run / "tables"
    into.mkdir(parents=True)
    for table in tables.OF_TRIALS:
        if not (source.folder / f"{table}.parquet").is_file():
            continue  # a run from before there was this table
        rows = _replicated(source, table, plan)
        tables.write(table, [tables.conform(table, rows).lazy()], into / f"{table}.parquet")
    tables.write("catalog", [tables.conform("catalog", _catalog()).lazy()], into / "catalog.parquet")
    return load(run)


def _replicated(source: RunTables, table: str, plan: pl.DataFrame) -> pl.DataFrame:
    first = source.frame(table).filter(pl.col("trial") == 1)
    rows = first.drop("trial").rename({"cell": "source"})
    fresh = ["status", "reasons", "flags"] if table == "trials" else []
    joined = plan.join(rows.drop(fresh), on="source", how="inner")
    for name, of in (("command", "programs"), ("value", "hosts")):
        if table == of:  # every trial has its own seeds
            own = pl.concat_str([pl.lit("seed "), pl.struct("cell", "trial").hash()])
            joined = joined.with_columns(pl.col(name).str.replace(r"seed [0-9]+", own))
            own = pl.concat_str([pl.lit('"seed": '), pl.struct("cell", "trial").hash()])
            joined = joined.with_columns(pl.col(name).str.replace(r'"seed": [0-9]+', own))
    if table == "flows":
        rate_mbps = source.trials["rate_mbps"][0]
        share = pl.col("percent") / 100 * rate_mbps
        got = pl.when(pl.col("group") == "l4s").then(share).otherwise(0.95 * rate_mbps - share)
        # a queue with a shallow step for L4S keeps delay low
        low = pl.col("factor aqm").is_in(["dualpi2", "fq-codel-l4s"]) & (pl.col("group") == "l4s")
        joined = joined.with_columns(
            got.alias("goodput_mbps"), pl.when(low).then(0.4).otherwise(6.0).alias("srtt_minus_base_ms")
        )
    if table == "trials":
        factors = [name for name in joined.columns if name.startswith("factor ")]
        joined = joined.with_columns(pl.col(name).alias(name.removeprefix("factor ")) for name in factors)
        joined = joined.with_columns(pl.lit(0.0).alias("warmup_s"), pl.col("duration_s").max())
    elif table in ("sockets", "queues"):
        joined = joined.filter((pl.col("status") == "ok") & pl.col("sampled"))
    elif table not in ("programs", "hosts"):
        joined = joined.filter(pl.col("status") == "ok")
    return joined.select(sorted({*rows.columns, *fresh, "cell", "trial"} - {"source"}))


def _captured(folder: Path) -> RunTables:
    """The tables of captured trials, as the collectors make them."""
    run = Run.create(folder, "captured", b"", 1, {})
    for name in SOURCES:
        captured_trial(name).store(run)
    collect(run, Catalog.load())
    return load(run.path)


def _catalog() -> pl.DataFrame:
    catalog = Catalog.load()
    rest = {"about": "about", "digest": "d"}
    queues = [
        {"kind": "queue", "name": name, "label": own.label, "family": own.family, "l4s": own.l4s, **rest}
        for name, own in catalog.queues.items()
    ]
    ccs = [
        {"kind": "cc", "name": name, "label": own.label, "family": None, "l4s": own.l4s, **rest}
        | {"panels": json.dumps(dict(own.exports.panels)) if own.exports else None}
        for name, own in catalog.congestion_controls.items()
    ]
    return pl.DataFrame([*queues, *ccs], infer_schema_length=None)
