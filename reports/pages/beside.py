# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The part of a page that puts the run beside a published study: printed verdicts with errata, cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from reports.pages.page import Panel, templates

if TYPE_CHECKING:
    from reports.against import Comparison


def beside_published(comparison: Comparison) -> Panel:
    """A comparison as a part of the page: what agrees, what does not, and what is known to be wrong."""
    known = [entry for entry in comparison.entries if entry.agrees is not None]
    body = (
        templates()
        .get_template("beside.html.j2")
        .render(
            comparison=comparison,
            agreeing=sum(bool(entry.agrees) for entry in known),
            known=len(known),
            cells=comparison.cells.sort("cell").to_dicts(),
        )
    )
    # the template escapes whatever it is given
    return Panel("against", f"Beside {comparison.study.study}", Markup(body))  # noqa: S704
