# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Readers of kinds of traffic: the twins of the modules of `l4sbench.traffic` that need one of their own.

A kind without a reader here is read as what its traffic tool reports (`collectors.reader`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from collectors.reader import Reader
from l4sbench.traffic import classes_in, kind_of_send

READERS: Final = MappingProxyType(
    {one.send: one() for one in classes_in(__name__, __path__, Reader) if one.send}
)
"""Readers by kind of traffic."""

_OTHERS: Final = Reader()


def reader_of(send: str) -> Reader:
    """Return the reader of a kind of traffic, or that of the tool that sends no other kind."""
    return READERS.get(send) or READERS.get(kind_of_send(send).own_tool, _OTHERS)
