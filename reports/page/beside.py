# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The part of a page that puts the run beside a published study: printed verdicts with errata, cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from reports.against import difference_maps
from reports.page.page import Panel, templates
from reports.page.tones import difference_tone
from reports.render.terminal import STAR

if TYPE_CHECKING:
    from reports.against import Comparison


def beside_published(comparison: Comparison) -> Panel:
    """A comparison as a part of the page: what agrees, what does not, and what is known to be wrong."""
    agreeing, corrected, known = comparison.agreeing
    body = (
        templates()
        .get_template("beside.html.j2")
        .render(
            comparison=comparison,
            agreeing=agreeing,
            corrected=corrected,
            known=known,
            maps=difference_maps(comparison),
            tone=difference_tone,
            stars=STAR,
            cells=comparison.cells.sort("cell").to_dicts(),
        )
    )
    # the template escapes whatever it is given
    return Panel("against", f"Beside published results: {comparison.study.study}", Markup(body))  # noqa: S704
