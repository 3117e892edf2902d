# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The tables of a run as polars frames."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import polars as pl

from l4sbench import tables
from l4sbench.catalog import Catalog
from l4sbench.catalog.outside import CATALOG
from l4sbench.errors import InputError
from l4sbench.traffic import DEFAULT_SEND, SENDS
from l4sbench.traffic.exec import EXEC

if TYPE_CHECKING:
    from l4sbench.facts.factors import FactorColumn

PART_ROWS: Final = 250_000
"""Number of rows of a table that are in memory together where a table is worked through."""

COUNTED: Final = pl.col("left_out").is_null()
"""Condition that a flow of table `flows` counts in its group's figures."""

BULK: Final = pl.col("send").is_null() | ~pl.col("send").is_in(sorted(SENDS.keys() - {DEFAULT_SEND}))
"""Condition that a flow of table `flows` sends as fast as it can: bulk, or a sender by its name; null in
tables older than other kinds."""

OF_PROGRAMS: Final = ~pl.col("send").is_in(sorted(SENDS.keys() - {EXEC}))
"""Condition that a flow of table `flows` is of a program: a user's own, or a sender."""


def joined(trials: pl.DataFrame) -> pl.DataFrame:
    """Return rows of table `trials` with texts in place of lists, as they are printed."""
    return trials.with_columns(pl.col("flags").list.join("; "), pl.col("kernels", "modules").list.join(", "))


def valid_trials(tables: RunTables) -> Iterator[Mapping[str, object]]:
    """Yield the valid trials, by cell and trial."""
    return joined(tables.valid).sort("cell", "trial").iter_rows(named=True)


def file_name(words: str, suffix: str) -> str:
    """Return a file's name from words of tables, which may come from elsewhere and be anything."""
    return re.sub(r"[^A-Za-z0-9._=+-]", "-", words).lstrip(".") + suffix


def sum_of_all(name: str) -> pl.Expr:
    """Return the sum of a column over a group's flows, each that is left out with the mean of the others."""
    counted = pl.col(name).filter(COUNTED)
    return counted.sum() * (pl.len() / COUNTED.sum())


def goodput_of_all(name: str) -> pl.Expr:
    """Return the same of a goodput; null when that of any flow is: an unknown goodput is not zero."""
    return pl.when(pl.col(name).filter(COUNTED).null_count() == 0).then(sum_of_all(name))


_ALL: Final = pl.lit(True)


def sum_of_known(name: str, among: pl.Expr = _ALL) -> pl.Expr:
    """Return the sum of a count over flows; null where none of them has it, as of what TCP does not send."""
    own = pl.col(name).filter(among)
    return pl.when(own.count() > 0).then(own.sum())


def with_means_of_others(name: str) -> pl.Expr:
    """Return a column of table `flows`, with the mean of its group's others for a flow that is left out."""
    others = pl.col(name).filter(COUNTED).mean().over("cell", "trial", "group")
    return pl.when(COUNTED).then(pl.col(name)).otherwise(others).alias(name)


def _among(cells: frozenset[str]) -> pl.Expr:
    """Return the condition that a row is of one of these cells; by the range, row groups are left unread."""
    first, last = (pl.lit(end(cells, default="")) for end in (min, max))
    within = pl.col("cell").is_between(first, last)
    return within & pl.col("cell").is_in(sorted(cells))


def _table(name: str) -> cached_property[pl.DataFrame]:
    """Return a property of `RunTables` that reads a table when it is first used."""

    def read(run: RunTables) -> pl.DataFrame:
        return run.frame(name)

    read.__doc__ = tables.SCHEMAS[name].__doc__
    return cached_property(read)


@dataclass(frozen=True)
class RunTables:
    """The tables of one run, each read when it is first used; only the rows of `cells` when given.

    `ids` are what cells are called instead of their ids, where they are compared with other cells.
    """

    folder: Path
    cells: frozenset[str] | None = None
    ids: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        of = "" if self.cells is None else f", {len(self.cells)} cells"
        return f"<{type(self).__name__} of {self.folder}{of}>"

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table as a lazy frame, for tables that do not fit into memory.

        Raises:
            InputError: the table does not exist, or a newer l4sbench wrote it.
        """
        if table not in tables.SCHEMAS:
            raise InputError(f"{table} is not a table", f"choose from {', '.join(tables.SCHEMAS)}")
        found = tables.scan(self.folder / f"{table}.parquet")
        if self.cells is None or table not in tables.OF_TRIALS:
            return found
        own = found.filter(_among(self.cells))
        return own.with_columns(pl.col("cell").replace(dict(self.ids))) if self.ids else own

    def frame(self, table: str) -> pl.DataFrame:
        """Return a table. Raises InputError as `scan` does."""
        return self.scan(table).collect()

    def parts(self, table: str, rows: int = PART_ROWS) -> Iterator[Self]:
        """Yield the tables with the rows of a few cells at a time, in order of cells; at least once.

        So what is made of each cell by itself takes as much memory for a run of many cells as for one of few.

        Args:
            table: The table that matters; it has about `rows` rows of each part, but whole cells.
            rows: That number.

        Raises:
            InputError: as `scan` does.
        """
        trials = tables.scan(self.folder / "trials.parquet").select("cell")
        if self.cells is not None:
            trials = trials.filter(_among(self.cells))
        counts = trials.group_by("cell").len().sort("cell").collect()
        whole = tables.scan(self.folder / "trials.parquet").select(pl.len()).collect().item()
        all_rows = tables.scan(self.folder / f"{table}.parquet").select(pl.len()).collect().item()
        at_once = max(1, int(rows * whole / max(all_rows, 1)))
        part = (pl.col("len").cum_sum() - 1) // at_once
        own = counts.group_by(part, maintain_order=True).agg("cell")["cell"].to_list()
        for cells in own or [[]]:
            yield replace(self, cells=frozenset(cells))

    trials = _table("trials")
    flows = _table("flows")
    intervals = _table("intervals")
    requests = _table("requests")
    flent = _table("flent")
    exec = _table("exec")
    qlog = _table("qlog")
    sockets = _table("sockets")
    queues = _table("queues")
    packet_flows = _table("packet_flows")
    codepoints = _table("codepoints")
    accecn = _table("accecn")
    hosts = _table("hosts")
    events = _table("events")
    programs = _table("programs")
    catalog = _table("catalog")
    verdicts = _table("verdicts")

    @cached_property
    def valid(self) -> pl.DataFrame:
        """The valid trials: those rows of table `trials`."""
        return self.trials.filter(pl.col("status") == "ok")

    def warmups(self, *columns: str | pl.Expr) -> pl.DataFrame:
        """Return `cell`, `trial`, these columns and `warmup_ms` of every valid trial."""
        warmup_s = pl.col("warmup_s").fill_null(0.0) if "warmup_s" in self.valid.columns else pl.lit(0.0)
        return self.valid.select("cell", "trial", *columns, (warmup_s * 1000).alias("warmup_ms"))

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of the valid trials and of the others of every cell, in order."""
        ok = pl.col("status") == "ok"
        counted = self.trials.group_by("cell", maintain_order=True).agg(ok.sum(), (~ok).sum().alias("out"))
        return {cell: (valid, out) for cell, valid, out in counted.iter_rows()}

    @cached_property
    def factors(self) -> Mapping[str, FactorColumn]:
        """The columns of `trials` that are factors, in order; the run's catalog declares their units."""
        own = tables.SCHEMAS["trials"].columns()
        return {name: self.entries.column(name) for name in self.trials.columns if name not in own}

    @cached_property
    def entries(self) -> Catalog:
        """The catalog, with the entries that the run keeps."""
        kept = self.folder.parent / CATALOG
        return Catalog.load([kept] if kept.is_dir() else [])

    @cached_property
    def l4s_ccs(self) -> frozenset[str]:
        """The names of the run's congestion controls that are L4S."""
        found = self.catalog.filter((pl.col("kind") == "cc") & pl.col("l4s"))
        return frozenset(found["name"].to_list())

    def totals(self, group: str, value: str = "goodput_mbps") -> pl.DataFrame:
        """Return `cell`, `trial`, `mbps` (summed goodput), `delay_ms` of every valid trial of a flow group.

        Trials of which some flow's goodput is not known are left out.
        """
        of_group = self.groups.filter((pl.col("group") == group) & pl.col(value).is_not_null())
        return of_group.select(
            "cell", "trial", pl.col(value).alias("mbps"), pl.col("srtt_minus_base_ms").alias("delay_ms")
        )

    @staticmethod
    def listed(column: str, trials: pl.DataFrame) -> dict[str, int]:
        """Return the items of a column of `trials`, alone or in lists, sorted, with numbers of trials."""
        items = trials.select(pl.concat_list(column).explode().drop_nulls()).to_series()
        return dict(sorted(Counter(items).items()))

    @cached_property
    def flows_left_out(self) -> pl.DataFrame:
        """The keys of flows that do not count in their groups' figures, to be left out of samples by flow."""
        return self.flows.filter(~COUNTED).select("cell", "trial", "flow")

    @cached_property
    def groups(self) -> pl.DataFrame:
        """Trial x flow group: goodputs summed, delays averaged over the group's flows.

        The few flows that are left out for what they did count with the mean of the others.
        """
        goodputs = [goodput_of_all(name) for name in ("goodput_mbps", "goodput_whole_mbps")]
        packets = [sum_of_known(name, COUNTED) for name in ("retransmits_packets", "delivered_packets")]
        delay = pl.col("srtt_minus_base_ms").filter(COUNTED).mean()
        return self.flows.group_by("cell", "trial", "group", maintain_order=True).agg(
            pl.len().alias("flows"), *goodputs, delay, *packets
        )


def load(run: Path, cells: frozenset[str] | None = None) -> RunTables:
    """Return the tables of a run, given its directory, its matrix's folder (of the latest run) or `tables/`.

    `cells` leaves out the rows of all other cells.

    Raises:
        InputError: no tables are there.
    """
    for folder in (run / "tables", run / "latest" / "tables", run):
        if (folder / "trials.parquet").is_file():
            return RunTables(folder, cells)
    raise tables.DamagedTable(f"{run} has no tables", tables.mend(run / tables.FOLDER))
