# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Numbers in words, for people."""

from __future__ import annotations


def as_duration(seconds: float) -> str:
    """Return a time for people: `42 s`, `3 min 20 s`, `5 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(seconds / 60)} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def counted(number: int, noun: str) -> str:
    """Return `1 cell`, `2 cells`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
