# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A small YAML 1.2 file together with the places of its keys, checked against a pydantic type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from l4sbench.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic_core import ErrorDetails

KeyPath = tuple[str | int, ...]


class YamlFile:
    """The file's content, and problems noted by key path.

    Raises:
        InputError: the file cannot be read or is no YAML map.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.problems: list[Problem] = []
        try:
            text = file.read_text(encoding="utf-8")
            self._root: Node | None = YAML(typ="safe", pure=True).compose(text)
            self.content: object = YAML(typ="safe", pure=True).load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
            raise InputError([Problem(where, "", f"no YAML: {error.problem or error.context}")]) from None
        except (OSError, UnicodeDecodeError, YAMLError) as error:
            raise InputError([Problem(str(file), "", f"cannot be read: {error}")]) from None
        if not isinstance(self._root, MappingNode):
            raise InputError([Problem(f"{file}:1:1", "", "expected a map of keys")])

    def problem(self, path: KeyPath, message: str, hint: str | None = None) -> None:
        """Notes that something is wrong at `path`."""
        known, node = self._walk(path)
        mark = node.start_mark
        where = f"{self.file}:{mark.line + 1}:{mark.column + 1}"
        said = path if len(known) == len(path) else (*known, *path[len(known) :])
        self.problems.append(Problem(where, ".".join(str(key) for key in said), message, hint))

    def validate(self, grammar: Any, keys: Sequence[str]) -> Any:
        """The content as the pydantic type `grammar`; `keys` are the words an unknown key may have meant.

        Raises:
            InputError: every difference at once, each with its place.
        """
        try:
            return TypeAdapter(grammar).validate_python(self.content)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                self._mismatch(details, keys)
            raise InputError(self.problems) from None

    def _mismatch(self, details: ErrorDetails, keys: Sequence[str]) -> None:
        # pydantic's path also names the variant of a union that it tried; the file has no such keys
        path, _ = self._walk(details["loc"], skip_unknown=True)
        last = details["loc"][-1] if details["loc"] else ""
        match details["type"]:
            case "extra_forbidden":
                self.problem(path, f"unknown key {last}", did_you_mean(str(last), keys))
            case "missing":
                self.problem(path, f"the key {last} is missing")
            case "union_tag_invalid" | "union_tag_not_found":
                offered = details.get("ctx", {}).get("expected_tags", "")
                self.problem(("kind",), f"expected one of {offered}")
            case "value_error":
                self.problem(path, str(details["ctx"]["error"]))
            case _:
                message = (
                    details["msg"].replace("Input should be", "expected").replace("String should", "should")
                )
                self.problem(path, f"{message}, not {details['input']!r}")

    def _walk(self, path: KeyPath, *, skip_unknown: bool = False) -> tuple[KeyPath, Node]:
        """As much of `path` as the file has, and the node there (the key's own place for a map's value)."""
        node: Node = self._root  # type: ignore[assignment]
        place = node
        known: list[str | int] = []
        for key in path:
            child = _child(node, key)
            if child is None:
                if skip_unknown:
                    continue
                break
            place, node = child
            known.append(key)
        return tuple(known), place


def _child(node: Node, key: str | int) -> tuple[Node, Node] | None:
    """Where `key` stands below `node`, and its value."""
    if isinstance(node, MappingNode):
        for name, value in node.value:
            if isinstance(name, ScalarNode) and name.value == str(key):
                return name, value
    if isinstance(node, SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key], node.value[key]
    return None
