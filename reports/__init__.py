# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Reports: tables of a run in, verdicts and comparisons out. Reads only Parquet, never raw files."""
