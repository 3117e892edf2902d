# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a decision table must state about itself, as the page prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.pages.model import span
from reports.render import STAR, fixed_text, forms_text

if TYPE_CHECKING:
    from reports.verdicts import Decision


@dataclass(frozen=True)
class Facts:
    """Counts, provenance and remarks. `per_cell` counts valid trials: `3`, or `3 to 10`."""

    cells: int
    trials: int
    per_cell: str
    testbeds: str
    kernels: tuple[str, ...]
    modules: tuple[str, ...]
    fixed: str
    forms: str
    star: str
    star_some: str


def facts(decision: Decision) -> Facts:
    """What stands around a decision table."""
    cells = [cell for verdict in decision.verdicts for cell in verdict.cells]
    stars = {verdict.low_latency for verdict in decision.verdicts}
    rule = decision.rule
    limit = f"{rule.l4s}'s mean smoothed RTT minus base RTT is below {rule.low_latency_ms:g} ms"
    return Facts(
        cells=len(cells),
        trials=decision.trials,
        per_cell=span([cell.valid for cell in cells]),
        testbeds=", ".join(decision.testbeds),
        kernels=decision.kernels,
        modules=decision.modules,
        fixed=fixed_text(decision.fixed),
        forms=forms_text(decision.cells),
        star=f"{limit} in every cell" if stars & {"all", "some"} else "",
        star_some=f"{STAR['some']}: in all cells of some queues" if "some" in stars else "",
    )
