# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A small YAML file checked against a pydantic type, and a list of what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from l4sbench.document import KeyPath, read
from l4sbench.errors import InputError, Problem, did_you_mean
from l4sbench.factors import shown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class YamlFile:
    """The file's content, and problems noted by key path.

    Raises:
        InputError: the file cannot be read or is no YAML.
    """

    def __init__(self, file: Path) -> None:
        self._document = read(file)
        self.problems: list[Problem] = list(self._document.problems)

    def problem(self, path: KeyPath, message: str, hint: str | None = None) -> None:
        """Notes that something is wrong at `path`."""
        where = self._document.where(path, key=bool(path) and isinstance(path[-1], str))
        self.problems.append(Problem(where, ".".join(str(key) for key in path), message, hint))

    def validate(self, grammar: Any, keys: Sequence[str]) -> Any:
        """The content as the pydantic type `grammar`; `keys` are the words an unknown key may have meant.

        Raises:
            InputError: every difference at once, each with its place.
        """
        try:
            return TypeAdapter(grammar).validate_python(self._document.content)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                self._mismatch(details, keys)
            raise InputError(self.problems) from None

    def _mismatch(self, details: ErrorDetails, keys: Sequence[str]) -> None:
        path = self._known(details["loc"])
        last = details["loc"][-1] if details["loc"] else ""
        match details["type"]:
            case "extra_forbidden":
                self.problem(path, f"unknown key {last}", did_you_mean(str(last), keys))
            case "missing":
                self.problem((*path, last), "this key is missing")
            case "union_tag_invalid" | "union_tag_not_found":
                offered = details.get("ctx", {}).get("expected_tags", "")
                self.problem(("kind",), f"expected one of {offered}")
            case "value_error":
                self.problem(path, str(details["ctx"]["error"]))
            case _:
                message = (
                    details["msg"].replace("Input should be", "expected").replace("String should", "should")
                )
                self.problem(path, f"{message}, not {shown(details['input'])}")

    def _known(self, loc: KeyPath) -> KeyPath:
        """As much of pydantic's path as is in the file; it also names the variant of a union it tried."""
        tree: Any = self._document.content
        path: list[str | int] = []
        for key in loc:
            in_map = isinstance(tree, dict) and key in tree
            if in_map or (isinstance(tree, list) and isinstance(key, int) and key < len(tree)):
                tree = tree[key]
                path.append(key)
        return tuple(path)
