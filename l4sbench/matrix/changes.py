# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Changes of a matrix by a command line: `KEY=VALUE`, the value as a matrix file states it.

Each value is YAML of its own, so that none can state another key. A list of a factor's values is an axis.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from l4sbench.disk.document import Document, KeyPath, Tree, parse
from l4sbench.disk.userfiles import short
from l4sbench.errors import InputError, Problem

_OPTION: Final = "--set"
_FORM: Final = re.compile(r"([^=\s]+)=(.*)", re.DOTALL)
_PLAIN: Final = re.compile("[A-Za-z0-9.]+")
_OTHERS: Final = re.compile("[^A-Za-z0-9.]+")
_LONGEST_SUFFIX: Final = 40

_OWN: Final[Mapping[str, str]] = {
    "matrix": "a changed matrix gets a name of its own",
    "origin": "a changed matrix states its own",
    "licence": "write it into the matrix, as it changes no trial",
    "extends": "`l4sbench init --from NAME` writes a matrix that extends another",
    "quick": "--quick runs the quick variant",
    "catalog": "--catalog DIR adds a folder",
    "axes": "write FACTOR=[VALUE, VALUE]",
}
"""Keys that only a file may state, and what to write instead."""


@dataclass(frozen=True)
class _Stated(Document):
    """A document whose values are those of a command line; positions are the arguments."""

    arguments: Mapping[str, str] = field(default_factory=dict)

    def where(self, path: KeyPath, *, key: bool = False) -> str:
        """Return the argument that states the value at a path, or its key."""
        del key  # an argument has both
        named = [
            self.arguments[part] for part in path[:2] if isinstance(part, str) and part in self.arguments
        ]
        return f"{_OPTION} {short(named[0], 60)}" if named else _OPTION


@dataclass(frozen=True)
class Given:
    """Changes of a matrix.

    Attributes:
        document: The statements, as a matrix file would have them.
        words: The changes as they are written.
        suffix: What the name of a changed matrix ends with; equal changes have equal ones.
    """

    document: Document
    words: str
    suffix: str

    @classmethod
    def of(cls, changes: Sequence[str]) -> Given:
        """Return changes from texts `KEY=VALUE`; of several for a key the last counts.

        Raises:
            InputError: one has another form, cannot be read, or states a key that only a file may have.
        """
        from l4sbench.matrix.grammar import Changes

        arguments: dict[str, str] = {}
        values: dict[str, Tree] = {}
        problems: list[Problem] = []
        flaws: list[Problem] = []
        for text in changes:
            found = _FORM.fullmatch(text)
            if found is None:
                hint = "for example duration=10s or aqm=[codel,dualpi2]"
                problems.append(Problem("", _OPTION, f"{short(text)!r} is not a valid KEY=VALUE", hint))
                continue
            key, value = found.groups()
            argument = " ".join(text.split())
            place = f"{_OPTION} {short(argument, 60)}"
            if key in _OWN:
                problems.append(Problem(place, key, "cannot be set", _OWN[key]))
                continue
            try:
                read = parse(value.encode(errors="surrogateescape") or b"~", place)
            except InputError as error:
                problems += error.problems
                continue
            if read.content is None:
                problems.append(Problem(place, key, "expected a value, not nothing"))
                continue
            flaws += read.problems
            arguments.pop(key, None)
            arguments[key], values[key] = argument, read.content
        if problems:
            raise InputError(problems)
        settings = Changes.model_fields
        axes: dict[str, Tree] = {
            key: value for key, value in values.items() if key not in settings and isinstance(value, list)
        }
        content: dict[str, Tree] = {key: value for key, value in values.items() if key not in axes}
        if axes:
            content["axes"] = axes
        document = _Stated(_OPTION, content, tuple(flaws), arguments=arguments)
        return cls(document, ", ".join(arguments.values()), _suffix(values))


def _suffix(values: Mapping[str, Tree]) -> str:
    """Return changes as part of a name, with a digest where that says too little to tell them apart."""
    words = [word for key in sorted(values) for word in (key, *_words(values[key]))]
    plain = not any(isinstance(value, list | dict) for value in values.values())
    name = _OTHERS.sub("-", "-".join(words)).strip("-.")
    if plain and len(name) <= _LONGEST_SUFFIX and all(map(_PLAIN.fullmatch, words)):
        return name
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode(errors="surrogatepass")).hexdigest()
    return f"{name[:_LONGEST_SUFFIX].rstrip('-.')}-{digest[:8]}".lstrip("-")


def _words(value: Tree) -> Iterator[str]:
    """Yield the words of a value."""
    match value:
        case dict():
            for key, below in value.items():
                yield key
                yield from _words(below)
        case list():
            for item in value:
                yield from _words(item)
        case str():
            yield value
        case _:
            yield json.dumps(value)
