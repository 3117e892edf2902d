# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One trial over time: goodput, smoothed RTT, the bottleneck's queue, marks, windows, and state."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.facts.factors import COLUMN_ENDS, name_of
from l4sbench.tables import empty
from reports.figures.programs import LOGGED, of_programs
from reports.result.labels import Setting
from reports.result.queues import SAMPLED, fullest, rate_changes

if TYPE_CHECKING:
    from reports.result.load import RunTables

POINTS: Final = 300
"""Largest number of points per line; samples that are closer to each other are combined."""


@dataclass(frozen=True)
class StatePanel:
    """State that congestion controls or qlogs report, as catalog entries put it together.

    Attributes:
        title: With the unit.
        words: True if the values are words rather than numbers.
        rows: `t_s` (end of the bin), `group`, `flow`, `line` (what is drawn, in words), `name` (flow and
            line), `value` (mean of the samples in the bin; of words the first).
    """

    title: str
    words: bool
    rows: pl.DataFrame

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that are drawn of each flow."""
        return tuple(dict.fromkeys(self.rows["line"].to_list()))

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups whose flows report it."""
        return tuple(sorted(set(self.rows["group"].to_list())))

    @property
    def flat(self) -> bool:
        """True if all numbers are zero."""
        return not self.words and not self.rows["value"].max()


@dataclass(frozen=True)
class FairShare:
    """The fair share of a flow in a part of a trial, in seconds from its start."""

    from_s: float
    to_s: float
    mbps: float


@dataclass(frozen=True)
class TrialSeries:
    """The course of one trial, binned. All times count from the trial's start instant.

    Attributes:
        words: The cell in words.
        cell: Id of the cell.
        trial: Number of the trial.
        groups: Names of the flow groups in legends, in order.
        flows: `t_s` (end of the bin), `group`, `flow`, `goodput_mbps` (received in the bin), `srtt_ms` (mean
            of the samples in the bin), `cwnd_packets` (likewise), `ce_percent` (of the packets delivered in
            the bin, as the sender counts; None where none was).
        queue: `t_s`, `queue` (the measure in words), `delay_ms` (mean of the samples in the bin).
        panels: State that the senders report.
        bin_ms: Width of a bin.
        warmup_s: Length of the warm-up.
        end_s: End of the measured time.
        rate_mbps: Rate of the link.
        fair: The link's rate over all flows, which events may change.
    """

    words: str
    cell: str
    trial: int
    groups: tuple[str, ...]
    flows: pl.DataFrame
    queue: pl.DataFrame
    panels: tuple[StatePanel, ...]
    bin_ms: int
    warmup_s: float
    end_s: float
    rate_mbps: float
    fair: tuple[FairShare, ...]

    @property
    def title(self) -> str:
        """Cell and trial in words."""
        return f"{self.words}, trial {self.trial}"

    @property
    def flat(self) -> tuple[str, ...]:
        """The measures that are zero, or were never sampled, all the time."""
        own = (*((self.flows, name) for name in _FLOW_MEASURES), (self.queue, "delay_ms"))
        return tuple(name for frame, name in own if not frame[name].max())


_FLOW_MEASURES: Final = ("goodput_mbps", "srtt_ms", "ce_percent", "cwnd_packets")


_SOCKETS: Final = (
    *("flow", "side", "group", "t_ms", "received_bytes"),
    *("srtt_ms", "cwnd_packets", "delivered_packets", "delivered_ce_packets"),
)


def trial_series(tables: RunTables, cell: str, trial: int, points: int = POINTS) -> TrialSeries:
    """Return the series of one valid trial.

    Raises:
        InputError: the trial does not exist, is not valid, or nothing was sampled in it.
    """
    found = tables.trials.filter((pl.col("cell") == cell) & (pl.col("trial") == trial))
    if not found.height:
        raise InputError(f"cell {cell} has no trial {trial}", "the table `trials` lists all trials")
    status, reasons = found.select("status", "reasons").row(0)
    if status != "ok":
        raise InputError(f"trial {trial} of {cell} is {status}", reasons)
    for series in series_of(tables, found, points):
        return series
    raise InputError(f"no sockets were sampled in trial {trial} of {cell}")


def series_of(tables: RunTables, trials: pl.DataFrame, points: int = POINTS) -> Iterator[TrialSeries]:
    """Yield the series of those of `trials`, rows of that table, that are valid and in which was sampled.

    All are computed together, as most of the work for one trial is the same however few samples it has.
    """
    abouts = [row for row in trials.iter_rows(named=True) if row["status"] == "ok"]
    spans = [_Span.of(about, points) for about in abouts]
    if not spans:
        return
    frame = pl.DataFrame([asdict(span) for span in spans]).with_row_index("at")
    state_of, labels = cache(partial(_wanted, tables)), _queue_labels(tables)
    wanted = [state_of(_ccs(about)) for about in abouts]
    state = {name for own in wanted for columns in own.values() for name in columns}
    sockets = _samples(tables, "sockets", frame, {*_SOCKETS, *state}).sort("at", "flow", "side", "t_ms")
    programs = of_programs(tables, frame, sockets)
    names = _group_names(
        tables, abouts, pl.concat([own.select("at", "group") for own in (sockets, programs)])
    )
    sockets, programs = (
        own.join(names, on=["at", "group"], maintain_order="left").drop("group").rename({"name": "group"})
        for own in (sockets, programs)
    )
    columns = (QUEUE_DELAYS.keys() - {_BACKLOG}) | {*SAMPLED}
    rates = _rates(tables, frame)
    changes = _ByTrial(rates)
    by_trial = (
        _ByTrial(_flows(sockets, programs)),
        _ByTrial(_queue(_samples(tables, "queues", frame, columns), rates)),
    )
    panels = _panels(wanted, sockets)
    for at, own in _logged(programs):
        panels.setdefault(at, []).append(own)
    legends = _ByTrial(names.select("at", "name"))
    for at, (about, span) in enumerate(zip(abouts, spans, strict=True)):
        flows, queue = (frames.of(at) for frames in by_trial)
        if not flows.height:
            continue
        yield TrialSeries(
            words=_cell_words(tables, labels, about),
            cell=span.cell,
            trial=span.trial,
            groups=tuple(legends.of(at)["name"]),
            flows=flows,
            queue=queue,
            panels=tuple(panels.get(at, ())),
            bin_ms=span.bin_ms,
            warmup_s=float(about.get("warmup_s") or 0),
            end_s=span.end_s,
            rate_mbps=span.rate_mbps,
            fair=_fair(span, changes.of(at), max(flows["flow"].n_unique(), 1)),
        )


@dataclass(frozen=True)
class _Span:
    """The time of a trial that is drawn, and its bins."""

    cell: str
    trial: int
    end_s: float
    bin_ms: int
    rate_mbps: float

    @classmethod
    def of(cls, about: Mapping[str, Any], points: int) -> _Span:
        end_s = float(about.get("warmup_s") or 0) + float(about["duration_s"])
        interval_ms = float(about.get("sample.interval_ms") or 100)
        bin_ms = _bin_ms(end_s, interval_ms, points)
        return cls(about["cell"], about["trial"], end_s, bin_ms, float(about["rate_mbps"]))


class _ByTrial:
    """Rows of many trials, which the column `at` tells apart, trial by trial."""

    def __init__(self, rows: pl.DataFrame) -> None:
        parts = rows.partition_by("at", as_dict=True, include_key=False, maintain_order=True)
        self._parts = {at: part for (at,), part in parts.items()}
        self._nothing = rows.clear().drop("at")

    def of(self, at: int) -> pl.DataFrame:
        """Return the rows of a trial."""
        return self._parts.get(at, self._nothing)


def _samples(tables: RunTables, table: str, spans: pl.DataFrame, columns: Collection[str]) -> pl.DataFrame:
    """Return the samples of trials with the ends of their bins, and each trial's place `at` and rate."""
    found = tables.scan(table)
    there = found.collect_schema().names()
    first, last = spans["cell"].min(), spans["cell"].max()
    own = found.filter(pl.col("cell").is_between(pl.lit(first), pl.lit(last)))
    trials = spans.select("at", "cell", "trial", "end_s", "bin_ms", "rate_mbps").lazy()
    wide = pl.col("bin_width_ms")
    return (
        own.select("cell", "trial", *(name for name in there if name in columns))
        .join(trials.rename({"bin_ms": "bin_width_ms"}), on=["cell", "trial"], maintain_order="left")
        .filter(pl.col("t_ms") <= pl.col("end_s") * 1000)
        .with_columns((((pl.col("t_ms") + wide - 1) // wide) * wide).alias("bin_ms"))
        .drop("cell", "trial", "end_s", "bin_width_ms")
        .collect()
    )


def _bin_ms(end_s: float, interval_ms: float, points: int) -> int:
    """Return a whole number of sample intervals, wide enough for the number of points."""
    samples = max(1, -(-int(end_s * 1000) // int(points * interval_ms)))
    return int(max(samples * interval_ms, 1))


def _group_names(
    tables: RunTables, abouts: Sequence[Mapping[str, Any]], groups: pl.DataFrame
) -> pl.DataFrame:
    """Return `at`, flow `group` and its `name` in legends, those of the L4S congestion controls first."""
    ccs = {row["name"]: row for row in tables.catalog.filter(pl.col("kind") == "cc").iter_rows(named=True)}
    rows: list[tuple[int, bool, str, str]] = []
    for at, group in groups.unique().iter_rows():
        about = abouts[at]
        cc = about.get(f"{group}.cc") or about[f"{group}.send"]
        mode = about.get(f"{group}.ecn")
        ecn = f", ECN {mode}" if mode else ""
        classic = not ccs.get(about.get(f"{group}.cc"), {}).get("l4s", False)
        rows.append((at, classic, group, f"{group}: {ccs.get(cc, {}).get('label', cc)}{ecn}"))
    kinds = {"at": pl.UInt32, "classic": pl.Boolean, "group": pl.String, "name": pl.String}
    return pl.DataFrame(sorted(rows), schema=kinds, orient="row").drop("classic")


def _queue_labels(tables: RunTables) -> dict[str, str]:
    queues = tables.catalog.filter(pl.col("kind") == "queue")
    return dict(queues.select("name", "label").iter_rows())


def _cell_words(tables: RunTables, labels: Mapping[str, str], about: Mapping[str, Any]) -> str:
    named = ("buffer_bdp", "rate_mbps", "rtt_ms")
    settings = (Setting(tables.factors[name], about[name]) for name in named)
    return ", ".join([labels.get(about["aqm"], about["aqm"]), *map(str, settings)])


def _flows(sockets: pl.DataFrame, programs: pl.DataFrame) -> pl.DataFrame:
    """Compute differences of counters and means of samples per flow and bin; a bin is named by its end.

    `programs` are the flows that have no samples, counted already.
    """
    sender, receiver = (sockets.filter(pl.col("side") == side) for side in ("sender", "receiver"))
    by = ["at", "group", "flow", "bin_ms"]
    got = receiver.group_by(by, maintain_order=True).agg(pl.col("received_bytes", "t_ms").last())
    got = _with_differences(got, ("received_bytes", "t_ms")).select(
        *by, (pl.col("received_bytes_more") * 8 / pl.col("t_ms_more") / 1000).alias("goodput_mbps")
    )
    known_rtt = pl.when(pl.col("srtt_ms") > 0).then(pl.col("srtt_ms"))  # it is 0 until a first ACK
    sent = sender.group_by(by, maintain_order=True).agg(
        known_rtt.mean().alias("srtt_ms"),
        pl.col("cwnd_packets").mean(),
        pl.col("delivered_packets", "delivered_ce_packets").last(),
    )
    sent = _with_differences(sent, ("delivered_packets", "delivered_ce_packets"))
    delivered = pl.col("delivered_packets_more")
    marked = pl.when(delivered > 0).then(pl.col("delivered_ce_packets_more") / delivered * 100)
    sent = sent.select(*by, "srtt_ms", "cwnd_packets", marked.alias("ce_percent"))
    both = sent.join(got, on=by, how="full", coalesce=True)
    both = pl.concat([both, programs.cast({"bin_ms": both.schema["bin_ms"]})], how="diagonal_relaxed")
    return both.select(
        "at",
        (pl.col("bin_ms") / 1000).alias("t_s"),
        "group",
        "flow",
        pl.col("goodput_mbps").round(3),
        pl.col("srtt_ms").round(3),
        pl.col("cwnd_packets").round(2),
        pl.col("ce_percent").round(3),
    ).sort("at", "flow", "t_s")


def _ccs(about: Mapping[str, Any]) -> frozenset[str]:
    """Return the congestion controls of a trial."""
    return frozenset(value for name, value in about.items() if name_of(name).key == "cc" and value)


def _wanted(tables: RunTables, ccs: frozenset[str]) -> dict[str, dict[str, str]]:
    """Return what congestion controls have drawn: title -> column of `sockets` -> words."""
    entries = tables.catalog.filter((pl.col("kind") == "cc") & pl.col("name").is_in(sorted(ccs)))
    found: dict[str, dict[str, str]] = {}
    for text in entries["panels"].drop_nulls():
        for title, columns in _plain(text).items():
            found.setdefault(title, {}).update({name: _words(name) for name in columns})
    return found


def _plain(text: str) -> dict[str, list[str]]:
    """Read the column `panels`; what another program wrote there is ignored."""
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    lists = said.items() if isinstance(said, dict) else ()
    return {title: [str(name) for name in names] for title, names in lists if isinstance(names, list)}


def _words(column: str) -> str:
    """Return what a column holds, without the name that it begins with and the unit: `max bw`."""
    own = column.partition("_")[2] or column
    for end, _ in COLUMN_ENDS.values():
        own = own.removesuffix(f"_{end}")
    return own.replace("_", " ")


def _panels(
    wanted: Sequence[Mapping[str, Mapping[str, str]]], sockets: pl.DataFrame
) -> dict[int, list[StatePanel]]:
    """Bin the state of the senders, by trial; panels and lines that nobody reported are left out."""
    sent = sockets.filter(pl.col("side") == "sender")
    state = {name for own in wanted for columns in own.values() for name in columns} & {*sent.columns}
    known = sent.group_by("at").agg(pl.col(name).is_not_null().any() for name in sorted(state))
    reported = {row["at"]: row for row in known.iter_rows(named=True)}
    # trials that draw the same lines: title and lines of every panel
    alike: dict[tuple[tuple[str, tuple[tuple[str, str], ...]], ...], list[int]] = {}
    for at, own in enumerate(wanted):
        there = reported.get(at, {})
        lines = ((title, tuple(_present(columns, there))) for title, columns in own.items())
        alike.setdefault(tuple((title, drawn) for title, drawn in lines if drawn), []).append(at)
    found: dict[int, list[StatePanel]] = {}
    for panels, trials in alike.items():
        own_sent = sent.filter(pl.col("at").is_in(trials)) if panels else sent
        for title, drawn in panels:
            words = sent.schema[drawn[0][0]] == pl.String
            rows = pl.concat([_line(own_sent, name, called, words=words) for name, called in drawn])
            rows = rows.with_columns((pl.col("flow") + " " + pl.col("line")).alias("name"))
            of_trials = _ByTrial(rows.select("at", "t_s", "group", "flow", "line", "name", "value"))
            for at in trials:
                found.setdefault(at, []).append(StatePanel(title, words, of_trials.of(at)))
    return found


def _logged(programs: pl.DataFrame) -> Iterator[tuple[int, StatePanel]]:
    """Yield the panels of what senders' qlogs have beside RTT and window, with the place of their trial."""
    for column, title in LOGGED.items():
        rows = programs.filter(pl.col(column).is_not_null().any().over("at", "flow")).select(
            "at",
            (pl.col("bin_ms") / 1000).alias("t_s"),
            "group",
            "flow",
            pl.lit(title).alias("line"),
            (pl.col("flow") + " " + pl.lit(title)).alias("name"),
            pl.col(column).round(3).alias("value"),
        )
        for (at,), own in rows.partition_by(
            "at", as_dict=True, include_key=False, maintain_order=True
        ).items():
            yield at, StatePanel(title, False, own)


def _present(columns: Mapping[str, str], reported: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    return ((name, called) for name, called in columns.items() if reported.get(name))


def _line(sent: pl.DataFrame, column: str, words_of_it: str, *, words: bool) -> pl.DataFrame:
    value = pl.col(column).drop_nulls().first() if words else pl.col(column).mean().round(3)
    own = sent.group_by("at", "group", "flow", "bin_ms", maintain_order=True).agg(value.alias("value"))
    rows = own.select(
        "at",
        (pl.col("bin_ms") / 1000).alias("t_s"),
        "group",
        "flow",
        pl.lit(words_of_it).alias("line"),
        "value",
    )
    known = pl.col("value").is_not_null()
    # a line has gaps where there is no value, and flows without any have no line
    return rows.filter(known if words else known.any().over("at", "flow"))


def _with_differences(frame: pl.DataFrame, counters: Sequence[str]) -> pl.DataFrame:
    """Return the frame, which is sorted, with what each counter has grown by since the flow's bin before."""
    same = (pl.col("at") == pl.col("at").shift()) & (pl.col("flow") == pl.col("flow").shift())
    return frame.with_columns(
        pl.when(same).then(pl.col(name).diff()).alias(f"{name}_more") for name in counters
    )


_BACKLOG: Final = "backlog_ms"
QUEUE_DELAYS: Final[Mapping[str, str]] = {
    "delay_l4s_ms": "delay of the L4S queue",
    "delay_classic_ms": "delay of the classic queue",
    "delay_ms": "delay of the queue, as it reports",
    _BACKLOG: "backlog at the link's rate",
}
"""Columns with the delay of a queue, and their names in legends."""


def _rates(tables: RunTables, spans: pl.DataFrame) -> pl.DataFrame:
    """Return `at`, `t_ms` and `changed_mbps` of events that change the link's rate, in order of time."""
    try:
        events = tables.scan("events")
    except InputError:  # older tables
        events = empty("events").lazy()
    own = events.join(spans.select("at", "cell", "trial").lazy(), on=["cell", "trial"])
    return rate_changes(own.collect()).select("at", "t_ms", "changed_mbps")


def _fair(span: _Span, changes: pl.DataFrame, flows: int) -> tuple[FairShare, ...]:
    """Return the fair share of each part of a trial between changes of the link's rate."""
    begun = [(0.0, span.rate_mbps), *((t_ms / 1000, mbps) for t_ms, mbps in changes.rows())]
    ends = [*(from_s for from_s, _ in begun[1:]), span.end_s]
    parts = ((from_s, min(to_s, span.end_s), mbps) for (from_s, mbps), to_s in zip(begun, ends, strict=True))
    return tuple(FairShare(from_s, to_s, mbps / flows) for from_s, to_s, mbps in parts if from_s < to_s)


def _queue(queues: pl.DataFrame, rates: pl.DataFrame) -> pl.DataFrame:
    """Return the bottlenecks' delays: as the queue reports them, else its backlog over the link's rate."""
    own = fullest(queues, ["at"])
    own = own.with_columns(pl.col("t_ms").cast(pl.Float64)).sort("t_ms", maintain_order=True)
    own = own.join_asof(rates, on="t_ms", by="at", check_sortedness=False)
    rate_mbps = pl.coalesce("changed_mbps", "rate_mbps")
    own = own.with_columns((pl.col("backlog_bytes") * 8 / rate_mbps / 1000).alias(_BACKLOG))
    known = own.group_by("at").agg(pl.col(name).is_not_null().any() for name in QUEUE_DELAYS)
    shown: dict[str, list[int]] = {name: [] for name in QUEUE_DELAYS}
    for at, *there in known.iter_rows():
        says = [name for name, reported in zip(QUEUE_DELAYS, there, strict=True) if reported]
        for name in [name for name in says if name in {"delay_l4s_ms", "delay_classic_ms"}] or says[:1]:
            shown[name].append(at)
    frames = [
        own.filter(pl.col("at").is_in(shown[name]))
        .group_by("at", "bin_ms", maintain_order=True)
        .agg(pl.col(name).cast(pl.Float64).mean().alias("delay_ms"))
        .with_columns(queue=pl.lit(label))
        for name, label in QUEUE_DELAYS.items()
    ]
    found = pl.concat(frames)
    return found.select(
        "at", (pl.col("bin_ms") / 1000).alias("t_s"), "queue", pl.col("delay_ms").round(3)
    ).sort("at", "queue", "t_s")
