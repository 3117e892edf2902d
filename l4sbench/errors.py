# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Errors of l4sbench.

The command line exits with the `exit_code` of an error; exceptions of other types are bugs (4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from l4sbench.printable import printable


class L4sbenchError(Exception):
    """Base of all errors that are raised on purpose.

    `message` reports what went wrong and where; `hint`, if known, what to do about it.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook prints in place of a traceback, which is for bugs."""
        return [f"error: {printable(str(self))}"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of an input.

    Attributes:
        where: `file:line:column`, as far as known; empty for input without a position, such as a filter.
        path: dotted factor or key path, such as `classic.ecn`; empty for the file as a whole.
        message: what is wrong.
        hint: how to fix it, such as `did you mean codel?`.
    """

    where: str
    path: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, self.path, self.message) if part)
        return f"{place}; {self.hint}" if self.hint else place


class InputError(L4sbenchError):
    """Invalid input, such as a matrix or a filter; `problems` lists all of them by position."""

    exit_code: ClassVar[int] = 2

    def __init__(self, problems: Sequence[Problem] | str, hint: str | None = None) -> None:
        """Accept either a list of problems or, for input that is one word, a message and a hint."""
        listed = [Problem("", "", problems, hint)] if isinstance(problems, str) else _in_order(problems)
        if not listed:
            raise ValueError("an InputError needs at least one problem")
        super().__init__("\n".join(str(problem) for problem in listed))
        self.problems = tuple(listed)


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return each problem once; those of a file together, from its top to its bottom."""
    unique = list(dict.fromkeys(problems))
    files = {name: number for number, name in enumerate(dict.fromkeys(_place(p)[0] for p in unique))}
    return sorted(unique, key=lambda problem: (files[_place(problem)[0]], *_place(problem)[1:]))


def _place(problem: Problem) -> tuple[str, int, int]:
    parts = problem.where.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        return parts[0], int(parts[1]), int(parts[2])
    return problem.where, 0, 0


class BadValueError(ValueError):
    """A value that is not valid, whatever its position: `message` says what was expected."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class TestbedError(L4sbenchError):
    """The testbed cannot be used at all: the lab is not built, or the inventory unreachable."""

    __test__ = False  # not a test class, whatever pytest makes of the name
    exit_code: ClassVar[int] = 3


class PlaceLost(TestbedError):  # noqa: N818  it names an event, as `TrialFailed` does
    """One of several places that run trials in parallel is lost for this run; `left` others remain.

    The others repeat the trial or change of kernels that it was working on. If none is left, the run ends.
    """

    def __init__(self, message: str, hint: str | None = None, *, left: int) -> None:
        super().__init__(message, hint)
        self.left = left


class TrialFailed(L4sbenchError):  # noqa: N818  it names an event, the project's word for it
    """One trial failed (hang, panic, failed step). The run continues with the next trial."""

    exit_code: ClassVar[int] = 1

    @property
    def reason(self) -> str:
        """Reason of the failure, as stored in `trial.json`."""
        return self.message


_LONGEST_WORD: Final = 100
"""Longer words are not compared: the time grows with the square of the length."""


_MOST_MEANT: Final = 3


def did_you_mean(word: str, offered: Iterable[str]) -> str | None:
    """Return a hint with the entries of `offered` that are closest to `word`; None if none is close.

    The best match comes first; equally good ones keep the order of `offered`. Dotted names are found by
    their parts, too: `cc` suggests `l4s.cc`.
    """
    import difflib  # only needed once something is wrong

    if len(word) > _LONGEST_WORD:
        return None
    candidates = list(dict.fromkeys(offered))
    folded = word.casefold()
    close = [name for name in candidates if folded and name.casefold() == folded]
    close = close or [name for name in candidates if folded in name.casefold().split(".")[1:]]
    close = close or difflib.get_close_matches(word, candidates, n=_MOST_MEANT, cutoff=0.6)
    if not close:
        close = [name for name in candidates if folded and name.casefold().startswith(folded)]
    if not close:
        parts = dict.fromkeys(part for name in candidates for part in name.split(".")[1:])
        alike = difflib.get_close_matches(word.rpartition(".")[2], parts, n=_MOST_MEANT, cutoff=0.75)
        close = [name for part in alike for name in candidates if part in name.split(".")[1:]]
    if not close:
        return None
    *best, rest = close[:_MOST_MEANT]
    return f"did you mean {', '.join(best)} or {rest}?" if best else f"did you mean {rest}?"


def suggest(word: str, offered: Iterable[str], *, most: int = 20) -> str | None:
    """Return the hint of `did_you_mean`, else a list of up to `most` entries; None if nothing is offered."""
    words = list(dict.fromkeys(offered))
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return did_you_mean(word, words) or (f"choose from {', '.join(words[:most])}{more}" if words else None)
