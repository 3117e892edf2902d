# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision as text: for the terminal, as Markdown, as LaTeX, and as data."""
