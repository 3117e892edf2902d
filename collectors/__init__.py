# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Collectors: raw files of a trial -> rows of tables. One module per raw source, listed in `COLLECTORS`.

`collectors.validity.judge` says whether a trial's apparatus did what its cell says; `collectors.assemble.collect`
writes the tables of a run.
"""

from collectors.collector import BadRaw, Collector

COLLECTORS: tuple[Collector, ...] = ()
"""Every collector. Several may feed one table; of these at most one finds files in a given trial."""

__all__ = ["COLLECTORS", "BadRaw", "Collector"]
