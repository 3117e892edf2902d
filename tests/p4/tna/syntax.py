# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Text of a P4 program to a tree, for the part of P4-16 and TNA that `p4/` uses; anything else is refused.

Grammar and precedences are those of the P4-16 specification, version 1.2.5. The C preprocessor runs first;
lines `#include <...>` are left out, since the interpreter knows the architecture itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.p4.tna.chips import TOFINO, Chip
from tests.patience import ran

T = TypeVar("T")


class RefusedError(Exception):
    """Something in the program that the interpreter does not know, or that the compiler would not take."""


@dataclass(frozen=True, slots=True)
class At:
    """A place in the program."""

    file: str
    line: int

    def refuse(self, message: str) -> RefusedError:
        """Return the error that states the place."""
        return RefusedError(f"{self.file}:{self.line}: {message}")


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the program, with its place."""

    at: At


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal; `width` is None without a prefix such as `8w`."""

    value: int
    width: int | None


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A name alone."""

    name: str


@dataclass(frozen=True, slots=True)
class Member(Node):
    """`of.name`."""

    of: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`of[high:low]`."""

    of: Expression
    high: Expression
    low: Expression


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`!of` or `~of`."""

    operator: str
    of: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`left operator right`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`(type) of`."""

    type: Type
    of: Expression


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`function<types>(arguments)`."""

    function: Expression
    types: tuple[Type, ...]
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Items(Node):
    """`{a, b, c}`."""

    items: tuple[Expression, ...]


Expression = Number | Name | Member | Slice | Unary | Binary | Cast | Call | Items


@dataclass(frozen=True, slots=True)
class Type(Node):
    """`name<arguments>`; arguments of `bit` are expressions."""

    name: str
    arguments: tuple[Type, ...] = ()
    width: Expression | None = None


@dataclass(frozen=True, slots=True)
class Match(Node):
    """One key of an entry: a value, `value &&& mask`, `low .. high`, or anything (both None)."""

    value: Expression | None
    mask: Expression | None = None
    high: Expression | None = None


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`target = value;`"""

    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Do(Node):
    """`call;`"""

    call: Call


@dataclass(frozen=True, slots=True)
class If(Node):
    """`if (condition) {...} else {...}`."""

    condition: Expression
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...]


Statement = Assign | Do | If


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """`direction type name`."""

    direction: str
    type: Type
    name: str


@dataclass(frozen=True, slots=True)
class Record(Node):
    """A header or struct."""

    kind: str
    name: str
    fields: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Typedef(Node):
    """`typedef type name;`"""

    type: Type
    name: str


@dataclass(frozen=True, slots=True)
class Const(Node):
    """`const type name = value;`"""

    type: Type
    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`transition select(keys) { matches: state; }`; plain transitions have no keys and one case."""

    keys: tuple[Expression, ...]
    cases: tuple[tuple[tuple[Match, ...], str], ...]


@dataclass(frozen=True, slots=True)
class State(Node):
    """A state of a parser."""

    name: str
    body: tuple[Statement, ...]
    transition: Select


@dataclass(frozen=True, slots=True)
class Action(Node):
    """An action of a control."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Entry(Node):
    """A constant entry of a table."""

    matches: tuple[Match, ...]
    action: Call


@dataclass(frozen=True, slots=True)
class Table(Node):
    """A table; keys come with their kind of match."""

    name: str
    keys: tuple[tuple[Expression, str], ...]
    actions: tuple[str, ...]
    entries: tuple[Entry, ...]
    default: Call
    size: int


@dataclass(frozen=True, slots=True)
class Instance(Node):
    """`type(arguments) name`, of a RegisterAction with its method."""

    type: Type
    arguments: tuple[Expression, ...]
    name: str
    parameters: tuple[Parameter, ...] = ()
    method: tuple[Statement, ...] | None = None


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """A variable of a control."""

    type: Type
    name: str


Local = State | Action | Table | Instance | Variable


@dataclass(frozen=True, slots=True)
class Block(Node):
    """A parser or a control."""

    kind: str
    name: str
    parameters: tuple[Parameter, ...]
    locals: tuple[Local, ...]
    apply: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """A whole program."""

    records: tuple[Record, ...]
    typedefs: tuple[Typedef, ...]
    consts: tuple[Const, ...]
    blocks: tuple[Block, ...]
    instances: tuple[Instance, ...]


TOKEN = re.compile(
    r"""(?P<skip>[ \t]+|//[^\n]*|/\*.*?\*/)|(?P<line>\n)
    |(?P<mark>\#[ ](?P<at>\d+)[ ]"(?P<file>[^"]*)"[^\n]*\n)
    |(?P<number>\d+w(?:0[xX][0-9a-fA-F]+|\d+)|0[xX][0-9a-fA-F]+|\d+)|(?P<name>[A-Za-z_]\w*)|(?P<string>"[^"\n]*")
    |(?P<operator>\|\+\||\|-\||&&&|\.\.|<<|\+\+|&&|\|\||==|!=|<=|>=|[-+*&|^~!<>=(){}\[\];:,.?@/%])""",
    re.VERBOSE | re.DOTALL,
)
LEVELS = (
    ("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("|",), ("^",), ("&",), ("<<",),
    ("+", "-", "++", "|+|", "|-|"),
)  # fmt: skip
ANNOTATIONS = {"pa_container_size", "padding"}
MATCHES = {"exact", "ternary", "lpm", "range"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the program."""

    kind: str
    text: str
    at: At


def preprocess(path: Path, *macros: str, chip: Chip = TOFINO) -> str:
    """Return a program's text after the C preprocessor, with line markers.

    Raises:
        RefusedError: The preprocessor reports an error.
    """
    text = re.sub(
        r"^[ \t]*#[ \t]*include[ \t]*<.*>", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    done = ran(["cpp", "-undef", "-nostdinc", "-I", str(path.parent), *chip.macros, *macros], given=text)
    if done.returncode:
        raise RefusedError(f"{path.name}: {done.stderr.strip()}")
    return done.stdout.replace('"<stdin>"', f'"{path.name}"')


def tokens(text: str, file: str) -> list[Token]:
    """Split preprocessed text into words.

    Raises:
        RefusedError: A character is no part of the language.
    """
    found: list[Token] = []
    line, position = 1, 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise At(file, line).refuse(f"{text[position]!r} is not a part of P4")
        position = match.end()
        if match["mark"]:
            line, file = int(match["at"]), Path(match["file"]).name
            continue
        kind = match.lastgroup or ""
        if kind in ("number", "name", "string", "operator"):
            found.append(Token(kind, match[0], At(file, line)))
        line += match[0].count("\n")
    return [*found, Token("end", "end of file", At(file, line))]


class Parser:
    """Recursive descent over the words of a program."""

    def __init__(self, words: Sequence[Token]) -> None:
        self.words = words
        self.index = 0

    # ---- words
    @property
    def word(self) -> Token:
        """The word that comes next."""
        return self.words[self.index]

    def ahead(self, by: int) -> Token:
        """Return a later word."""
        return self.words[min(self.index + by, len(self.words) - 1)]

    def take(self) -> Token:
        """Go on by one word and return it."""
        self.index += self.index < len(self.words) - 1
        return self.words[self.index - 1]

    def has(self, text: str) -> bool:
        """Report whether a word comes next, and take it if so."""
        if self.word.text != text or self.word.kind in ("string", "end"):
            return False
        self.take()
        return True

    def expect(self, text: str) -> At:
        """Take a word that must come next, and return its place."""
        at = self.word.at
        if not self.has(text):
            raise at.refuse(f"{self.word.text!r} is not supported here; expected {text!r}")
        return at

    def name(self) -> str:
        """Take a name."""
        if self.word.kind != "name":
            raise self.word.at.refuse(f"{self.word.text!r} is not a name")
        return self.take().text

    def several(self, one: Callable[[], T], end: str, between: str = ",") -> tuple[T, ...]:
        """Take things with separators up to an end, which is taken too."""
        found: list[T] = []
        while not self.has(end):
            found.append(one())
            if between and not self.has(between):
                self.expect(end)
                break
        return tuple(found)

    def annotations(self) -> None:
        """Take annotations; they change the layout in the chip, not the meaning."""
        while self.word.text == "@":
            self.take()
            at, name = self.word.at, self.name()
            if name not in ANNOTATIONS:
                raise at.refuse(f"annotation @{name} is not supported")
            if self.has("("):
                self.several(self.take, ")")

    # ---- declarations
    def program(self) -> Tree:
        """Take a whole program."""
        found: list[Record | Typedef | Const | Block | Instance] = []
        while self.word.kind != "end":
            found.append(self.declaration())
        return Tree(
            tuple(one for one in found if isinstance(one, Record)),
            tuple(one for one in found if isinstance(one, Typedef)),
            tuple(one for one in found if isinstance(one, Const)),
            tuple(one for one in found if isinstance(one, Block)),
            tuple(one for one in found if isinstance(one, Instance)),
        )

    def declaration(self) -> Record | Typedef | Const | Block | Instance:
        """Take one declaration of the top level."""
        self.annotations()
        at, text = self.word.at, self.word.text
        if text in ("header", "struct"):
            self.take()
            name = self.name()
            self.expect("{")
            return Record(at, text, name, self.several(self.field, "}", ""))
        if text == "typedef":
            self.take()
            typedef = Typedef(at, self.type(), self.name())
            self.expect(";")
            return typedef
        if text == "const":
            return self.const()
        if text in ("parser", "control"):
            return self.block()
        return self.instance(self.type())

    def field(self) -> Parameter:
        """Take a field of a header or struct."""
        self.annotations()
        field = Parameter(self.word.at, "", self.type(), self.name())
        self.expect(";")
        return field

    def const(self) -> Const:
        """Take a constant."""
        at = self.expect("const")
        type_, name = self.type(), self.name()
        self.expect("=")
        value = self.expression()
        self.expect(";")
        return Const(at, type_, name, value)

    def parameter(self) -> Parameter:
        """Take a parameter."""
        at = self.word.at
        direction = self.take().text if self.word.text in ("in", "out", "inout") else ""
        return Parameter(at, direction, self.type(), self.name())

    def parameters(self) -> tuple[Parameter, ...]:
        """Take parameters with their parentheses."""
        self.expect("(")
        return self.several(self.parameter, ")")

    def type(self) -> Type:
        """Take a type."""
        at, name = self.word.at, self.name()
        if not self.has("<"):
            return Type(at, name)
        if name == "bit":
            width = self.primary()
            self.expect(">")
            return Type(at, name, (), width)
        return Type(at, name, self.several(self.type, ">"))

    def block(self) -> Block:
        """Take a parser or control."""
        at, kind, name, parameters = self.word.at, self.take().text, self.name(), self.parameters()
        self.expect("{")
        inside: list[Local] = []
        apply: tuple[Statement, ...] | None = None
        while not self.has("}"):
            if kind == "control" and self.word.text == "apply":
                self.take()
                apply = self.body()
            else:
                inside.append(self.local(kind))
        if kind == "control" and apply is None:
            raise at.refuse(f"control {name} has no apply")
        return Block(at, kind, name, parameters, tuple(inside), apply or ())

    def local(self, kind: str) -> Local:
        """Take a declaration of a parser or control."""
        at, text = self.word.at, self.word.text
        if kind == "parser":
            return self.state()
        if text == "action":
            self.take()
            return Action(at, self.name(), self.parameters(), self.body())
        if text == "table":
            return self.table()
        type_ = self.type()
        if self.word.text == "(":
            return self.instance(type_)
        variable = Variable(at, type_, self.name())
        self.expect(";")
        return variable

    def instance(self, type_: Type) -> Instance:
        """Take an instance of something, after its type."""
        self.expect("(")
        arguments, name = self.several(self.expression, ")"), self.name()
        parameters: tuple[Parameter, ...] = ()
        method: tuple[Statement, ...] | None = None
        if self.has("="):
            self.expect("{")
            self.expect("void")
            self.expect("apply")
            parameters, method = self.parameters(), self.body()
            self.expect("}")
        self.expect(";")
        return Instance(type_.at, type_, arguments, name, parameters, method)

    def state(self) -> State:
        """Take a state of a parser."""
        at = self.expect("state")
        name = self.name()
        self.expect("{")
        body: list[Statement] = []
        while self.word.text != "transition":
            body.append(self.statement())
        place = self.expect("transition")
        if self.has("select"):
            self.expect("(")
            keys = self.several(self.expression, ")")
            self.expect("{")
            select = Select(place, keys, self.several(self.case, "}", ""))
        else:
            select = Select(place, (), (((), self.name()),))
            self.expect(";")
        self.expect("}")
        return State(at, name, tuple(body), select)

    def case(self) -> tuple[tuple[Match, ...], str]:
        """Take one case of a select."""
        matches = self.matches()
        self.expect(":")
        state = self.name()
        self.expect(";")
        return matches, state

    def matches(self) -> tuple[Match, ...]:
        """Take the keys of an entry or a case."""
        if self.word.text == "(":
            self.take()
            return self.several(self.match, ")")
        return (self.match(),)

    def match(self) -> Match:
        """Take one key of an entry."""
        at = self.word.at
        if self.has("default") or self.has("_"):
            return Match(at, None)
        value = self.expression()
        if self.has("&&&"):
            return Match(at, value, mask=self.expression())
        if self.has(".."):
            return Match(at, value, high=self.expression())
        return Match(at, value)

    def key(self) -> tuple[Expression, str]:
        """Take one key of a table."""
        value = self.expression()
        self.expect(":")
        at, kind = self.word.at, self.name()
        if kind not in MATCHES:
            raise at.refuse(f"match kind {kind} is not supported; choose from {', '.join(sorted(MATCHES))}")
        self.expect(";")
        return value, kind

    def listed(self) -> str:
        """Take one action in a table's list."""
        name = self.name()
        self.expect(";")
        return name

    def entry(self) -> Entry:
        """Take one constant entry."""
        at, matches = self.word.at, self.matches()
        self.expect(":")
        action = self.call()
        self.expect(";")
        return Entry(at, matches, action)

    def table(self) -> Table:
        """Take a table."""
        at = self.expect("table")
        name = self.name()
        keys: tuple[tuple[Expression, str], ...] = ()
        actions: tuple[str, ...] = ()
        entries: tuple[Entry, ...] = ()
        default: Call | None = None
        size: int | None = None
        self.expect("{")
        while not self.has("}"):
            self.has("const")
            place, what = self.word.at, self.name()
            self.expect("=")
            if what in ("key", "actions", "entries"):
                self.expect("{")
            if what == "key":
                keys = self.several(self.key, "}", "")
            elif what == "actions":
                actions = self.several(self.listed, "}", "")
            elif what == "entries":
                entries = self.several(self.entry, "}", "")
            elif what == "default_action":
                default = self.call()
                self.expect(";")
            elif what == "size":
                size = int(self.take().text)
                self.expect(";")
            else:
                raise place.refuse(f"table property {what} is not supported")
        if default is None or size is None or not actions:
            raise at.refuse(f"table {name} needs actions, default_action and size")
        return Table(at, name, keys, actions, entries, default, size)

    # ---- statements and expressions
    def body(self) -> tuple[Statement, ...]:
        """Take statements in braces."""
        self.expect("{")
        return self.several(self.statement, "}", "")

    def branch(self) -> tuple[Statement, ...]:
        """Take statements in braces, or an `if` alone."""
        return (self.statement(),) if self.word.text == "if" else self.body()

    def statement(self) -> Statement:
        """Take one statement."""
        at = self.word.at
        if self.has("if"):
            self.expect("(")
            condition = self.expression()
            self.expect(")")
            then = self.body()
            return If(at, condition, then, self.branch() if self.has("else") else ())
        left = self.postfix()
        if self.has("="):
            value = self.expression()
            self.expect(";")
            return Assign(at, left, value)
        self.expect(";")
        if not isinstance(left, Call):
            raise at.refuse("this statement has no effect")
        return Do(at, left)

    def expression(self, level: int = 0) -> Expression:
        """Take an expression of a level of precedence."""
        if level == len(LEVELS):
            return self.prefix()
        left = self.expression(level + 1)
        while self.word.kind == "operator" and self.word.text in LEVELS[level]:
            operator = self.take()
            left = Binary(operator.at, operator.text, left, self.expression(level + 1))
        return left

    def prefix(self) -> Expression:
        """Take an expression with what is before it."""
        at = self.word.at
        if self.word.text in ("!", "~"):
            return Unary(at, self.take().text, self.prefix())
        if self.word.text == "(" and self.ahead(1).text == "bit" and self.ahead(2).text == "<":
            self.take()
            type_ = self.type()
            self.expect(")")
            return Cast(at, type_, self.prefix())
        return self.postfix()

    def primary(self) -> Expression:
        """Take an expression without operators."""
        word = self.word
        if self.has("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self.has("{"):
            return Items(word.at, self.several(self.expression, "}"))
        if word.kind == "number":
            self.take()
            width, _, value = word.text.rpartition("w")
            return Number(word.at, int(value, 0), int(width) if width else None)
        return Name(word.at, self.name())

    def postfix(self) -> Expression:
        """Take an expression with members, slices and calls."""
        left = self.primary()
        while True:
            at = self.word.at
            if self.has("."):
                left = Member(at, left, self.name())
            elif self.has("["):
                high = self.expression()
                self.expect(":")
                left = Slice(at, left, high, self.expression())
                self.expect("]")
            elif self.word.text == "(" or (self.word.text == "<" and self.generic()):
                types = self.several(self.type, ">") if self.has("<") else ()
                self.expect("(")
                left = Call(at, left, types, self.several(self.expression, ")"))
            else:
                return left

    def generic(self) -> bool:
        """Report whether `<` begins arguments of a call rather than a comparison."""
        depth, by = 0, 0
        while True:
            word = self.ahead(by)
            if word.kind not in ("name", "number") and word.text not in ("<", ">", ","):
                return False
            depth += (word.text == "<") - (word.text == ">")
            by += 1
            if depth == 0:
                return self.ahead(by).text == "("

    def call(self) -> Call:
        """Take a call, such as the action of an entry."""
        at, found = self.word.at, self.postfix()
        if not isinstance(found, Call) or not isinstance(found.function, Name):
            raise at.refuse("expected an action with its arguments")
        return found


def shape(expression: Expression) -> str:
    """Return an expression as text, which is the same for the same expression at another place."""
    match expression:
        case Number(value=value):
            text = str(value)
        case Name(name=name):
            text = name
        case Member(of=of, name=name):
            text = f"{shape(of)}.{name}"
        case Slice(of=of, high=high, low=low):
            text = f"{shape(of)}[{shape(high)}:{shape(low)}]"
        case Unary(operator=operator, of=of):
            text = f"{operator}{shape(of)}"
        case Binary(operator=operator, left=left, right=right):
            text = f"({shape(left)} {operator} {shape(right)})"
        case Cast(type=type_, of=of):
            text = f"({type_.name}) {shape(of)}"
        case Call(function=function, arguments=arguments):
            text = f"{shape(function)}({', '.join(map(shape, arguments))})"
        case _:
            text = f"{{{', '.join(map(shape, expression.items))}}}"
    return text


def calls(body: Sequence[Statement]) -> Iterator[Call]:
    """Return every call in statements, those in expressions included."""
    for statement in body:
        if isinstance(statement, If):
            yield from _calls_of(statement.condition)
            yield from calls(statement.then)
            yield from calls(statement.orelse)
        elif isinstance(statement, Assign):
            yield from _calls_of(statement.value)
        else:
            yield from _calls_of(statement.call)


def _calls_of(expression: Expression) -> Iterator[Call]:
    if isinstance(expression, Call):
        yield expression
        yield from _calls_of(expression.function)
        for argument in expression.arguments:
            yield from _calls_of(argument)
    elif isinstance(expression, Items):
        for item in expression.items:
            yield from _calls_of(item)
    elif isinstance(expression, Binary):
        yield from _calls_of(expression.left)
        yield from _calls_of(expression.right)
    elif not isinstance(expression, Number | Name):
        yield from _calls_of(expression.of)


def parse(text: str, file: str) -> Tree:
    """Return the tree of preprocessed text.

    Raises:
        RefusedError: The text is not of the part of P4 that is supported, with file and line.
    """
    return Parser(tokens(text, file)).program()


def load(path: Path, *macros: str, chip: Chip = TOFINO) -> Tree:
    """Return the tree of a program in a file, as the chip's compiler reads it.

    `macros` are options of the preprocessor such as `-DNCF_GAP=8`.

    Raises:
        RefusedError: As `preprocess` and `parse`.
    """
    return parse(preprocess(path, *macros, chip=chip), path.name)
