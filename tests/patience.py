# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The time that tests give to whatever they wait for."""

from typing import Final

PATIENCE_S: Final = 1800.0
"""Guard against what never ends; no verdict depends on it.

Commands of the suite need at most some 20 s of processor time: 150 s on two cores with a load of 15, and
this is ten times as long.
"""
