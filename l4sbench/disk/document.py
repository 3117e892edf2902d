# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""YAML 1.2 files as pydantic models, every error with its line and column.

    rule = load_model(Path("mine.yml"), Rule)   # InputError lists all problems of the file

Below that, a document remembers the position of every key and value:

    document = read(Path("matrices/quickstart.yaml"))
    document.content["rate"]                    # "100mbit"
    document.where(("axes", "aqm", 2))          # "matrices/quickstart.yaml:14:28"

Documents consist of maps, lists, texts, numbers, booleans and null only; `off`, `on`, `yes` and `no` are
texts, as in YAML 1.2. Tags and duplicate keys are problems.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from l4sbench.disk.userfiles import MAX_INTEGER, MOST_PROBLEMS, as_text, position, read_bytes, short
from l4sbench.errors import BadValueError, InputError, Problem, suggest
from l4sbench.text.parameters import shown
from l4sbench.text.wording import quoted, quoted_within

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel, ValidationError
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
"""Replaces a list item whose problem has been reported, so that the other items keep their indexes."""

MAX_NODES: Final = 100_000
"""Number of values of one document, those that aliases repeat included. So many take about 5 s to read."""

MAX_DEPTH: Final = 50
"""Number of lists and maps within each other."""

MAX_LINES: Final = 500_000
"""Number of lines of one document."""

_M = TypeVar("_M", bound="BaseModel")
_Mark: TypeAlias = tuple[int, int]

_CORE = "tag:yaml.org,2002:"
_OUT_OF_RANGE: Final = " is out of range"
# tags that ruamel.yaml resolves for unquoted scalars without a tag
_IMPLICIT = frozenset({"str", "int", "float", "bool", "null", "timestamp", "merge", "value"})
# YAML 1.2 allows no other characters, except by escapes; of the surrogates only pairs are characters
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_LONGEST: Final = (
    300  # signs of a whole number; it becomes no float beyond 308 digits, and no int beyond 4,300
)
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class Flaw(NamedTuple):
    """A problem at a key path of a document, before its line and column are looked up."""

    path: KeyPath
    message: str
    hint: str | None = None


def dotted(path: KeyPath, known: Container[str] = ()) -> str:
    """Return a key path as messages show it, such as `tc[1].args`; keys that are not known are quoted."""
    keys = (
        part if isinstance(part, int) or part in known else quoted(part) for part in path if part != "[key]"
    )
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


@dataclass(frozen=True)
class Document:
    """The content of a file and the positions in it.

    A document without a name holds values that come from elsewhere, such as a command line; its problems
    have no position.

    Attributes:
        name: the file as messages name it.
        content: its values.
        problems: duplicate keys, tags, numbers out of range: they do not prevent reading the rest.
    """

    name: str
    content: Tree
    problems: tuple[Problem, ...] = ()
    _marks: Mapping[KeyPath, tuple[_Mark, _Mark]] = field(default_factory=dict, repr=False)

    def where(self, path: KeyPath, *, key: bool = False) -> str:
        """Return `file:line:column` of the value at `path`, or of its key; else of the closest parent."""
        if not self.name:
            return ""
        while path not in self._marks and path:
            path, key = path[:-1], False
        line, column = self._marks.get(path, ((0, 0), (0, 0)))[0 if key else 1]
        return f"{self.name}:{line + 1}:{column + 1}"

    def places(self, path: KeyPath) -> frozenset[str]:
        """Return the positions of the key at `path`, and of all keys and values below it."""
        below = [found for found in self._marks if found[: len(path)] == path]
        return frozenset(self.where(found, key=key) for found in below for key in (True, False))

    def below(self, path: KeyPath, content: Tree) -> Document:
        """Return the part at `path` as a document of its own with `content`, which may be of somewhere else.

        What the part does not state has its position.
        """
        size = len(path)
        marks = {found[size:]: mark for found, mark in self._marks.items() if found[:size] == path}
        return Document(self.name, content, _marks=marks)

    def problem(self, flaw: Flaw) -> Problem:
        """Return a flaw with its position, that of the value at its path."""
        return Problem(self.where(flaw.path), dotted(flaw.path), flaw.message, flaw.hint)

    def validate(self, model: type[_M]) -> _M:
        """Return the content as an instance of `model`.

        A validator of the model may raise `BadValueError` to add a hint to its message.

        Raises:
            InputError: all differences from the model, and `problems`.
        """
        from pydantic import ValidationError

        try:
            return model.model_validate(self.content)
        except ValidationError as error:
            known = _keys_of(model)
            found = _differences(self, self.content, error, model, lambda path: dotted(path, known))
            problems = [problem for _, _, problem in itertools.islice(found, MOST_PROBLEMS + 1)]
        raise InputError(reported([*self.problems, *problems]))

    def refuse(self, flaws: Iterable[Flaw]) -> None:
        """Raise InputError if the document has `problems` or any of these flaws."""
        found = [*self.problems, *map(self.problem, flaws)]
        if found:
            raise InputError(reported(found))


def reported(problems: Iterable[Problem]) -> Sequence[Problem]:
    """Return the problems of an input that its reader is shown.

    A number that no document may hold is left out where a problem says what is expected instead. After the
    first `MOST_PROBLEMS`, one says where there are more.
    """
    listed = list(dict.fromkeys(problems))
    explained = {problem.where for problem in listed if not problem.message.endswith(_OUT_OF_RANGE)}
    shown_at: set[str] = set()
    found: list[Problem] = []
    for problem in listed:
        if problem.where and problem.message.endswith(_OUT_OF_RANGE):
            if problem.where in explained | shown_at:
                continue
            shown_at.add(problem.where)
        found.append(problem)
    if len(found) <= MOST_PROBLEMS:
        return found
    more = Problem(found[MOST_PROBLEMS].where, "", "here and elsewhere are more problems than are listed")
    return [*found[:MOST_PROBLEMS], more]


def load_model(path: Path, model: type[_M], *, check: Callable[[_M], Iterable[Flaw]] | None = None) -> _M:
    """Read a YAML file as an instance of a pydantic model.

    Args:
        path: the file.
        model: its grammar. Forbid extra keys (`extra="forbid"`) so that misspelt ones are reported.
        check: yields what the model's own validators cannot know, such as a name that must be the file's.

    Raises:
        InputError: all problems of the file, each with line and column.
    """
    document = read(path)
    found = document.validate(model)
    document.refuse(check(found) if check else ())
    return found


def read(path: Path) -> Document:
    """Read a YAML file.

    Raises:
        InputError: the file cannot be read, is not UTF-8, or is not valid YAML.
    """
    return parse(read_bytes(path), str(path))


def parse(data: bytes, name: str) -> Document:
    """Read YAML from memory; messages call it `name`.

    Raises:
        InputError: as `read`.
    """
    text = as_text(data, name)
    if (found := _NOT_TEXT.search(text)) is not None:
        raise InputError([_character(position(name, text, found.start()), "", found[0])])
    if text.count("\n") >= MAX_LINES:
        raise InputError([Problem(f"{name}:{MAX_LINES + 1}:1", "", f"has more than {MAX_LINES} lines")])
    root = _compose(text, name)
    if root is None:
        raise InputError([Problem(f"{name}:1:1", "", "is empty")])
    reader = _Reader(name)
    content = reader.tree(root, ())
    if reader.refused:
        raise InputError(reported(reader.refused))
    return Document(name, content, tuple(reader.problems), reader.marks)


def _character(where: str, path: str, character: str) -> Problem:
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        return Problem(where, path, f"U+{code:04X} is half of a surrogate pair, not a character")
    return Problem(where, path, f"the control character U+{code:04X} is not allowed")


def _compose(text: str, name: str) -> Node | None:
    """Return the root node of a YAML text; None if it has none."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _bounded_composer()
    try:
        root: Node | None = yaml.compose(text)
    except _LimitExceeded as limit:
        raise InputError([Problem(f"{name}:{limit.line + 1}:{limit.column + 1}", "", str(limit))]) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"
        reason = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise InputError([_invalid(where, reason, text)]) from None
    except (YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
        # ruamel.yaml raises these for some texts, such as the escape \UFFFFFFFF or a directive %YAML 1.x
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        mark = yaml.reader.get_mark()
        where = f"{name}:{mark.line + 1}:{mark.column + 1}"
        raise InputError([_invalid(where, reason, text)]) from None
    return root


def _invalid(where: str, reason: str, text: str) -> Problem:
    hint = next((hint for part, hint in _YAML_HINTS.items() if part in reason), None)
    return Problem(where, "", f"is not valid YAML: {quoted_within(short(reason), text)}", hint)


_YAML_HINTS: Final = {
    "'\\t' that cannot start any token": "indent with spaces instead of tabs",
    "found '<block mapping start>'": "check that lines of one level begin in the same column",
    "could not find expected ':'": "check that a colon and a space follow each key",
    "mapping values are not allowed": "check the indentation of this line, and quote a text with ': '",
    "undefined alias": "quote a text that begins with *",
}
"""Parts of the parser's messages -> hints."""


class _LimitExceeded(Exception):  # noqa: N818  (an event, not an error of its own)
    """A document with too many values or levels, and where it goes beyond the limit."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@cache
def _bounded_composer() -> type[Any]:
    """Return ruamel's composer with limits, which hold before the memory is spent."""
    from ruamel.yaml.composer import Composer

    class Bounded(Composer):
        def __init__(self, loader: Any = None) -> None:
            super().__init__(loader)
            self.warn_double_anchors = False  # YAML 1.2 allows them
            self.nodes = 0
            self.level = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.nodes += 1
            self.level += 1
            if self.nodes > MAX_NODES or self.level > MAX_DEPTH:
                mark = self.parser.peek_event().start_mark
                limit = f"{MAX_NODES} values" if self.nodes > MAX_NODES else f"{MAX_DEPTH} levels of nesting"
                raise _LimitExceeded(f"is too large: more than {limit}", mark.line, mark.column)
            node = super().compose_node(parent, index)
            self.level -= 1
            return node

    return Bounded


class _Reader:
    """Converts YAML nodes to plain values and records their positions.

    Attributes:
        marks: the positions of keys and values.
        problems: those that do not prevent reading the rest.
        refused: characters that are not text.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: dict[KeyPath, tuple[_Mark, _Mark]] = {}
        self.problems: list[Problem] = []
        self.refused: list[Problem] = []
        self._parents: list[Node] = []

    def tree(self, node: Node, path: KeyPath, key: Node | None = None) -> Tree:
        """Return the plain value of `node`."""
        from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

        self.marks[path] = (_mark(key if key is not None else node), _mark(node))
        if len(self.marks) > MAX_NODES:
            raise InputError([Problem(self._where(node), "", f"is too large: more than {MAX_NODES} values")])
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if any(parent is node for parent in self._parents):
            raise InputError([Problem(self._where(node), dotted(path), "an alias must not contain itself")])
        self._parents.append(node)
        try:
            if isinstance(node, SequenceNode):
                self._core_tag(node, "seq", path)
                return [self.tree(item, (*path, index)) for index, item in enumerate(node.value)]
            if isinstance(node, MappingNode):
                self._core_tag(node, "map", path)
                return self._map(node, path)
        finally:
            self._parents.pop()
        raise TypeError(f"unknown YAML node {node!r}")

    def _map(self, node: Node, path: KeyPath) -> dict[str, Tree]:
        from ruamel.yaml.nodes import ScalarNode

        result: dict[str, Tree] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._problem(key, path, "a key must be a word")
                continue
            name = key.value
            own = (*path, name)
            self._check_text(key, own, name)
            if name in result:
                self._problem(
                    key, own, f"duplicate key; it is first used in line {self.marks[own][0][0] + 1}"
                )
                continue
            result[name] = self.tree(value, own, key)
        return result

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Scalar:
        text: str = node.value
        tag = str(node.tag)
        self._check_text(node, path, text)
        if node.style is not None or tag.removeprefix(_CORE) not in _IMPLICIT:
            self._core_tag(node, "str", path)
            return text
        if tag == f"{_CORE}str":
            return text
        value = _plain_scalar(text)
        if not _in_range(value) or (value is text and len(text) > _LONGEST and _INT.fullmatch(text)):
            self._problem(node, path, quoted(text) + _OUT_OF_RANGE)
        return value

    def _check_text(self, node: Node, path: KeyPath, text: str) -> None:
        """Refuse escapes for characters that are not text: control characters, half of a surrogate pair."""
        if (found := _NOT_TEXT.search(text)) is not None:
            readable = tuple(_NOT_TEXT.sub("?", part) if isinstance(part, str) else part for part in path)
            self.refused.append(_character(self._where(node), dotted(readable), found[0]))

    def _core_tag(self, node: Node, tag: str, path: KeyPath) -> None:
        if str(node.tag) != _CORE + tag:
            written = quoted(str(node.tag).replace(_CORE, "!!"))
            self._problem(node, path, f"the tag {written} is not allowed; use plain values")

    def _problem(self, node: Node, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(self._where(node), dotted(path), message))

    def _where(self, node: Node) -> str:
        line, column = _mark(node)
        return f"{self.name}:{line + 1}:{column + 1}"


def _mark(node: Node) -> _Mark:
    return node.start_mark.line, node.start_mark.column


def _in_range(value: Scalar) -> bool:
    match value:
        case bool() | str() | None:
            return True
        case int():
            return abs(value) <= MAX_INTEGER
        case float():
            return math.isfinite(value)


def _plain_scalar(text: str) -> Scalar:
    """Resolve an unquoted scalar by the core schema of YAML 1.2."""
    if text in {"", "~", "null", "Null", "NULL"}:
        return None
    if text in {"true", "True", "TRUE"}:
        return True
    if text in {"false", "False", "FALSE"}:
        return False
    if _INT.fullmatch(text):
        # a longer one is reported as out of range, and remains a text that messages can quote
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if len(text) <= _LONGEST else text
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


@dataclass(frozen=True)
class Salvaged(Generic[_M]):
    """A document without the parts that differ from its model.

    Attributes:
        model: the valid rest.
        problems: all differences, in the order of the file.
        complete: True if nothing was cut out.
    """

    model: _M
    problems: tuple[Problem, ...]
    complete: bool


def salvage(
    document: Document,
    model: type[_M],
    *,
    name_of: Callable[[KeyPath], str] = dotted,
    stand_ins: Mapping[str, Tree] | None = None,
) -> Salvaged[_M]:
    """Validate a document, cut out the parts that are wrong, and keep the rest.

    Later steps can then check the rest, so that all problems of a file are reported together.

    Args:
        document: the file.
        model: its grammar; all keys must be optional but those of `stand_ins`.
        name_of: returns how messages name a path.
        stand_ins: values for top-level keys that are required and missing.
    """
    from pydantic import ValidationError

    problems: dict[Problem, None] = {}
    content = copy.deepcopy(document.content)
    if not isinstance(content, dict):
        message = f"expected a map, not {shown(content)}"
        problems[Problem(document.where(()), "", message)] = None
        content = dict(stand_ins or {})
    for _ in range(100):  # each round cuts out at least one part; real files need a few rounds
        try:
            found = model.model_validate(content)
        except ValidationError as error:
            for path, details, problem in list(_differences(document, content, error, model, name_of)):
                problems.setdefault(problem)
                if len(problems) > MOST_PROBLEMS:
                    raise InputError(reported(list(problems))) from None
                missing = details["type"] == "missing"
                _cut(content, (*path, details["loc"][-1]) if missing else path, stand_ins or {})
        else:
            return Salvaged(found, tuple(problems), not problems)
    raise InputError(list(problems))


def unless_cut(value: Any, handler: Callable[[Any], Any]) -> Any:
    """Let `CUT` pass; a pydantic `WrapValidator` for the items of lists."""
    return value if value is CUT else handler(value)


def _cut(content: Any, path: KeyPath, stand_ins: Mapping[str, Tree]) -> None:
    if not path:
        return
    with contextlib.suppress(KeyError, TypeError):  # a parent was cut out in the same round
        for part in path[:-1]:
            content = content[part]
        if isinstance(content, list):
            content[int(path[-1])] = CUT
        elif len(path) == 1 and (key := str(path[0])) in stand_ins:
            content[key] = stand_ins[key]
        else:
            del content[path[-1]]


def _known(content: Tree, loc: KeyPath) -> KeyPath:
    """Return the part of pydantic's path that is in the file; pydantic also names variants of unions."""
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


def _differences(
    document: Document,
    content: Tree,
    error: ValidationError,
    model: type[BaseModel],
    name_of: Callable[[KeyPath], str],
) -> Iterator[tuple[KeyPath, ErrorDetails, Problem]]:
    """Yield the key path, pydantic's details and the problem of every error."""
    for details in error.errors(include_url=False):
        path = _known(content, details["loc"])
        last = details["loc"][-1] if details["loc"] else ""
        named, by_key, hint = path, last == "[key]", None
        match details["type"]:
            case "missing":
                named, by_key, message = (*path, last), True, "is missing"
            case "extra_forbidden":
                by_key, message = True, "unknown key"
                hint = suggest(str(last), _keys_at(model, path[:-1]))
            case "union_tag_not_found" | "union_tag_invalid":
                context = {key: str(value).replace("'", "") for key, value in details["ctx"].items()}
                path = named = (*path, context["discriminator"])
                tags = context.get("expected_tags")
                message = f"expected one of {tags}, not {shown(context['tag'])}" if tags else "is missing"
            case "value_error":
                cause = details["ctx"]["error"]
                message, hint = str(cause), None
                if isinstance(cause, BadValueError):
                    message, hint = cause.message, cause.hint
            case _:
                message = _message(details)
        yield path, details, Problem(document.where(path, key=by_key), name_of(named), message, hint)


def _message(details: ErrorDetails) -> str:
    """Return what was expected of a value, in the project's words where there are some."""
    kind, given, limits = details["type"], shown(details["input"]), details.get("ctx", {})
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, not {given}"
    if kind in _RANGES:
        limit = next(iter(limits.values()))
        limit = f"{limit:g}" if isinstance(limit, float) else limit
        return f"{given} is out of range; it must be {_RANGES[kind]} {limit}"
    match kind:
        case "literal_error" | "enum":
            return f"expected {limits['expected']}, not {given}".replace("'", "")
        case "string_pattern_mismatch":
            return f"{given} does not match the pattern {limits['pattern']}"
        case "int_parsing_size":
            return f"{given} is out of range"
        case "string_too_short" | "too_short":
            return "must not be empty" if limits["min_length"] == 1 else str(details["msg"])
    return f"{details['msg']}, not {given}"


_RANGES: Final = {
    "greater_than_equal": "at least",
    "greater_than": "more than",
    "less_than_equal": "at most",
    "less_than": "less than",
}
_EXPECTED: Final = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "mapping_type"), "a map"),
}


def _keys_at(model: type[BaseModel], path: KeyPath) -> tuple[str, ...]:
    """Return the keys that a model allows in the map at `path`, from its JSON Schema."""
    schema = _schema(model)
    definitions = schema.get("$defs", {})

    def variants(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "$ref" in part:
            part = definitions[part["$ref"].rpartition("/")[2]]
        nested = part.get("anyOf") or part.get("oneOf")
        if nested is None:
            yield part
        else:
            for variant in nested:
                yield from variants(variant)

    def below(part: dict[str, Any], key: str | int) -> dict[str, Any]:
        found = part.get("items") if isinstance(key, int) else part.get("properties", {}).get(key)
        found = found or part.get("additionalProperties")
        return found if isinstance(found, dict) else {}

    parts = list(variants(schema))
    for key in path:
        parts = [variant for part in parts for variant in variants(below(part, key))]
    return tuple(dict.fromkeys(name for part in parts for name in part.get("properties", ())))


@cache
def _keys_of(model: type[BaseModel]) -> frozenset[str]:
    """Return every key that a model names, at any depth."""
    schema = _schema(model)
    parts = (schema, *schema.get("$defs", {}).values())
    return frozenset(name for part in parts for name in part.get("properties", ()))


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()
