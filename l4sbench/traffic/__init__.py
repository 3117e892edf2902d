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
from typing import TYPE_CHECKING, Final

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
from l4sbench.traffic.tools import SYN_BYTES, UDP_HEADERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from l4sbench.parameters import Parameter

__all__ = [
    "CODEPOINTS",
    "DEFAULT_SEND",
    "EXECUTABLE",
    "FOLDER",
    "INPUT",
    "OF_SEND",
    "SENDS",
    "SYN_BYTES",
    "UDP_HEADERS",
    "Asked",
    "Flow",
    "FlowCommands",
    "Ready",
    "Send",
]

DEFAULT_SEND: Final = "bulk"
"""The kind of groups that state none."""


def _found() -> Mapping[str, type[Send]]:
    found: dict[str, type[Send]] = {}
    for module in sorted(iter_modules(__path__), key=lambda module: module.name):
        for one in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(one, type) and issubclass(one, Send) and not isabstract(one):
                found[one.name] = one
    return MappingProxyType(found)


def _factors() -> Mapping[str, Parameter]:
    found: dict[str, Parameter] = {}
    for send in SENDS.values():
        for factor in send.factors():
            if found.setdefault(factor.name, factor) != factor:
                raise TypeError(f"{send.__name__}.{factor.name} differs from that of another kind of traffic")
    return MappingProxyType(found)


SENDS: Final = _found()
"""Kinds of traffic by name."""

OF_SEND: Final = _factors()
"""Factors of flow groups that only some kinds of traffic have."""
