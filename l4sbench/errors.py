# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What can go wrong, and what each kind of failure means to whoever called.

The command line turns an error into its `exit_code`; everything that is not an `L4sbenchError` is a bug (4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar


class L4sbenchError(Exception):
    """Base of every error raised on purpose.

    `message` says what went wrong and where; `hint` says what to do about it, when that is known.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input.

    Attributes:
        where: `file:line:column`, as far as known ("" for input without a place, such as a filter).
        path: dotted factor or key path, such as `classic.ecn` ("" for the file as a whole).
        message: what is wrong.
        hint: how to mend it, such as `did you mean "codel"?`.
    """

    where: str
    path: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, self.path, self.message) if part)
        return f"{place}; {self.hint}" if self.hint else place


class InputError(L4sbenchError):
    """What the user gave cannot be used: a matrix, a filter, the name of a queue. Carries every problem."""

    exit_code: ClassVar[int] = 2

    def __init__(self, problems: Sequence[Problem] | str, hint: str | None = None) -> None:
        """Takes either a list of problems or, for input that is one word, a message and a hint."""
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


class TestbedError(L4sbenchError):
    """The place where trials run cannot be used at all: lab not built, inventory unreachable."""

    __test__ = False  # not a test class, whatever pytest makes of the name
    exit_code: ClassVar[int] = 3


class PlaceLost(TestbedError):  # noqa: N818  it names an event, as `TrialFailed` does
    """One of the places where trials run at once is gone for this run; `left` others remain.

    What was done there, a trial or the change to other kernels, is taken up again by them; without any the
    run ends.
    """

    def __init__(self, message: str, hint: str | None = None, *, left: int) -> None:
        super().__init__(message, hint)
        self.left = left


class TrialFailed(L4sbenchError):  # noqa: N818  it names an event, the project's word for it
    """One trial went wrong (hang, panic, a step that failed). The run goes on with the next trial."""

    exit_code: ClassVar[int] = 1

    @property
    def reason(self) -> str:
        """Why the trial failed, as it stands in `trial.json`."""
        return self.message


def did_you_mean(word: str, offered: Iterable[str], *, limit: int = 3) -> str | None:
    """A hint that names what is closest to `word` among `offered`; None when nothing is close.

    The best match comes first; equally good ones are in the order of `offered`.
    """
    import difflib  # only needed once something is wrong

    candidates = list(dict.fromkeys(offered))
    close = difflib.get_close_matches(word, candidates, n=limit, cutoff=0.6)
    if not close:
        folded = word.casefold()
        close = [name for name in candidates if folded and name.casefold().startswith(folded)][:limit]
    if not close:
        return None
    best, rest = close[:-1], close[-1]
    return f"did you mean {', '.join(best)} or {rest}?" if best else f"did you mean {rest}?"
