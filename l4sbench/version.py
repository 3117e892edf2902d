# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The version of l4sbench."""

__version__ = "0.1.0"
