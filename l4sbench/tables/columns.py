# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What the columns of tables are made of: kind, unit and meaning, in one line each."""

from __future__ import annotations

import dataframely as dy


def text(meaning: str, *, key: bool = False, null: bool = False) -> dy.String:
    """A column of text."""
    return dy.String(primary_key=key, nullable=null, description=meaning)


def count(meaning: str, unit: str = "", *, key: bool = False, null: bool = False) -> dy.Int64:
    """A column of whole numbers from 0 on."""
    return dy.Int64(primary_key=key, nullable=null, min=0, description=meaning, metadata={"unit": unit})


def time(meaning: str) -> dy.Int64:
    """A time that is part of a key: whole milliseconds, and before the start instant negative."""
    return dy.Int64(primary_key=True, description=meaning, metadata={"unit": "ms"})


def real(meaning: str, unit: str = "", *, null: bool = True, minimum: float | None = 0.0) -> dy.Float64:
    """A column of numbers, from `minimum` on."""
    return dy.Float64(nullable=null, min=minimum, description=meaning, metadata={"unit": unit})


class OfTrial(dy.Schema):
    """The two columns every table of trials begins with."""

    cell = text("id of the cell", key=True)
    trial = count("number of the trial within its cell, from 1", key=True)
