# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Progress of a run and of a lab build: a bar on a terminal, a line per step elsewhere.

`L4SBENCH_PROGRESS=off` disables the bar on a terminal too.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from l4sbench.app.meanwhile import Meanwhile
from l4sbench.cli.terminal import Styled, is_terminal, kernels_text, say
from l4sbench.errors import L4sbenchError
from l4sbench.facts import events
from l4sbench.printable import printable
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from l4sbench.testbeds.virtual.lab import BuildStep

_Line: TypeAlias = "tuple[str | Styled, ...]"
"""The parts of a line; none of a line that is not printed."""

TableOf: TypeAlias = "Callable[[Path], RenderableType]"
"""Returns the table of a run directory."""

_MARKS = {"ok": ("ok", "green"), "invalid": ("invalid", "yellow"), "failed": ("FAILED", "red")}


def wants_bar() -> bool:
    """Return True if stderr is a terminal and the user has not disabled the bar."""
    return is_terminal(sys.stderr) and os.environ.get("L4SBENCH_PROGRESS", "") != "off"


@contextmanager
def run_progress(table_of: TableOf | None = None) -> Iterator[Callable[[events.Event], None]]:
    """Yield a listener for the events of a run: a bar on a terminal, one line per trial otherwise.

    `table_of` makes a table of a run directory, shown below the bar as far as the terminal has room, and made
    anew as trials end.
    """
    if not wants_bar():
        yield _Lines()
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    bar = Progress(
        BarColumn(bar_width=30),
        TextColumn("{task.description}", markup=False),
        console=console,
        auto_refresh=False,
    )
    with ExitStack() as stack:
        table = stack.enter_context(_Table(table_of).working()) if table_of else None
        shown = (lambda: Group(bar, table.shown)) if table else (lambda: bar)
        live = Live(get_renderable=shown, console=console, transient=True, auto_refresh=False)
        stack.enter_context(live)
        sink = _Bar(bar, live.refresh)
        stack.enter_context(sink.ticking())

        def hear(event: events.Event) -> None:
            sink(event)
            if table is not None and isinstance(event, events.TrialEnded):
                table.ended(event.path)

        yield hear


class _Table:
    """The decision table of a run that goes on, made by a thread of its own whenever trials have ended."""

    def __init__(self, table_of: TableOf) -> None:
        self.shown: RenderableType = ""
        self._table_of = table_of
        self._run: Path | None = None
        self._meanwhile = Meanwhile(self._make, _PAUSE_S, _PAUSES)

    def ended(self, trial: Path) -> None:
        """Take note of a trial that has ended, by its folder `<run>/cells/<cell>/<trial>`."""
        self._run = trial.parents[2]
        self._meanwhile.happened()

    @contextmanager
    def working(self) -> Iterator[_Table]:
        """Make tables until the end; what is wrong with one of them is shown in its place."""
        with self._meanwhile.working():
            yield self

    def _make(self, _: float) -> None:
        if self._run is not None:
            try:
                self.shown = self._table_of(self._run)
            except L4sbenchError as error:
                self.shown = printable(f"no table yet: {error.message}")


_PAUSE_S = 1.0
_PAUSES = 9.0
"""Least time between two tables, and in tables' processor times: they must not slow the trials down."""


class _Lines:
    """One line per ended trial, for logs and pipes."""

    def __init__(self) -> None:
        self._progress = events.Progress()
        self._said_s = 0.0

    def __call__(self, event: events.Event) -> None:
        self._progress = self._progress.after(event)
        if isinstance(event, events.TrialParsed) and event.at_s < self._said_s + _PARSING_SILENT_S:
            return
        self._said_s = event.at_s
        line = self._line(event)
        if line:
            say(*line)

    def _line(self, event: events.Event) -> _Line:
        match event:
            case events.TrialEnded():
                done = f"{self._progress.ended}/{self._progress.trials}"
                over = self._progress.ended >= self._progress.trials
                left = "" if over else f", {self._progress.left()} left"
                return (f"[{done}{left}] ", *_ended(event))
            case events.RunPlanned():
                return _planned(event)
            case events.RunEnded() if self._progress.ended and not self._progress.stopping:
                return ("writing tables",)
            case events.TrialParsed():
                return (f"writing tables, {event.parsed} trials read",)
            case _:
                return _notice(event)


_PARSING_SILENT_S = 10.0
"""Time from one line to the next while tables are made: captured trials take long."""


class _Bar:
    """A bar with counts, rate and time left; only events that need attention are printed above it."""

    def __init__(self, bar: Bar, refresh: Callable[[], None]) -> None:
        self._bar = bar
        self._refresh = refresh
        self._task: TaskID | None = None
        self._progress = events.Progress()
        self._lock = threading.Lock()
        self._begun_s = time.monotonic()
        self._over = threading.Event()

    def __call__(self, event: events.Event) -> None:
        with self._lock:
            self._progress = self._progress.after(event)
            if isinstance(event, events.TrialParsed):  # these come fast; `ticking` draws them
                return
            if isinstance(event, events.RunPlanned):
                self._begun_s = time.monotonic() - event.at_s
                self._task = self._bar.add_task("", total=1.0)
                self._print(_planned(event))
            elif isinstance(event, events.TrialEnded):
                if event.reasons:
                    self._print(_ended(event))
            else:
                self._print(_notice(event))
        self._draw()

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Redraw periodically, so that the time left counts down while trials run."""

        def tick() -> None:
            while not self._over.wait(0.5):
                self._draw()

        ticker = threading.Thread(target=tick, daemon=True)
        ticker.start()
        try:
            yield
        finally:
            self._over.set()
            ticker.join()

    def _print(self, line: _Line) -> None:
        if line:
            from rich.text import Text

            parts = (part if isinstance(part, Styled) else Styled(part, "") for part in line)
            self._bar.console.print(Text.assemble(*((printable(part.text), part.style) for part in parts)))

    def _draw(self) -> None:
        with self._lock:
            if self._task is None:
                return
            now_s = time.monotonic() - self._begun_s
            self._bar.update(
                self._task, completed=self._progress.fraction, description=_state(self._progress, now_s)
            )
            self._refresh()


def _state(progress: events.Progress, now_s: float) -> str:
    parts = [f"{progress.ended}/{progress.trials} trials"]
    if progress.invalid:
        parts.append(f"{progress.invalid} invalid")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    rate = progress.rate_per_min(now_s)
    if rate is not None:
        parts.append(f"{rate:.1f} per minute")
    if progress.over:
        read = f", {counted(progress.parsed, 'trial')} read" if progress.parsed else ""
        parts += [f"writing tables{read}"] if not progress.stopping else []
    elif progress.stopping:
        parts.append(f"stopping, {progress.running} running")
    else:
        parts.append(f"{progress.left(now_s)} left")
    return ", ".join(parts)


def _planned(event: events.RunPlanned) -> _Line:
    if not event.trials:
        return ("nothing to run",)
    workers = f"{event.jobs} at once" if event.jobs > 1 else "one after another"
    what = f"{counted(event.trials, 'trial')} of {counted(event.cells, 'cell')} to run"
    return ("; ".join([f"{what}, {workers}, {event.estimate}", *event.estimate.remarks]),)


def _ended(event: events.TrialEnded) -> _Line:
    text = f" {event.cell_id} trial {event.trial}: {event.wall_s:.1f} s"
    if event.reasons:
        reasons = "; ".join(event.reasons)
        text = f"{text}\n    {reasons}\n    {event.path}"
    return Styled(*_MARKS[event.status.value]), text


def _notice(event: events.Event) -> _Line:
    text = _notice_text(event)
    return (text,) if text else ()


def _notice_text(event: events.Event) -> str | None:
    match event:
        case events.StageBegun():
            restart = f", after a restart of {', '.join(event.restarts)}" if event.restarts else ""
            trials = counted(event.trials, "trial")
            return f"kernels: {kernels_text(event.kernels)}: {trials}{restart}"
        case events.StageEntered() if event.reason:
            return f"these kernels are not available, so their trials fail: {event.reason}"
        case events.TrialDiscarded():
            return f"discarded {event.cell_id} trial {event.trial}: {event.reason}"
        case events.TrialsAdded():
            return f"{event.cell_id} is undecided: {counted(len(event.trials), 'more trial')}"
        case events.RunStopping():
            running = f"; {counted(event.running, 'trial')} running" if event.running else ""
            return f"stopping: {event.reason}{running}"
        case _:
            return None


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal what is being done until the block ends; nothing anywhere else."""
    if not wants_bar():
        yield
        return
    print(printable(what), end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def build_progress(built: str = "lab") -> Iterator[Callable[[BuildStep], None]]:
    """Yield a listener for a build: one redrawn line on a terminal, a line per step otherwise.

    Args:
        built: Name of what is built, with which each line begins.
    """
    if not wants_bar():
        yield _BuildLines(built)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True, highlight=False),
        transient=True,
    ) as bar:
        task = bar.add_task(built, total=None)

        def show(step: BuildStep) -> None:
            total = None if step.fraction is None else 1.0
            bar.update(
                task,
                description=printable(f"{step.stage}: {step.message}"),
                completed=step.fraction or 0.0,
                total=total,
            )

        yield show


class _BuildLines:
    """A line per step, and one for each quarter of a long step."""

    def __init__(self, built: str) -> None:
        self._built = built
        self._last: tuple[str, str, int] | None = None

    def __call__(self, step: BuildStep) -> None:
        quarter = int((step.fraction or 0.0) * 4)
        now = (step.stage, "" if step.fraction is not None else step.message, quarter)
        if now != self._last:
            done = "" if step.fraction is None else f" ({step.fraction:.0%})"
            say(f"{self._built}: {step.stage}: {step.message}{done}")
            self._last = now
