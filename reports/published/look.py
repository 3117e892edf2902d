# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The look of the published figures: order and names of queues, titles, colours and their ends.

Taken from the figures in <https://github.com/fatihsarpkaya/L4S-PAM2025> (folder `Plots`, at 60114fc). Queues
that were not published follow behind, under their own labels. `reports.figures.published` draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from reports.colours import BLACK, COOLWARM, PLASMA, WHITE, Scale

if TYPE_CHECKING:
    from reports.result.verdicts import JudgedCell

ORDER: Final = (
    *("fifo", "pie-drop", "codel-drop", "fifo-ecn", "pie", "codel", "red"),
    *("fq", "fq-codel", "fq-codel-l4s", "dualpi2"),
)
"""Values of the factor `aqm` as the published figures list them, others of the same kind among them."""

MULTI_QUEUE: Final = frozenset({"fq", "fq-codel", "fq-codel-l4s", "dualpi2"})
"""The queues of the published multi-queue figures."""

ROWS: Final[Mapping[str, tuple[str, ...]]] = {
    "fifo": ("FIFO",),
    "pie-drop": ("PIE", "(Drop-based AQM)"),
    "codel-drop": ("CoDel", "(Drop-based AQM)"),
    "fifo-ecn": ("FIFO", "(+ECN)"),
    "codel": ("CoDel", "(+ECN+AQM)"),
    "fq": ("FQ", "(+ECN", "+MultiQueue)"),
    "fq-codel": ("FQ-Codel", "(+ECN+AQM", "+MultiQueue)"),
    "fq-codel-l4s": ("FQ-Codel", "(+L4S Support)"),
    "dualpi2": ("DualPI2", "(+ECN+AQM", "+DualQueue)"),
}
"""Value of `aqm` -> lines of the published row's name."""

PROMINENT: Final = (
    *("dualpi2", "fifo", "fq-codel-l4s", "codel", "fq-codel", "codel-drop", "fifo-ecn", "pie-drop", "fq"),
)
"""The published queues; those that figures should distinguish best come first."""

Value: TypeAlias = Literal["goodput", "delay"]


@dataclass(frozen=True)
class Look:
    """The look of one published kind of map.

    Attributes:
        scale: Colours.
        ticks: Of the colour bar.
        ink: Colour of the text.
    """

    scale: Scale
    ticks: tuple[float, ...]
    ink: str


GOODPUT: Final = Scale(COOLWARM, (0, 100), (0, 1))
DELAY: Final = Scale(PLASMA.reversed(), (0, 15), (0.25, 1))
"""0 to 15 ms around a centre of 5: a value v has the colour at (v + 5) / 20."""

LOOKS: Final[Mapping[Value, Look]] = {
    "goodput": Look(GOODPUT, (0, 20, 40, 60, 80, 100), BLACK),
    "delay": Look(DELAY, (0, 2, 4, 6, 8, 10, 12, 14), WHITE),
}


def panel_title(cell: JudgedCell, l4s: str, classic: str) -> str:
    """Return the title of a cell's panel in the published figures: `Prague ECN Fallback vs CUBIC - No ECN`.

    Args:
        cell: Any cell of the panel.
        l4s: Name of the L4S group.
        classic: Name of the classic group.
    """
    asked = cell.question.without(f"{l4s}.count", f"{l4s}.fallback")
    switched = " ECN Fallback" if cell.result.value(f"{l4s}.fallback") == "on" else ""
    more = "".join(f" ({setting.text})" for setting in asked.settings)
    mode = str(cell.result.value(f"{classic}.ecn"))
    ecn = {"off": "No ECN", "classic": "ECN"}.get(mode, f"{mode} ECN")
    against = cell.column.without(f"{classic}.count", f"{classic}.ecn")
    settings = ", ".join([ecn, *(setting.text for setting in against.settings)])
    return f"{asked.head}{switched}{more} vs {against.head} - {settings}"
