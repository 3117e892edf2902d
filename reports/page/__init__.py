# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a run: one HTML file that opens from disk, from decision table to program.

    write(tables, decision, Heading(name, about), folder)   ->   folder/index.html and folder/data/

Everything but the time series stands in `index.html` itself; docs/report.md tells what it shows.
"""

from reports.page.beside import beside_published
from reports.page.page import Heading, Panel, write

__all__ = ["Heading", "Panel", "beside_published", "write"]
