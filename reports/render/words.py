# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Words about a decision table, the same on the terminal, in Markdown, in LaTeX and on the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.catalog.describe import amount, limits
from l4sbench.facts.faults import advice
from l4sbench.matrix import MOST_TRIALS
from l4sbench.text.wording import counted
from reports.result.judging import Word

if TYPE_CHECKING:
    from l4sbench.facts.faults import Remedy
    from reports.result.basis import Basis
    from reports.result.judging import JudgedSide
    from reports.result.stats import Estimate
    from reports.result.verdicts import Decision, JudgedCell, Verdict

GLYPHS: Final[Mapping[Word, str]] = {
    Word.OK: "✓",
    Word.L4S_STARVED: "▼",
    Word.CLASSIC_STARVED: "▲",
    Word.BOTH: "◆",
    Word.UNDECIDED: "?",
    Word.INVALID: "x",
}
"""A verdict is glyph and word, never colour alone."""

STAR: Final = {"all": "★", "some": "☆", "none": ""}

BIMODAL: Final = "two modes"
"""Remark on a cell whose trials fall into two groups."""

UNSURE: Final = "unsure"
"""Remark on a verdict of means that confidence intervals do not bear out."""

NO_TRIAL: Final = "no valid trial"

REGRET_DEFINITION: Final = "l4sbench docs reading expected-regret"
"""Command that prints the definition of the expected regret."""

RUN_AGAIN: Final = "l4sbench run matrix.yaml"
"""Command that resumes a run, in its directory: documents have no paths, as equal tables give equal files."""

COUNT_FORMER: Final = "; --all counts them"
"""End of the note that former cells do not count: an option counts them."""

LISTED: Final = 5
"""Cells and trials are listed up to this many; all are in the tables."""


def verdict_text(verdict: Verdict) -> str:
    """Return a verdict with its certainty: `ok`, `ok, unsure (1 trial)`, or as `doubt_text` has it."""
    return f"{verdict.word}{doubt_text(verdict)}"


def doubt_text(verdict: Verdict, *, why: bool = True) -> str:
    """Return the remark after the word of a verdict that is not sure.

    Such as `: CUBIC may get 22 to 60 Mbit/s, limit 25 (3 trials)`. The side in doubt is one of the cell that
    decides, and is left out unless `why`. The trials are those of the cells in doubt. A verdict of means is
    unsure where the confidence intervals alone would not give it.
    """
    if not is_doubted(verdict):
        return ""
    mark, what = f", {UNSURE}" if is_unsure(verdict) else "", in_doubt(verdict.worst) if why else ""
    return f"{mark}{what and f': {what}'} {_trials_in_doubt(verdict)}"


def is_doubted(verdict: Verdict) -> bool:
    """Return True if a verdict is not sure, and some of its cells are in doubt."""
    return not verdict.sure and verdict.word is not Word.INVALID and bool(verdict.unsure_cells)


def is_unsure(verdict: Verdict) -> bool:
    """Return True if a verdict is in doubt, and its word does not say so."""
    return is_doubted(verdict) and verdict.word is not Word.UNDECIDED


def reason_text(verdict: Verdict) -> str:
    """Return why a verdict is in doubt, `CUBIC may get 22 to 60 Mbit/s, limit 25 (3 trials)`, or nothing."""
    return f"{in_doubt(verdict.worst)} {_trials_in_doubt(verdict)}".lstrip() if is_doubted(verdict) else ""


def _trials_in_doubt(verdict: Verdict) -> str:
    each = span(cell.result.valid for cell in verdict.unsure_cells)
    return f"({each} {'trial' if each == '1' else 'trials'})"


def why_unsure(cell: JudgedCell) -> str:
    """Return why a cell's verdict is not sure: `CUBIC may get 22 to 60 Mbit/s, limit 25`, or `1 trial`.

    The text is empty for a sure one.
    """
    if cell.sure or not cell.result.valid:
        return ""
    return in_doubt(cell) or counted(cell.result.valid, "trial")


def in_doubt(cell: JudgedCell) -> str:
    """Return the intervals that do not settle a cell's verdict, whose they are, and the limits in them.

    Where there are none for lack of trials of a baseline, the text names it. It is empty where there are none
    because the cell has 1 trial.
    """
    return "; ".join(text for side in cell.judged.doubts if (text := _may(cell, side)))


def _may(cell: JudgedCell, side: JudgedSide) -> str:
    name, kept = cell.called(side.role), interval_text(side)
    if not kept:
        return f"{name} alone has only 1 trial" if side.whole.alone_trials == 1 < side.keeps.trials else ""
    what = "Mbit/s" if side.in_mbps else f"% of {'what it gets alone' if side.whole.alone else 'the link'}"
    if side.own_kind is not None:
        return f"{name} may get {kept} {what}, beside its own kind {_own_kind(side.own_kind)}"
    return f"{name} may get {kept} {what}, {limits_text(side, side.open_at)}"


def _own_kind(kind: Estimate) -> str:
    return f"{between(kind)} %" if kind.interval else f"{number(kind)} % in {counted(kind.trials, 'trial')}"


def side_text(cell: JudgedCell, side: JudgedSide) -> str:
    """Return what a group keeps, its interval and its limits: `CUBIC 40.7 Mbit/s (22 to 60), limit 25`."""
    kept, unit = interval_text(side), "Mbit/s" if side.in_mbps else "%"
    mean = _mean_text(side.told(side.keeps.value), [side.told(limit) for limit in side.limits])
    limits = limits_text(side, side.limits)
    return f"{cell.called(side.role)} {mean} {unit}{kept and f' ({kept})'}{limits and f', {limits}'}"


def limits_text(side: JudgedSide, limits: Sequence[float]) -> str:
    """Return some of a side's limits in its unit: `limit 25`, `limits 20 and 80`; empty for none."""
    told = " and ".join(limit_text(side.told(limit)) for limit in limits)
    return told and f"{'limit' if len(limits) == 1 else 'limits'} {told}"


def limit_text(limit: float) -> str:
    """Return a limit with four digits, or with all before the point: `33.33`, `25000`."""
    return f"{limit:.0f}" if limit >= 1000 else f"{limit:.4g}"


def interval_text(side: JudgedSide) -> str:
    """Return the interval of a side in its unit: `22 to 60`; empty where there is none.

    It has as few digits as keep its ends on their sides of the limits.
    """
    ends = side.keeps.interval
    if ends is None:
        return ""
    low, high = (side.told(end) for end in ends)
    least = 0 if high >= 10 else 1 if high >= 1 else 2
    digits = _digits((low, high), [side.told(limit) for limit in side.limits], least)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def _mean_text(mean: float, limits: Sequence[float], least: int = 1) -> str:
    return f"{mean:.{_digits((mean,), limits, least)}f}"


_MOST_DIGITS: Final = 4


def _digits(values: Sequence[float], limits: Sequence[float], least: int) -> int:
    """Return how many digits keep rounded values on their sides of limits: below any, above an upper one."""

    def place(value: float) -> list[bool]:
        return [*(value < limit for limit in limits), *(value > limit for limit in limits[1:])]

    found = (n for n in range(least, _MOST_DIGITS) if all(place(round(v, n)) == place(v) for v in values))
    return next(found, _MOST_DIGITS)


def worst_text(verdict: Verdict) -> str:
    """Return the cell that decides, with its numbers: `FIFO, 2 BDP: 88.6 % (88.6 v 6.4 Mbit/s)`."""
    return f"{verdict.worst.label}: {figures_text(verdict.worst)}"


def part_text(verdict: Verdict) -> str:
    """Return what decides about one queue, without its name: `2 BDP: 88.6 % (88.6 v 6.4 Mbit/s)`."""
    settings = ", ".join(setting.text for setting in verdict.worst.label.settings)
    return f"{settings and f'{settings}: '}{figures_text(verdict.worst)}"


@dataclass(frozen=True)
class Figures:
    """The means of a cell as text, of both groups where they have them: `40.7 v 54.7`; else empty.

    Attributes:
        share_percent: Goodput of the L4S group in percent of the link's rate.
        goodput_mbps: Goodputs.
        delay_ms: Delays, smoothed RTT minus base RTT.
        harm_percent: Goodput that each group loses, where there are baselines.
    """

    share_percent: str
    goodput_mbps: str
    delay_ms: str
    harm_percent: str


def figures(cell: JudgedCell) -> Figures | None:
    """Return the means of a cell; None without a valid trial."""
    share, l4s, classic = cell.result.share, cell.result.l4s, cell.result.classic
    if share is None:
        return None
    return Figures(
        share_text(cell, share),
        _both(l4s.goodput, classic.goodput),
        _both(l4s.delay, classic.delay),
        _both(l4s.harm, classic.harm, 0),
    )


def share_text(cell: JudgedCell, share: Estimate, least: int = 1) -> str:
    """Return the L4S group's share of the link, with digits that keep it on its side of the rule's limits."""
    side, _ = cell.judged.sides
    return _mean_text(share.value, () if side.whole.alone else side.limits, least)


def _both(l4s: Estimate | None, classic: Estimate | None, digits: int = 1) -> str:
    return f"{number(l4s, digits)} v {number(classic, digits)}" if l4s and classic else ""


def figures_text(cell: JudgedCell) -> str:
    """Return the figures of a cell in words: `88.6 % (88.6 v 6.4 Mbit/s, delay 4.1 v 9.7 ms)`."""
    found = figures(cell)
    if found is None:
        return NO_TRIAL
    parts = [f"{found.goodput_mbps} Mbit/s"]
    if found.delay_ms:
        parts.append(f"delay {found.delay_ms} ms")
    if found.harm_percent:
        parts.append(f"harm {found.harm_percent} %")
    if cell.result.bimodal:
        parts.append(BIMODAL)
    return f"{found.share_percent} % ({', '.join(parts)})"


def between(found: Estimate | None) -> str:
    """Return the ends of an estimate's interval: `33.9 to 34.8`; empty where there is none."""
    ends = found and found.interval
    return f"{ends[0]:.1f} to {ends[1]:.1f}" if ends else ""


def number(found: Estimate | float | None, digits: int = 1) -> str:
    """Return a number or an estimate's mean as text; a dash where there is none."""
    value = found if found is None or isinstance(found, int | float) else found.value
    return "\u2013" if value is None else f"{value:.{digits}f}"


def span(numbers: Iterable[int]) -> str:
    """Return `3`, or `3 to 10` where numbers differ."""
    each = sorted(set(numbers))
    return str(each[0]) if len(each) == 1 else f"{each[0]} to {each[-1]}"


@dataclass(frozen=True)
class Note:
    """A line below a decision table, and lines with its details.

    `has_code` is True where backquotes in the text mark code; elsewhere they are part of a name.
    """

    text: str
    details: tuple[str, ...] = ()
    has_code: bool = False


def notes(decision: Decision, command: str = RUN_AGAIN) -> list[Note]:
    """Return what a decision table must state about itself: rule, limits, trials, kernels and so on.

    `command` runs the matrix again.
    """
    rule, shown = decision.rule, {verdict.word for verdict in decision.verdicts}
    lines = [f"ok: {rule.limits_text}, {sureness(decision)}. Each entry shows the cell that decides."]
    lines += [f"{GLYPHS[word]} {word}: {text}" for word, text in meanings(decision).items() if word in shown]
    if any(map(is_unsure, decision.verdicts)):
        lines.append(f"{UNSURE}: {unsure_meaning(decision)}")
    if any(verdict.low_latency != "none" for verdict in decision.verdicts):
        lines.append(f"★: {low_latency_text(decision)}")
    lines += _low_latency_notes(decision)
    remedy = [Note(text, has_code=True)] if (text := make_sure(decision, command)) else []
    return [*(Note(line) for line in lines), *remedy, *_provenance(decision)]


def brief(decision: Decision, command: str = RUN_AGAIN) -> list[Note]:
    """Return those of `notes` that a reader must not miss: what is in doubt, and what does not count."""
    out, dropped = decision.left_out, [cell for cell in decision.cells if cell.result.only_dropped]
    texts = [
        f"only dropped: {only_dropped_meaning(len(dropped))}" if dropped else "",
        former_text(decision),
        make_sure(decision, command),
    ]
    left_out = (
        [Note(f"left out: {counted(len(out), 'trial')}", tuple(left_out_hints(decision)))] if out else []
    )
    return [*left_out, *(Note(text, has_code=True) for text in texts if text)]


def unsure_meaning(decision: Decision) -> str:
    """Return the meaning of `unsure`."""
    over = " over seeds" if decision.testbeds == ("virtual",) else ""
    return f"the means say so, but their 95 % confidence intervals{over} do not rule out another verdict"


def make_sure(decision: Decision, command: str = RUN_AGAIN) -> str:
    """Return the command that adds trials to the cells in doubt, in a sentence; empty where there are none.

    `command` runs the matrix again.
    """
    found = sure_command(decision, command)
    if not found:
        return ""
    most = _most_trials(decision)
    up_to = 2 * most if most >= MOST_TRIALS else MOST_TRIALS
    where = " in the run directory" if command == RUN_AGAIN else ""
    return f"to make it sure: `{found}`{where} adds trials to the cells in doubt, up to {up_to} each"


def sure_command(decision: Decision, command: str = RUN_AGAIN) -> str:
    """Return the command that adds trials to the cells in doubt; empty where there are none.

    `command` runs the matrix again.
    """
    if not decision.in_doubt:
        return ""
    most = _most_trials(decision)
    return f"{command} --sure" + (f" --trials {2 * most}" if most >= MOST_TRIALS else "")


def _most_trials(decision: Decision) -> int:
    """Return the most trials that a cell in doubt has."""
    return max(cell.result.valid + cell.result.left_out for cell in decision.in_doubt)


def low_latency_text(decision: Decision) -> str:
    """Return the meaning of the stars."""
    rule = decision.rule
    what = {"mean": "mean smoothed RTT minus base RTT", "p99": "p99 of queuing delay per packet"}
    sure = "" if rule.intervals == "none" else ", with its whole interval,"
    delay = f"{called(decision)[0]}'s {what[rule.low_latency_of]}{sure} is below {rule.low_latency_ms:g} ms"
    has_some = any(verdict.low_latency == "some" for verdict in decision.verdicts)
    return f"{delay} in every cell{'; ☆: in all cells of some queues' if has_some else ''}"


def sureness(decision: Decision) -> str:
    """Return what a rule needs to be sure, and what it must be sure of."""
    if decision.rule.intervals == "none":
        return "as a mean over the cell's trials"
    over = " over seeds" if decision.testbeds == ("virtual",) else ""
    looks = f", all {decision.looks} looks together" if decision.looks > 1 else ""
    return f"by the 95 % confidence interval of the mean{over}{looks}"


def called(decision: Decision) -> tuple[str, str]:
    """Return how texts call the two groups: by their congestion controls, where each has only one."""
    l4s = {cell.called("l4s") for cell in decision.cells}
    classic = {cell.called("classic") for cell in decision.cells}
    return (
        l4s.pop() if len(l4s) == 1 else decision.rule.l4s,
        classic.pop() if len(classic) == 1 else "the competitor",
    )


def meanings(decision: Decision) -> Mapping[Word, str]:
    """Return the meaning of each verdict except ok that the decision's rule can give."""
    rule, (l4s, classic) = decision.rule, called(decision)
    low, high = rule.limits_percent.low, rule.limits_percent.high
    if rule.metric == "l4s-goodput":
        starved = (f"{l4s} gets less than {low:g} %", f"{l4s} gets more than {high:g} %")
    else:
        kind = ", and less than beside its own kind" if rule.own_kind else ""
        starved = (f"{l4s} gets less", f"{classic} gets less{kind}")
    undecided = {
        Word.UNDECIDED: "a group's confidence interval straddles its limit, or there is none (1 trial)"
    }
    return {
        Word.L4S_STARVED: starved[0],
        Word.CLASSIC_STARVED: starved[1],
        Word.BOTH: "each of them gets less in some cell, in the same or in different ones",
        **({} if rule.intervals == "none" else undecided),
        Word.INVALID: "a cell without a valid trial",
    }


def _low_latency_notes(decision: Decision) -> Iterator[str]:
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for verdict in decision.verdicts:
        if verdict.low_latency == "some":
            found.setdefault((verdict.row, verdict.low_latency_in), []).append(str(verdict.column))
    for (row, queues), columns in found.items():
        yield f"☆ {row} against {'; '.join(columns)}: {', '.join(queues)}"


FLAGS: Final = {
    "low-utilisation": "all flows together used less than 80 % of the link",
    "busy-host": "a node's host was late at more instants than usual, but few enough",
    "limited-start": "a host's buffers limited a flow at its start, for 1 to 2 % of its time",
}
"""Remarks on valid trials, explained; docs/troubleshooting.md says more."""


def _provenance(decision: Decision) -> Iterator[Note]:
    every = [cell for verdict in decision.verdicts for cell in verdict.cells]
    trials, cells = counted(decision.trials, "valid trial"), counted(len(every), "cell")
    each = span(decision.trials_per_cell)
    yield Note(f"{trials} of {cells}, {each} per cell, on {_list(decision.testbeds)}")
    if decision.looks > 1:
        yield _adaptive(decision, every)
    if bimodal := [cell for cell in every if cell.result.bimodal]:
        count = counted(len(bimodal), "cell")
        yield Note(
            f"{BIMODAL}: in {count} the trials fall into two groups that the mean does not show",
            tuple(_modes(cell) for cell in bimodal[:LISTED]),
        )
    if decision.baselines:
        groups = f"{decision.rule.l4s} v {decision.rule.classic}"
        count = counted(decision.baselines, "baseline")
        yield Note(f"harm: goodput that {groups} lose compared with running alone, from {count}")
    yield Note(f"kernels: {_list(decision.kernels)}; modules: {_list(decision.modules)}")
    if fixed := fixed_text(decision):
        yield Note(f"the same in all cells: {fixed}")
    yield from _of_queues(decision, every)
    for flag, valid in decision.flagged.items():
        meaning = (FLAGS[flag],) if flag in FLAGS else ()
        yield Note(f"flagged {flag}: {counted(valid, 'valid trial')}", meaning)
    if decision.solo:
        yield Note(f"not in the table: {counted(decision.solo, 'cell')} without both flow groups")
    if former := former_text(decision):
        yield Note(former)
    if out := decision.left_out:
        listed = [f"{trial.status} {trial.cell}/{trial.trial}: {trial.reasons}" for trial in out[:LISTED]]
        if len(out) > LISTED:
            listed.append(f"... and {len(out) - LISTED} more, in table trials")
        listed += left_out_hints(decision)
        yield Note(f"left out: {counted(len(out), 'trial')}", tuple(listed))


def _modes(cell: JudgedCell) -> str:
    parts = (f"{cell.label}: {figures_text(cell)}", in_doubt(cell), f"{cell.result.valid} trials", cell.id)
    return ", ".join(filter(None, parts))


def _of_queues(decision: Decision, cells: Sequence[JudgedCell]) -> Iterator[Note]:
    if held := queue_limits_text(decision):
        yield Note(f"queues: {held}")
    if dropped := [cell for cell in cells if cell.result.only_dropped]:
        listed = [f"{cell.label}: {only_dropped_text(cell)}, {cell.id}" for cell in dropped[:LISTED]]
        if len(dropped) > LISTED:
            listed.append(f"... and {counted(len(dropped) - LISTED, 'more cell')}")
        yield Note(f"only dropped: {only_dropped_meaning(len(dropped))}", tuple(listed))
    if forms := forms_text(decision):
        yield Note(f"queue forms: {forms}")


def _adaptive(decision: Decision, cells: Sequence[JudgedCell]) -> Note:
    """List the cells that got more trials than others."""
    least = min(decision.trials_per_cell)
    more = [cell for cell in cells if cell.result.valid > least]
    listed = [
        f"{cell.result.valid} trials: {cell.label}, {cell.id}"
        + ("" if cell.judged.decided else ", still in doubt")
        for cell in more[:LISTED]
    ]
    if len(more) > LISTED:
        listed.append(f"... and {counted(len(more) - LISTED, 'more cell')}")
    text = f"trials per cell, with more where a cell was in doubt: {counts_text(decision)}"
    return Note(text, tuple(listed))


def counts_text(decision: Decision) -> str:
    """Return how many cells have how many valid trials: `3 in 7 cells, 5 in 1 cell`."""
    return ", ".join(f"{n} in {counted(cells, 'cell')}" for n, cells in decision.trials_per_cell.items())


def left_out_hints(basis: Basis) -> list[str]:
    """Return a hint for every reason for which trials were left out, with the number of trials."""
    found = left_out_advice(basis)
    return [f"hint for {counted(trials, 'trial')}: {remedy.text}" for remedy, trials in found.items()]


def left_out_advice(basis: Basis) -> Mapping[Remedy, int]:
    """Return the advice on the trials that were left out, with the number of trials of each."""
    return advice((trial.status, trial.faults) for trial in basis.left_out if trial.status != "ok")


def former_text(basis: Basis) -> str:
    """Return how much of the run does not count because its matrix no longer has it; empty for nothing."""
    former = basis.former
    if not former.trials:
        return ""
    cells = counted(former.cells, "former cell")
    return f"not counted: {counted(former.trials, 'trial')} of {cells}, not in the matrix now{COUNT_FORMER}"


_FIXED: Final = {
    "topology": "topology {}",
    "rate_mbps": "rate {:g} Mbit/s",
    "rtt_ms": "RTT {:g} ms",
    "duration_s": "{:g} s measured",
    "warmup_s": "{:g} s warm-up",
}


def fixed_text(basis: Basis) -> str:
    """Return the factors that all cells share and that a reader looks for first, in words."""
    fixed = basis.fixed
    return ", ".join(text.format(fixed[name].value) for name, text in _FIXED.items() if name in fixed)


def queue_limits_text(decision: Decision) -> str:
    """Return how much the queues of the table hold: `CoDel (+ECN) limit 42 packets`."""
    held = ((cell.label.head, cell.result.limit) for cell in decision.cells)
    return limits((queue, limit) for queue, limit in held if limit is not None)


def only_dropped_meaning(cells: int) -> str:
    """Return what it means that a queue only dropped in so many cells."""
    return f"in {counted(cells, 'cell')} the queue can mark and flows use ECN, but it marked nothing"


def only_dropped_text(cell: JudgedCell) -> str:
    """Return what a queue did that could mark and did not: `limit 4 packets; this queue dropped 256 ...`.

    It is empty where the queue marked, or cannot.
    """
    did, limit = cell.result.only_dropped, cell.result.limit
    if did is None:
        return ""
    held = "" if limit is None else f"limit {amount(limit)}; "
    return f"{held}this queue dropped {did.packets} and marked 0 packets in {counted(did.trials, 'trial')}"


def forms_text(decision: Decision) -> str:
    """Return the queues that have several forms, each with the form that was used."""
    forms = {(cell.label.head, cell.result.value("aqm.form")) for cell in decision.cells}
    return ", ".join(f"{queue} {form}" for queue, form in sorted(pair for pair in forms if pair[1]))


def _list(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"
