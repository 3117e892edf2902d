# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Readers of kinds of traffic: the twins of the modules of `l4sbench.traffic` that need one of their own.

A kind without a reader here is read as what its traffic tool reports (`collectors.reader`).
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from collectors.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping


def _found() -> Mapping[str, Reader]:
    modules = sorted(iter_modules(__path__), key=lambda module: module.name)
    defined = [one for module in modules for one in vars(import_module(f"{__name__}.{module.name}")).values()]
    readers = (one for one in defined if isinstance(one, type) and issubclass(one, Reader) and one.send)
    return MappingProxyType({reader.send: reader() for reader in readers})


READERS: Final = _found()
"""Readers by kind of traffic."""

_OTHERS: Final = Reader()


def reader_of(send: str) -> Reader:
    """Return the reader of a kind of traffic."""
    return READERS.get(send, _OTHERS)
