# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision table for the terminal and as Markdown: a verdict is glyph and word, never colour alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports.result.verdicts import CellMean, Decision, Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GLYPHS: Final[Mapping[Word, str]] = {
    Word.OK: "✓",
    Word.L4S_STARVED: "▼",
    Word.CLASSIC_STARVED: "▲",
    Word.BOTH: "◆",
    Word.UNDECIDED: "?",
    Word.INVALID: "x",
}
STAR: Final = {"all": "★", "some": "☆", "none": ""}

_STYLES: Final[Mapping[Word, str]] = {
    Word.OK: "green",
    Word.L4S_STARVED: "blue",
    Word.CLASSIC_STARVED: "red",
    Word.BOTH: "magenta",
    Word.UNDECIDED: "yellow",
    Word.INVALID: "dim",
}

BIMODAL: Final = "two modes"
"""Said of a cell whose trials fall into two groups."""

LEFT_OUT_SHOWN: Final = 5
"""Trials that do not count are listed up to this many; all are in the table `trials`."""


def terminal(decision: Decision) -> RenderableType:
    """The decision table for a rich console, which leaves out colours where there are none to be had."""
    parts: list[RenderableType] = []
    for question in decision.questions:
        parts += [_question(decision, question), ""]
    parts += [Text(line) for line in notes(decision)]
    return Group(*parts)


def as_text(decision: Decision, width: int = 120) -> str:
    """The same as plain text without colours."""
    console = Console(width=width, color_system=None, force_terminal=False, record=False)
    with console.capture() as captured:
        console.print(terminal(decision))
    return captured.get()


def _question(decision: Decision, question: str) -> Table:
    rule = decision.rule
    table = Table(
        title=f"Is it okay to switch to {question}? (rule {rule.rule}, version {rule.version})",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_lines=True,
        pad_edge=False,
    )
    table.add_column("queue", style="bold", min_width=14)
    columns = decision.columns(question)
    for column in columns:
        table.add_column(f"against {column}")
    for row in decision.rows(question):
        entries = (decision.entry(question, row, column) for column in columns)
        table.add_row(row, *(_entry(verdict) for verdict in entries))
    return table


def _entry(verdict: Verdict | None) -> RenderableType:
    if verdict is None:
        return Text("not run", style="dim")
    head = Text(f"{GLYPHS[verdict.word]} {verdict.word}", style=f"bold {_STYLES[verdict.word]}")
    if star := STAR[verdict.low_latency]:
        head.append(f" {star}", style="yellow")
    return Group(head, Padding(Text(worst_text(verdict), style="default"), (0, 0, 0, 2)))


def worst_text(verdict: Verdict) -> str:
    """`CoDel (+ECN), 2 BDP: 88.6 % (88.6 v 6.4 Mbit/s)`: the cell that decides, with its numbers."""
    return f"{verdict.worst.label}: {_figures(verdict.worst)}"


def _figures(cell: CellMean) -> str:
    if cell.percent is None or cell.l4s_mbps is None or cell.classic_mbps is None:
        return "no valid trial"
    said = [f"{cell.l4s_mbps:.1f} v {cell.classic_mbps:.1f} Mbit/s"]
    if cell.l4s_harm_percent is not None and cell.classic_harm_percent is not None:
        said.append(f"harm {cell.l4s_harm_percent:.0f} v {cell.classic_harm_percent:.0f} %")
    if not cell.decided:
        said += _doubt(cell)
    if cell.bimodal:
        said.append(BIMODAL)
    return f"{cell.percent:.1f} % ({', '.join(said)})"


def _doubt(cell: CellMean) -> Iterator[str]:
    """The intervals that leave a cell in doubt: of its harms where it has them, else of its goodput."""
    intervals = {
        "l4s harm": (cell.l4s_harm_low_percent, cell.l4s_harm_high_percent),
        "classic harm": (cell.classic_harm_low_percent, cell.classic_harm_high_percent),
    }
    if cell.l4s_harm_percent is None:
        intervals = {"interval": (cell.percent_low, cell.percent_high)}
    for name, (low, high) in intervals.items():
        if low is not None and high is not None:
            yield f"{name} {low:.1f} to {high:.1f} %"


def plural(count: int, word: str) -> str:
    """`1 trial`, `3 trials`."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def notes(decision: Decision) -> list[str]:
    """What a decision table must state about itself: rule, thresholds, trials, kernels, what was left out."""
    rule, shown = decision.rule, {verdict.word for verdict in decision.verdicts}
    lines = [f"ok: {rule.limits_text}, {sureness(decision)}. Shown is the cell that decides."]
    lines += [f"{GLYPHS[word]} {word}: {text}" for word, text in meanings(decision).items() if word in shown]
    stars = {verdict.low_latency for verdict in decision.verdicts}
    if stars & {"all", "some"}:
        lines.append(f"★: {low_latency_text(decision)}")
    lines += _low_latency_notes(decision)
    lines += _provenance(decision)
    return lines


def low_latency_text(decision: Decision) -> str:
    """What the stars mean."""
    rule = decision.rule
    what = {"mean": "mean smoothed RTT minus base RTT", "p99": "p99 of queuing delay per packet"}
    sure = "" if rule.intervals == "none" else ", with its whole interval,"
    delay = f"{rule.l4s}'s {what[rule.low_latency_of]}{sure} is below {rule.low_latency_ms:g} ms"
    has_some = any(verdict.low_latency == "some" for verdict in decision.verdicts)
    return f"{delay} in every cell{'; ☆: in all cells of some queues' if has_some else ''}"


def sureness(decision: Decision) -> str:
    """How sure a rule wants to be, and of what."""
    if decision.rule.intervals == "none":
        return "as a mean over the cell's trials"
    over = " over seeds" if decision.testbeds == ("virtual",) else ""
    looks = f", all {decision.looks} looks together" if decision.looks > 1 else ""
    return f"by the 95 % confidence interval of the mean{over}{looks}"


def meanings(decision: Decision) -> Mapping[Word, str]:
    """What each verdict but ok means by the decision's rule."""
    rule = decision.rule
    low, high = rule.limits_percent.low, rule.limits_percent.high
    if rule.metric == "l4s-goodput":
        starved = (f"{rule.l4s} gets less than {low:g} %", f"{rule.l4s} gets more than {high:g} %")
    else:
        kind = ", and less than beside its own kind" if rule.own_kind else ""
        starved = (f"{rule.l4s} gets less", f"{rule.classic} gets less{kind}")
    return {
        Word.L4S_STARVED: starved[0],
        Word.CLASSIC_STARVED: starved[1],
        Word.BOTH: "one in some cells, the other in others",
        Word.UNDECIDED: "the confidence interval straddles a limit",
        Word.INVALID: "a cell without a valid trial",
    }


def _low_latency_notes(decision: Decision) -> Iterator[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for verdict in decision.verdicts:
        if verdict.low_latency == "some":
            found.setdefault((verdict.row, ", ".join(verdict.low_latency_in)), []).append(verdict.column)
    for (row, queues), columns in found.items():
        yield f"☆ {row} against {'; '.join(columns)}: {queues}"


def _provenance(decision: Decision) -> Iterator[str]:
    cells = sum(len(verdict.cells) for verdict in decision.verdicts)
    per_cell = decision.trials_per_cell
    least, most = min(per_cell), max(per_cell)
    each = f"{least}" if least == most else f"{least} to {most}"
    where = _list(decision.testbeds)
    trials = plural(decision.trials, "valid trial")
    yield f"{trials} of {plural(cells, 'cell')}, {each} per cell, on {where}"
    if decision.looks > 1:
        yield from _adaptive(decision)
    yield from _modes(decision)
    if decision.baselines:
        groups = f"{decision.rule.l4s} v {decision.rule.classic}"
        yield f"harm: what {groups} lose of what they get alone, by {plural(decision.baselines, 'baseline')}"
    yield f"kernels: {_list(decision.kernels)}; modules: {_list(decision.modules)}"
    if fixed := fixed_text(decision.fixed):
        yield f"the same in all cells: {fixed}"
    forms = forms_text(decision.cells)
    if forms:
        yield f"queue forms: {forms}"
    for flag, count in decision.flagged.items():
        yield f"flagged {flag}: {plural(count, 'valid trial')}"
    if decision.solo:
        yield f"not in the table: {plural(decision.solo, 'cell')} without both flow groups"
    if decision.left_out:
        yield f"left out: {plural(len(decision.left_out), 'trial')}"
        for trial in decision.left_out[:LEFT_OUT_SHOWN]:
            yield f"  {trial.status} {trial.cell}/{trial.trial}: {trial.reasons}"
        if len(decision.left_out) > LEFT_OUT_SHOWN:
            yield f"  ... and {len(decision.left_out) - LEFT_OUT_SHOWN} more, in the table `trials`"


def _adaptive(decision: Decision) -> Iterator[str]:
    """How many trials ran where."""
    yield f"trials were added until the verdict was decided: {counts_text(decision)}"
    least = min(decision.trials_per_cell)
    more = [cell for verdict in decision.verdicts for cell in verdict.cells if cell.valid > least]
    for cell in more[:LEFT_OUT_SHOWN]:
        doubt = "" if cell.decided else ", still in doubt"
        yield f"  {cell.valid} trials: {cell.label}, {cell.cell}{doubt}"
    if len(more) > LEFT_OUT_SHOWN:
        yield f"  ... and {plural(len(more) - LEFT_OUT_SHOWN, 'more cell')}"


def counts_text(decision: Decision) -> str:
    """How many cells have how many valid trials: `3 in 7 cells, 5 in 1 cell`."""
    return ", ".join(f"{n} in {plural(cells, 'cell')}" for n, cells in decision.trials_per_cell.items())


def _modes(decision: Decision) -> Iterator[str]:
    """Cells whose mean hides that trials fall into two groups."""
    found = [cell for verdict in decision.verdicts for cell in verdict.cells if cell.bimodal]
    if found:
        cells = plural(len(found), "cell")
        yield f"{BIMODAL}: in {cells} trials fall into two groups, and a mean tells little"
    for cell in found[:LEFT_OUT_SHOWN]:
        yield f"  {cell.label}: {_figures(cell)}, {cell.valid} trials, {cell.cell}"


_FIXED_SHOWN: Final = {
    "topology": "topology {}",
    "rate_mbps": "rate {:g} Mbit/s",
    "rtt_ms": "RTT {:g} ms",
    "duration_s": "{:g} s measured",
    "warmup_s": "{:g} s warm-up",
}


def fixed_text(fixed: Mapping[str, object]) -> str:
    """The factors of `Decision.fixed` that a reader wants to know first, in words."""
    said = [text.format(fixed[name]) for name, text in _FIXED_SHOWN.items() if name in fixed]
    return ", ".join(said)


def forms_text(cells: pl.DataFrame) -> str:
    """Queues that come in several forms, and which was used."""
    if "aqm.form" not in cells.columns:
        return ""
    pairs = cells.select("queue", "aqm.form").drop_nulls().unique().sort("queue", "aqm.form")
    return ", ".join(f"{queue} {form}" for queue, form in pairs.iter_rows())


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"


def markdown(decision: Decision, remarks: Sequence[str] = ()) -> str:
    """The decision table as Markdown, with the means of all its cells; remarks end the notes."""
    lines = ["# Decision table", ""]
    for question in decision.questions:
        lines += _markdown_question(decision, question)
    lines += [f"- {line}" if not line.startswith("  ") else f"  - {line.strip()}" for line in notes(decision)]
    lines += [f"- {remark}" for remark in remarks]
    lines += [
        "",
        "## Cells",
        "",
        "Goodput of the L4S flows (of the classic flows), Mbit/s, mean over trials.",
        "",
    ]
    for question in decision.questions:
        for column in decision.columns(question):
            lines += _markdown_cells(decision, question, column)
    return "\n".join(lines).rstrip() + "\n"


def _markdown_question(decision: Decision, question: str) -> list[str]:
    columns = decision.columns(question)
    lines = [f"## Is it okay to switch to {question}?", ""]
    lines += [
        _line("queue", *(f"against {_escape(column)}" for column in columns)),
        _line(*["---"] * (len(columns) + 1)),
    ]
    for row in decision.rows(question):
        entries = (decision.entry(question, row, column) for column in columns)
        lines.append(_line(f"**{_escape(row)}**", *(_markdown_entry(verdict) for verdict in entries)))
    rule = decision.rule
    return [*lines, "", f"Rule `{rule.rule}`, version {rule.version}.", ""]


def _markdown_entry(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run"
    head = " ".join(
        word for word in (GLYPHS[verdict.word], f"**{verdict.word}**", STAR[verdict.low_latency]) if word
    )
    return f"{head}<br>{_escape(worst_text(verdict))}"


def _markdown_cells(decision: Decision, question: str, column: str) -> list[str]:
    """Queues down, buffers across, one line per setting of everything else."""
    cells = decision.cells.filter((pl.col("question") == question) & (pl.col("column") == column))
    buffers = sorted(cells["buffer_bdp"].unique().to_list())
    lines = [f"### {question} against {column}", ""]
    lines += [
        _line("queue", *(f"{buffer:g} BDP" for buffer in buffers)),
        _line(*["---"] * (len(buffers) + 1)),
    ]
    rows: dict[str, dict[float, str]] = {}
    for cell in cells.iter_rows(named=True):
        name = str(cell["label"]).replace(f", {cell['buffer_bdp']:g} BDP", "")
        if cell["l4s_mbps"] is None:
            figure = "no valid trial"
        else:
            figure = f"{cell['l4s_mbps']:.1f} ({cell['classic_mbps']:.1f})"
            figure += f", {BIMODAL}" if cell["bimodal"] else ""
        rows.setdefault(name, {})[cell["buffer_bdp"]] = figure
    lines += [
        _line(_escape(name), *(row.get(buffer, "") for buffer in buffers)) for name, row in rows.items()
    ]
    return [*lines, ""]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
