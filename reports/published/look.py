# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""How the published figures list and call queues. Others follow behind, under their own labels."""

from __future__ import annotations

from typing import Final

ORDER: Final = (
    *("fifo", "pie-drop", "codel-drop", "fifo-ecn", "pie", "codel", "red"),
    *("fq", "fq-codel", "fq-codel-l4s", "dualpi2"),
)
"""Values of the factor `aqm` as the published figures list them, others of the same kind among them."""

MULTI_QUEUE: Final = frozenset({"fq", "fq-codel", "fq-codel-l4s", "dualpi2"})
"""Those of the published multi-queue figures."""

ROWS: Final[dict[str, tuple[str, ...]]] = {
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
"""The published queues, those that figures should tell apart best first."""
