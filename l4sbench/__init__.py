# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Is it okay to switch to L4S congestion control? Evidence anyone can rerun."""

__version__ = "0.1.0"
