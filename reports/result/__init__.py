# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Typed results of a run, made once from its tables: cells, verdicts, and what follows from them."""
