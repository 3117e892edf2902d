# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kinds of traffic: the values of `<group>.send`, each a module here with a class of `Send`.

A module that is added here is found: its factors become factors of flow groups, and its class makes their
commands. `collectors.kinds` has the twins that read what its flows leave (docs/add-a-thing.md).
"""

from __future__ import annotations

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from l4sbench.traffic.send import (
    CODEPOINTS,
    EXECUTABLE,
    FOLDER,
    INPUT,
    Asked,
    Flow,
    FlowCommands,
    Ready,
    Send,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from l4sbench.text.parameters import Parameter

__all__ = [
    "CODEPOINTS",
    "DEFAULT_SEND",
    "EXECUTABLE",
    "FOLDER",
    "INPUT",
    "OF_SEND",
    "SENDS",
    "Asked",
    "Flow",
    "FlowCommands",
    "Ready",
    "Send",
    "classes_in",
]

_Base = TypeVar("_Base")

DEFAULT_SEND: Final = "bulk"
"""The kind of groups that state none."""


def classes_in(package: str, path: Iterable[str], base: type[_Base]) -> Iterator[type[_Base]]:
    """Yield the classes of a package that derive from `base`, in the order of its modules' names."""
    for module in iter_modules(path):
        for one in vars(import_module(f"{package}.{module.name}")).values():
            if isinstance(one, type) and issubclass(one, base):
                yield one


def _factors() -> Mapping[str, Parameter]:
    found: dict[str, Parameter] = {}
    for send in SENDS.values():
        for factor in send.factors():
            if found.setdefault(factor.name, factor) != factor:
                raise TypeError(f"{send.__name__}.{factor.name} differs from that of another kind of traffic")
    return MappingProxyType(found)


SENDS: Final = MappingProxyType(
    # mypy takes no abstract class as a type
    {one.name: one for one in classes_in(__name__, __path__, Send) if not isabstract(one)}  # type: ignore[type-abstract]
)
"""Kinds of traffic by name."""

OF_SEND: Final = _factors()
"""Factors of flow groups that only some kinds of traffic have."""
