# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision as files: Markdown to read, CSV and JSON for programs, LaTeX for papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reports.documents.data import cells_csv, document, entries_csv
from reports.documents.latex import latex
from reports.render import markdown

if TYPE_CHECKING:
    from reports.regret import Regret
    from reports.verdicts import Decision

__all__ = ["cells_csv", "document", "documents", "entries_csv", "latex"]


def documents(decision: Decision, regrets: Sequence[Regret] = ()) -> Mapping[str, str]:
    """Every document of a decision by its file name."""
    from json import dumps

    said = "".join(f"- {regret.text}\n" for regret in regrets)
    head, cells, rest = markdown(decision).partition("\n## Cells\n")
    return {
        "decision.md": f"{head.rstrip()}\n{said}{cells}{rest}",
        "decision.csv": entries_csv(decision),
        "cells.csv": cells_csv(decision),
        "decision.json": dumps(document(decision, regrets), indent=2, ensure_ascii=False) + "\n",
        "decision.tex": latex(decision),
    }
