# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Factors that many cells have in common, and how their ids are written.

A matrix of a million cells is a product: a few thousand sets of common factors, and a few thousand small
mappings with the values of the other factors. A cell is one of each, so that it needs hardly more memory than
its id. Everything in an id that depends on common factors alone is written once.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

from l4sbench.facts.factors import COMMANDS
from l4sbench.text.parameters import plain
from l4sbench.traffic import DEFAULT_SEND, SENDS, kind_of_send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from l4sbench.text.units import Value
    from l4sbench.traffic import Send

_SLUG_LENGTH: Final = 100
_HASH_DIGITS: Final = 10
_NOT_IN_SLUG: Final = re.compile(r"[^A-Za-z0-9.+-]+")
# Factors that every slug begins with or that would only make it long; the hash covers them.
_SLUG_SKIPS: Final = frozenset({"aqm", "buffer_bdp", "rate", "rtt", "duration", "warmup", "capture"})

_Part: TypeAlias = "tuple[tuple[str, ...], Callable[..., str | None]]"
"""A part of a text: the factors that it depends on, and what makes it of their values; None leaves it out."""


@dataclass(frozen=True, eq=False)
class Common:
    """Factors that cells have in common.

    Attributes:
        factors: every factor in order of its name; those of `varying` hold a placeholder.
        given: the factors that the matrix states, as opposed to defaults.
        defaults: the defaults by factor; factors equal to them are left out of the id.
        group_names: the flow groups in the order of the matrix.
        varying: the factors of which each cell has a value of its own.
    """

    factors: MappingProxyType[str, Value]
    given: frozenset[str] = frozenset()
    defaults: Mapping[str, Value] = field(default_factory=dict)
    group_names: tuple[str, ...] = ()
    varying: frozenset[str] = frozenset()

    def with_own(self, own: Mapping[str, Value]) -> MappingProxyType[str, Value]:
        """Return all factors of a cell with these values of its own, in order of their names."""
        factors = self.factors.copy()  # by far faster than dict() of a view
        factors.update(own)
        return MappingProxyType(factors)

    def whole(self, own: Mapping[str, Value]) -> Self:
        """Return this with the values of one cell, so that nothing varies."""
        return replace(self, factors=self.with_own(own), varying=frozenset())

    @cached_property
    def kinds(self) -> tuple[type[Send], ...]:
        """The kinds of traffic of the flow groups, in their order; empty where these vary."""
        same = self.varying.isdisjoint(f"{name}.send" for name in self.group_names)
        return self.kinds_with({}) if same else ()

    def kinds_with(self, own: Mapping[str, Value]) -> tuple[type[Send], ...]:
        """Return the kinds of traffic of the flow groups with the values of one cell."""
        stated = (own.get(name, self.factors.get(name)) for name in (f"{of}.send" for of in self.group_names))
        return tuple(kind_of_send(str(send or DEFAULT_SEND)) for send in stated)

    def identity(self, own: Mapping[str, Value]) -> str:
        """Return the input of the id's hash: canonical JSON of the factors that are not at their default."""
        return "{" + self._written(self._identity, own, ",") + "}"

    def slug(self, own: Mapping[str, Value]) -> str:
        """Return the readable part of the id. Not unique: it leaves out durations and is cut if too long."""
        return self._written(self._slug, own, "_")[:_SLUG_LENGTH].rstrip("-._+")

    def id(self, own: Mapping[str, Value]) -> str:
        """Return slug plus hash."""
        digest = hashlib.sha256(self.identity(own).encode()).hexdigest()[:_HASH_DIGITS]
        return f"{self.slug(own)}-{digest}"

    def differs(self, name: str, value: Value) -> bool:
        """Return True if a value of a factor is not its default."""
        return name not in self.defaults or self.defaults[name] != value

    def _written(self, parts: Iterable[str | _Part], own: Mapping[str, Value], between: str) -> str:
        factors, texts = self.factors, []
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            names, write = part
            text = write(*[own[name] if name in own else factors[name] for name in names])
            if text is not None:
                texts.append(text)
        return between.join(texts)

    @cached_property
    def _identity(self) -> tuple[str | _Part, ...]:
        parts = (((name,), self._of_differing(name, _fragment)) for name in _by_name(self.given))
        return tuple(self._joined(parts, ","))

    @cached_property
    def _slug(self) -> tuple[str | _Part, ...]:
        return tuple(self._joined(self._slug_parts(), "_"))

    def _joined(self, parts: Iterable[_Part], between: str) -> Iterator[str | _Part]:
        """Write the parts that do not vary, neighbours together."""
        texts: list[str] = []
        for names, write in parts:
            if self.varying.isdisjoint(names):
                if (text := write(*[self.factors[name] for name in names])) is not None:
                    texts.append(text)
                continue
            if texts:
                yield between.join(texts)
                texts = []
            yield names, write
        if texts:
            yield between.join(texts)

    def _slug_parts(self) -> Iterator[_Part]:
        yield ("aqm",), _word
        yield ("buffer_bdp",), lambda value: f"{_word(value)}bdp"
        yield ("rate",), _word
        yield ("rtt",), _word
        groups, shown = _in_slug(self.group_names, self.given)
        sends = {f"{group}.send" for group in self.group_names if f"{group}.cc" in self.given}
        for word, count, ecn, is_command in groups:
            names = (word, count, ecn) if ecn in self.factors else (word, count)
            yield names, self._group_part(ecn, is_command=is_command)
        for name in _by_name(self.given):
            if name not in shown:
                yield (name,), self._of_differing(name, _named_send if name in sends else _named_word)

    def _group_part(self, ecn: str, *, is_command: bool) -> Callable[..., str]:
        def write(what: Value, count: Value, mode: Value | None = None) -> str:
            text = _word(str(what).split(" ")[0] if is_command else what)
            if count != 1:
                text = f"{count}x{text}"
            return f"{text}.{_word(mode)}" if mode is not None and self.differs(ecn, mode) else text

        return write

    def _of_differing(
        self, name: str, write: Callable[[str, Value], str | None]
    ) -> Callable[[Value], str | None]:
        default = self.defaults.get(name)

        def write_differing(value: Value) -> str | None:
            if value is default or (default is not None and default == value):
                return None
            return write(name, value)

        return write_differing


class _GroupWords(NamedTuple):
    """Factors of a group of which the slug is made."""

    word: str
    flows: str
    ecn: str
    is_command: bool


@lru_cache(maxsize=1024)
def _in_slug(
    groups: tuple[str, ...], given: frozenset[str]
) -> tuple[tuple[_GroupWords, ...], frozenset[str]]:
    """Factors of each group that the slug shows in its own way, and all names that it does not list.

    A group without a congestion control shows what it sends, one with a program of its own that.
    """
    own = []
    for name in sorted(groups):
        key = next((key for key in ("cc", *COMMANDS) if f"{name}.{key}" in given), "send")
        own.append(_GroupWords(f"{name}.{key}", f"{name}.count", f"{name}.ecn", key in COMMANDS))
    long = (f"{name}.{key}" for name in groups for key in COMMANDS)
    return tuple(own), _SLUG_SKIPS.union(*(words[:3] for words in own), long)


@lru_cache(maxsize=4096)
def _by_name(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


@lru_cache(maxsize=4096, typed=True)
def _fragment(name: str, value: Value) -> str:
    return f"{json.dumps(name)}:{json.dumps(plain(value))}"


@lru_cache(maxsize=4096, typed=True)
def _named_word(name: str, value: Value) -> str:
    return _word(f"{name}-{plain(value)}")


def _named_send(name: str, value: Value) -> str | None:
    """Return the word of a kind of traffic; None for a sender, which its congestion control names."""
    return _named_word(name, value) if value in SENDS else None


@lru_cache(maxsize=4096, typed=True)
def _word(value: Value) -> str:
    return _NOT_IN_SLUG.sub("-", str(plain(value)))
