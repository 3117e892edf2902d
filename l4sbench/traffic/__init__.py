# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kinds of traffic: the values of `<group>.send`, each a module here with a class of `Send`.

The other values are names of senders, which share one kind (`kind_of_send`).

A module that is added here is found: its factors become factors of flow groups, and its class makes their
commands. `collectors.kinds` has the twins that read what its flows leave (docs/add-a-thing.md).
"""

from __future__ import annotations

import re
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from l4sbench.text.wording import quoted
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
from l4sbench.traffic.sender import Sender

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
    "SENDER_NAME",
    "SENDS",
    "Asked",
    "Flow",
    "FlowCommands",
    "Ready",
    "Send",
    "Sender",
    "classes_in",
    "kind_of_send",
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
    {one.name: one for one in classes_in(__name__, __path__, Send) if not isabstract(one) and one.name}  # type: ignore[type-abstract]
)
"""Kinds of traffic by name."""

SENDER_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
"""Names of senders; they become part of the names of files, cells and congestion controls."""


def kind_of_send(send: str) -> type[Send]:
    """Return the kind of traffic of a value of `<group>.send`: its own, or that of all senders.

    Raises:
        ValueError: it is neither a kind nor a name that a sender may have.
    """
    if send in SENDS:
        return SENDS[send]
    if not SENDER_NAME.fullmatch(send):
        raise ValueError(f"{quoted(send)} is not a valid kind of traffic")
    return Sender


OF_SEND: Final = _factors()
"""Factors of flow groups that only some kinds of traffic have."""
