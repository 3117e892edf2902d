# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Values and the progress of a run in a notebook: tables, and one bar below the cell, redrawn in place."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from l4sbench.facts import events
from l4sbench.printable import html_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from l4sbench.facts.events import OnEvent

_Shown = TypeVar("_Shown")

_REDRAW_S: Final = 0.5
"""Least time between two redraws."""

_SHOWN: Final = 5
"""Trials that were invalid or failed are listed up to this many."""


def shown(value: _Shown, html: Callable[[_Shown], str]) -> _Shown:
    """Return a value; notebooks show it, and others of its kind, as the HTML that `html` makes.

    Plans and results do not depend on what shows them, so the application tells notebooks how.
    """
    type(value)._repr_html_ = html  # type: ignore[attr-defined]
    return value


def listener() -> OnEvent:
    """Return what shows a run's progress: a bar in a notebook, nothing anywhere else."""
    return _Bar() if _in_notebook() else lambda _: None


def _in_notebook() -> bool:
    """Return True in a kernel of Jupyter; a plain IPython has no place for a bar."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class _Bar:
    """A listener for the events of a run."""

    def __init__(self) -> None:
        self._progress = events.Progress()
        self._remarks: list[str] = []
        self._handle: Any = None
        self._drawn_s = 0.0

    def __call__(self, event: events.Event) -> None:
        self._progress = self._progress.after(event)
        if isinstance(event, events.TrialEnded) and event.reasons:
            self._remarks.append(f"{event.status}: {event.cell_id} {event.trial}: {'; '.join(event.reasons)}")
        over = isinstance(event, events.RunEnded)
        if not self._progress.trials and not over:
            return
        if over or self._handle is None or time.monotonic() - self._drawn_s > _REDRAW_S:
            self._draw(over=over)

    def _draw(self, *, over: bool) -> None:
        display = import_module("IPython.display")  # which has no types

        now = self._progress
        counts = {"ok": now.ok, "invalid": now.invalid, "failed": now.failed}
        words = [f"{now.ended}/{now.trials} trials", *(f"{n} {word}" for word, n in counts.items() if n)]
        if not over:
            words.append(f"{now.left()} left")
        more = len(self._remarks) - _SHOWN
        remarks = [*self._remarks[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        bar = "" if over else f'<progress max="1" value="{now.fraction:.3f}"></progress>'
        shown = display.HTML(bar + html_text(", ".join(words), *remarks))
        self._drawn_s = time.monotonic()
        if self._handle is None:
            self._handle = display.display(shown, display_id=True)
        else:
            self._handle.update(shown)
