# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Figures of a run as Altair charts, for papers, notebooks and the report's page. See docs/notebook.md.

Importing this imports Altair: do it where a figure is wanted, not at the top of a command.
"""

from reports.figures.bars import flow_bars
from reports.figures.columns import cells_in_columns
from reports.figures.delays import delay_distribution, delay_samples, quantiles
from reports.figures.files import Figure, Written, write
from reports.figures.fit import Paper, fitted, width_of
from reports.figures.gallery import chosen, figures, of_runs, the_plane
from reports.figures.heatmaps import delay_map, difference_map, goodput_map
from reports.figures.overlay import trials_together
from reports.figures.panels import datasets, named_panels, time_series
from reports.figures.plane import PlaneCell, plane_map
from reports.figures.points import goodput_against_delay, trial_dots
from reports.figures.published import published_map, published_maps
from reports.figures.save import FORMATS, formats, javascript, render, save, specification
from reports.figures.series import TrialSeries, series_of, trial_series
from reports.figures.several import runs_beside, values_beside
from reports.figures.sheets import Sheet, sheets

__all__ = [
    "FORMATS",
    "Figure",
    "Paper",
    "PlaneCell",
    "Sheet",
    "TrialSeries",
    "Written",
    "cells_in_columns",
    "chosen",
    "datasets",
    "delay_distribution",
    "delay_map",
    "delay_samples",
    "difference_map",
    "figures",
    "fitted",
    "flow_bars",
    "formats",
    "goodput_against_delay",
    "goodput_map",
    "javascript",
    "named_panels",
    "of_runs",
    "plane_map",
    "published_map",
    "published_maps",
    "quantiles",
    "render",
    "runs_beside",
    "save",
    "series_of",
    "sheets",
    "specification",
    "the_plane",
    "time_series",
    "trial_dots",
    "trial_series",
    "trials_together",
    "values_beside",
    "width_of",
    "write",
]
