# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Constructors of columns: type, unit and meaning in one line each."""

from __future__ import annotations

import dataframely as dy


def text(meaning: str, *, key: bool = False, null: bool = False) -> dy.String:
    """Return a column of text."""
    return dy.String(primary_key=key, nullable=null, description=meaning)


def texts(meaning: str) -> dy.List:
    """Return a column of lists of texts."""
    return dy.List(dy.String(nullable=False), nullable=True, description=meaning)


def count(meaning: str, unit: str = "", *, key: bool = False, null: bool = False) -> dy.Int64:
    """Return a column of whole numbers, at least 0."""
    return dy.Int64(primary_key=key, nullable=null, min=0, description=meaning, metadata={"unit": unit})


def time(meaning: str) -> dy.Int64:
    """Return a column of times as part of a key: whole milliseconds, negative before the start instant."""
    return dy.Int64(primary_key=True, description=meaning, metadata={"unit": "ms"})


def real(meaning: str, unit: str = "", *, null: bool = True, minimum: float | None = 0.0) -> dy.Float64:
    """Return a column of numbers, at least `minimum`."""
    return dy.Float64(nullable=null, min=minimum, description=meaning, metadata={"unit": unit})


class OfTrial(dy.Schema):
    """The first two columns of every table of trials."""

    cell = text("id of the cell", key=True)
    trial = count("number of the trial within its cell, from 1", key=True)
