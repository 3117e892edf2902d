# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a decision table must state about itself, as the page prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.page.model import span
from reports.render.terminal import counts_text, fixed_text, forms_text, low_latency_text, sureness

if TYPE_CHECKING:
    from reports.result.verdicts import Decision


@dataclass(frozen=True)
class Facts:
    """Counts, provenance and remarks; what does not apply is empty.

    `per_cell` counts valid trials: `3`, or `3 to 10`; `adaptive` says how many cells got how many, where
    trials were added until a verdict was decided.
    """

    cells: int
    trials: int
    per_cell: str
    adaptive: str
    sureness: str
    testbeds: str
    kernels: tuple[str, ...]
    modules: tuple[str, ...]
    fixed: str
    forms: str
    star: str
    low_latency: str


def facts(decision: Decision) -> Facts:
    """What stands around a decision table."""
    cells = [cell for verdict in decision.verdicts for cell in verdict.cells]
    starred = any(verdict.low_latency != "none" for verdict in decision.verdicts)
    return Facts(
        cells=len(cells),
        trials=decision.trials,
        per_cell=span([cell.valid for cell in cells]),
        adaptive=counts_text(decision) if decision.looks > 1 else "",
        sureness=sureness(decision),
        testbeds=", ".join(decision.testbeds),
        kernels=decision.kernels,
        modules=decision.modules,
        fixed=fixed_text(decision.fixed),
        forms=forms_text(decision.cells),
        star=low_latency_text(decision) if starred else "",
        low_latency=low_latency_text(decision),
    )
