# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pages beside that of a run: one file each, which loads nothing and looks like it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from l4sbench.printable import printable
from l4sbench.version import __version__
from reports.page.page import own, templates


def sheet(template: str, styles: Sequence[str] = (), scripts: Sequence[str] = (), **values: object) -> str:
    """Return a page as text.

    Args:
        template: Its template, which extends `sheet.html.j2`.
        styles: Style sheets beside the template that it needs besides those of every page.
        scripts: Its scripts, beside the template.
        values: The values that the template names.
    """
    page = (
        templates()
        .get_template(template)
        .render(
            style=Markup("\n").join(own(name) for name in ("page.css", "sheet.css", *styles)),
            script=Markup("\n").join(own(name) for name in scripts),
            version=__version__,
            **values,
        )
    )
    return printable(page)  # at the end, as a control character is one wherever it is in HTML
