# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a run: one HTML file that opens from disk, from decision table to program.

    write(tables, decision, Heading(name, about), folder)   ->   folder/index.html and folder/data/

Everything but the time series is in `index.html` itself; docs/reading.md describes it.
"""

from reports.page.atlas import AtlasNames, MapCell, atlas_page
from reports.page.compared import Links, comparison_page
from reports.page.conformance import conformance_page
from reports.page.live import Live
from reports.page.nights import NightLinks, history_page
from reports.page.page import Heading, Section, beside_published, write
from reports.page.running import write_live, write_waiting

__all__ = [
    "AtlasNames",
    "Heading",
    "Links",
    "Live",
    "MapCell",
    "NightLinks",
    "Section",
    "atlas_page",
    "beside_published",
    "comparison_page",
    "conformance_page",
    "history_page",
    "write",
    "write_live",
    "write_waiting",
]
