# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Figures of a run as Altair charts, for papers, notebooks and the report's page. docs/figures.md shows them.

Importing this imports Altair: do it where a figure is wanted, not at the top of a command.
"""

from reports.figures.gallery import Figure, Written, chosen, figures, write
from reports.figures.heatmaps import delay_map, goodput_map
from reports.figures.published import published_map, published_maps
from reports.figures.save import FORMATS, formats, javascript, render, save, specification
from reports.figures.series import TrialSeries, datasets, time_series, trial_series
from reports.figures.sheets import Entry, Panel, Sheet, sheets

__all__ = [
    "FORMATS",
    "Entry",
    "Figure",
    "Panel",
    "Sheet",
    "TrialSeries",
    "Written",
    "chosen",
    "datasets",
    "delay_map",
    "figures",
    "formats",
    "goodput_map",
    "javascript",
    "published_map",
    "published_maps",
    "render",
    "save",
    "sheets",
    "specification",
    "time_series",
    "trial_series",
    "write",
]
