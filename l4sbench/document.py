# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""YAML 1.2 files that know where each of their keys and values stands.

    document = read(Path("matrices/quickstart.yaml"))
    document.content["rate"]                    # "100mbit"
    document.where(("axes", "aqm", 2))          # "matrices/quickstart.yaml:14:28"

Only maps, lists, texts, numbers, booleans and null come out; `off`, `on`, `yes` and `no` are texts, as YAML
1.2 says. Tags are refused, a key that stands twice is a problem.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

from l4sbench.errors import InputError, Problem, did_you_mean
from l4sbench.factors import BadValueError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pydantic import BaseModel
    from pydantic_core import ErrorDetails
    from ruamel.yaml.nodes import Node, ScalarNode

KeyPath: TypeAlias = tuple[str | int, ...]
Scalar: TypeAlias = str | int | float | bool | None
Tree: TypeAlias = "Scalar | list[Tree] | dict[str, Tree]"


class _Cut:
    """The type of `CUT`."""

    def __repr__(self) -> str:
        return "<cut out>"

    def __deepcopy__(self, memo: object) -> _Cut:
        return self


CUT: Final[Any] = _Cut()
"""Stands in a list for an item that was wrong and has been reported, so that the others keep their places."""

MAX_NODES = 500_000
"""Aliases can make a small file huge; nobody means that."""

_M = TypeVar("_M", bound="BaseModel")
_Mark: TypeAlias = tuple[int, int]

_CORE = "tag:yaml.org,2002:"
# what ruamel.yaml gives to an unquoted scalar without a tag
_IMPLICIT = frozenset({"str", "int", "float", "bool", "null", "timestamp", "merge", "value"})
_INT = re.compile(r"[-+]?[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


@dataclass(frozen=True)
class Document:
    """A file's content and the places in it.

    Attributes:
        name: the file as messages name it.
        content: what it says.
        problems: what is wrong with it as YAML but did not keep it from being read: a key given twice, a tag.
    """

    name: str
    content: Tree
    problems: tuple[Problem, ...] = ()
    _marks: Mapping[KeyPath, tuple[_Mark, _Mark]] = field(default_factory=dict, repr=False)

    def where(self, path: KeyPath, *, key: bool = False) -> str:
        """`file:line:column` of the value at `path` or of its key; if it is not there, of what is above."""
        while path not in self._marks and path:
            path, key = path[:-1], False
        key_mark, value_mark = self._marks.get(path, ((0, 0), (0, 0)))
        line, column = key_mark if key else value_mark
        return f"{self.name}:{line + 1}:{column + 1}"


@dataclass(frozen=True)
class Checked(Generic[_M]):
    """A document measured against a model.

    Attributes:
        model: what is right about the document; its wrong parts are left out.
        problems: every difference, in the order of the file.
        bad: key paths of the parts that were left out.
    """

    model: _M
    problems: tuple[Problem, ...]
    bad: frozenset[KeyPath]


def read(path: Path) -> Document:
    """Reads a YAML file.

    Raises:
        InputError: it cannot be read, is not UTF-8, or is no YAML.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from None
    return parse(data, str(path))


def parse(data: bytes, name: str) -> Document:
    """Reads YAML from memory; `name` is what messages call it.

    Raises:
        InputError: as `read`.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError([Problem(f"{name}:{line}:1", "", "is not UTF-8 text")]) from None
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        said = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise InputError([Problem(where, "", f"is no YAML: {said}")]) from None
    except (YAMLError, ValueError, RecursionError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError([Problem(name, "", f"is no YAML: {said}")]) from None
    if root is None:
        raise InputError([Problem(f"{name}:1:1", "", "is empty")])
    reader = _Reader(name)
    content = reader.tree(root, ())
    return Document(name, content, tuple(reader.problems), reader.marks)


class _Reader:
    """Turns nodes into plain values and remembers where they stood."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: dict[KeyPath, tuple[_Mark, _Mark]] = {}
        self.problems: list[Problem] = []
        self._above: list[Node] = []

    def tree(self, node: Node, path: KeyPath, key: Node | None = None) -> Tree:
        """The plain value of `node`."""
        from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

        self.marks[path] = (_mark(key if key is not None else node), _mark(node))
        if len(self.marks) > MAX_NODES:
            raise InputError([Problem(self.name, "", f"is too large: more than {MAX_NODES} values")])
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if any(above is node for above in self._above):
            raise InputError([Problem(self._where(node), _dotted(path), "an alias must not contain itself")])
        self._above.append(node)
        try:
            if isinstance(node, SequenceNode):
                self._core_tag(node, "seq", path)
                return [self.tree(item, (*path, index)) for index, item in enumerate(node.value)]
            if isinstance(node, MappingNode):
                self._core_tag(node, "map", path)
                return self._map(node, path)
        finally:
            self._above.pop()
        raise TypeError(f"unknown YAML node {node!r}")

    def _map(self, node: Node, path: KeyPath) -> dict[str, Tree]:
        from ruamel.yaml.nodes import ScalarNode

        result: dict[str, Tree] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.problems.append(Problem(self._where(key), _dotted(path), "a key must be a word"))
                continue
            name = key.value
            own = (*path, name)
            if name in result:
                line = self.marks[own][0][0] + 1
                message = f"stands here a second time; the first is in line {line}"
                self.problems.append(Problem(self._where(key), _dotted(own), message))
                continue
            result[name] = self.tree(value, own, key)
        return result

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Scalar:
        text: str = node.value
        tag = str(node.tag)
        if node.style is not None:
            self._core_tag(node, "str", path)
            return text
        if tag.removeprefix(_CORE) not in _IMPLICIT:
            self._core_tag(node, "str", path)
            return text
        return text if tag == f"{_CORE}str" else _plain_scalar(text)

    def _core_tag(self, node: Node, tag: str, path: KeyPath) -> None:
        if str(node.tag) != _CORE + tag:
            message = f"the tag {node.tag} is not allowed; only plain values are"
            self.problems.append(Problem(self._where(node), _dotted(path), message))

    def _where(self, node: Node) -> str:
        line, column = _mark(node)
        return f"{self.name}:{line + 1}:{column + 1}"


def _mark(node: Node) -> _Mark:
    return node.start_mark.line, node.start_mark.column


def _plain_scalar(text: str) -> Scalar:
    """An unquoted scalar by the core schema of YAML 1.2."""
    if text in {"", "~", "null", "Null", "NULL"}:
        return None
    if text in {"true", "True", "TRUE"}:
        return True
    if text in {"false", "False", "FALSE"}:
        return False
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _dotted(path: KeyPath) -> str:
    return ".".join(str(part) for part in path if isinstance(part, str))


def check(
    document: Document,
    model: type[_M],
    *,
    offered: Callable[[KeyPath], Iterable[str]],
    name_of: Callable[[KeyPath], str] = _dotted,
    stand_ins: Mapping[str, Tree] | None = None,
) -> Checked[_M]:
    """Measures a document against a pydantic model and finds every difference.

    What is wrong is cut out and the rest measured again, so that later steps can look at the rest and all
    problems of a file come at once.

    Args:
        document: the file.
        model: its grammar.
        offered: the keys that a wrong key at a path may have been meant to be.
        name_of: what messages call a path.
        stand_ins: values for keys of the whole document that are required and missing.
    """
    from pydantic import ValidationError

    problems: dict[tuple[str, str, str], Problem] = {}
    bad: set[KeyPath] = set()
    content = copy.deepcopy(document.content)
    if not isinstance(content, dict):
        message = f"expected a map of keys, not {shown(content)}"
        problems["", "", ""] = Problem(document.where(()), "", message)
        content = dict(stand_ins or {})
        bad.add(())
    for _ in range(100):  # each round cuts out at least one part; a few rounds are enough for any real file
        try:
            found = model.model_validate(content)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                path = _known(content, details["loc"])
                problem = _problem(document, details, path, offered, name_of)
                problems.setdefault((problem.where, problem.path, problem.message), problem)
                bad.add(path)
                _cut(
                    content,
                    path,
                    str(details["loc"][-1]),
                    stand_ins or {},
                    missing=details["type"] == "missing",
                )
        else:
            return Checked(found, tuple(problems.values()), frozenset(bad))
    raise InputError(list(problems.values()))


def unless_cut(value: Any, handler: Callable[[Any], Any]) -> Any:
    """For the items of lists in a model, as a pydantic `WrapValidator`: lets `CUT` pass."""
    return value if value is CUT else handler(value)


def _known(content: Tree, loc: KeyPath) -> KeyPath:
    """As much of pydantic's path as is in the file; pydantic also names the variant of a union it tried."""
    path: list[str | int] = []
    tree = content
    for part in loc:
        if isinstance(tree, dict) and part in tree:
            tree = tree[str(part)]
        elif isinstance(tree, list) and isinstance(part, int) and part < len(tree):
            tree = tree[part]
        else:
            continue
        path.append(part)
    return tuple(path)


def _cut(content: Tree, path: KeyPath, key: str, stand_ins: Mapping[str, Tree], *, missing: bool) -> None:
    if missing and not path and isinstance(content, dict):
        content[key] = stand_ins[key]
        return
    for part in path[:-1]:
        if isinstance(content, dict):
            content = content.get(str(part))
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            content = content[part]
    if not path:
        return
    last = path[-1]
    if isinstance(content, dict):
        if path == (last,) and last in stand_ins:
            content[str(last)] = stand_ins[str(last)]
        else:
            content.pop(str(last), None)
    elif isinstance(content, list) and isinstance(last, int) and last < len(content):
        cast("list[object]", content)[last] = CUT


def _problem(
    document: Document,
    details: ErrorDetails,
    path: KeyPath,
    offered: Callable[[KeyPath], Iterable[str]],
    name_of: Callable[[KeyPath], str],
) -> Problem:
    kind, last = details["type"], str(details["loc"][-1]) if details["loc"] else ""
    context = details.get("ctx") or {}
    hint: str | None = None
    match kind:
        case "missing":
            own = (*path, last)
            return Problem(document.where(path, key=True), name_of(own), "is missing")
        case "extra_forbidden":
            hint = did_you_mean(last, offered(path[:-1]))
            return Problem(
                document.where(path, key=True), name_of(path), "is no key that means anything here", hint
            )
        case "value_error":
            error = context["error"]
            message, hint = (
                (error.message, error.hint) if isinstance(error, BadValueError) else (str(error), None)
            )
        case "literal_error":
            message = f"expected {context['expected'].replace(chr(39), '')}, not {shown(details['input'])}"
        case "greater_than_equal":
            message = f"{shown(details['input'])} is out of range: at least {context['ge']} is allowed"
        case "less_than_equal":
            message = f"{shown(details['input'])} is out of range: at most {context['le']} is allowed"
        case _:
            expected = _EXPECTED.get(kind)
            if expected is None:
                message = f"{details['msg']}, not {shown(details['input'])}"
            else:
                message = f"expected {expected}, not {shown(details['input'])}"
    return Problem(document.where(path, key=last == "[key]"), name_of(path), message, hint)


_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
    "mapping_type": "a map",
}
