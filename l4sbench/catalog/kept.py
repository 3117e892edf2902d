# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The entries of l4sbench itself, kept in the user's cache as plain data.

Reading their files takes several times as long as everything else that `l4sbench list queues` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self, cast

from l4sbench.catalog.entries import (
    CatalogEntry,
    CongestionControl,
    EcnMode,
    KernelModule,
    KernelNeeds,
    Queue,
    ReadbackCheck,
)
from l4sbench.catalog.exports import Column, Exports
from l4sbench.catalog.template import Field, Part, Text
from l4sbench.disk import document
from l4sbench.disk.memo import Memo
from l4sbench.text import parameters
from l4sbench.text.parameters import Parameter
from l4sbench.text.units import Duration, Packets, Percent, Rate, Size

_PARTS: Final[Mapping[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        *(Queue, CongestionControl, EcnMode, KernelModule, KernelNeeds, ReadbackCheck, Column, Exports),
        *(Field, Part, Text, Parameter, Duration, Packets, Percent, Rate, Size),
    )
}
"""Everything that an entry consists of. An object of JSON is one of these, by the name of its class."""

_MAP: Final = "map"
_FOLDER: Final = "folder"


_CODE: Final = (Path(__file__).parent, Path(parameters.__file__).parent, Path(document.__file__))


@dataclass(frozen=True)
class KeptEntries:
    """Entries of files that have not changed since they were read; none if one of them has.

    Attributes:
        entries: by file.
    """

    entries: Mapping[Path, CatalogEntry]
    _files: tuple[Path, ...]
    _memo: Memo

    @classmethod
    def of(cls, files: Sequence[Path]) -> Self:
        """Look up what is kept of all these files, which are those of l4sbench itself."""
        memo = Memo.of("catalog", code=_CODE, data=files)
        return cls(_kept(memo, tuple(files)), tuple(files), memo)

    def keep(self, entries: Iterable[CatalogEntry]) -> None:
        """Keep the entries of all the files, in their order, unless they are kept already."""
        if self.entries or Memo.of("catalog", code=_CODE, data=self._files) != self._memo:
            return  # of the second there may be entries of different times
        self._memo.save([_plain(entry, entry.folder) for entry in entries])
        _kept.cache_clear()


@lru_cache(maxsize=1)
def _kept(memo: Memo, files: tuple[Path, ...]) -> Mapping[Path, CatalogEntry]:
    plain = memo.load()
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        found = [_whole(one, file.parent) for one, file in zip(plain, files, strict=True)]
        if all(isinstance(entry, CatalogEntry) for entry in found):
            return MappingProxyType(dict(zip(files, cast("list[CatalogEntry]", found), strict=True)))
    return MappingProxyType({})


def _plain(value: object, folder: Path) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        parts = [_plain(getattr(value, one.name), folder) for one in fields(value)]
        return {type(value).__name__: parts}
    if isinstance(value, Mapping):
        return {_MAP: {key: _plain(one, folder) for key, one in value.items()}}
    if isinstance(value, tuple):
        return [_plain(one, folder) for one in value]
    if value == folder:
        return {_FOLDER: None}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"not a part of an entry: {value!r}")


def _whole(plain: object, folder: Path) -> object:
    if isinstance(plain, list):
        return tuple(_whole(one, folder) for one in plain)
    if not isinstance(plain, dict):
        return plain
    ((kind, inner),) = plain.items()
    if kind == _FOLDER:
        return folder
    if kind == _MAP:
        return MappingProxyType({key: _whole(one, folder) for key, one in inner.items()})
    return cast("object", _PARTS[kind](*(_whole(one, folder) for one in inner)))
