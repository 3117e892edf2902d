# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A switch that runs a TNA program packet by packet, with time and queue depths as inputs.

A model of meaning, not of time or of the chip's resources: `limits` and `stages` look at those. The tree
becomes closures once; names, widths and kinds are checked then, and whatever is not known is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.p4.tna.chips import BOOL, TOFINO, Chip
from tests.p4.tna.syntax import (
    Action,
    Assign,
    At,
    Binary,
    Block,
    Call,
    Cast,
    Expression,
    If,
    Instance,
    Items,
    Match,
    Member,
    Name,
    Number,
    Parameter,
    RefusedError,
    Select,
    Slice,
    State,
    Statement,
    Table,
    Tree,
    Type,
    Unary,
    Variable,
)

NO_PORT = 0x1FF
BLOCKS = ("parser", "control", "control", "parser", "control", "control")
ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "|": operator.or_,
    "&": operator.and_,
    "^": operator.xor,
}
COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def _crc16_table() -> tuple[int, ...]:
    def one(byte: int) -> int:
        for _ in range(8):
            byte = (byte >> 1) ^ 0xA001 if byte & 1 else byte >> 1
        return byte

    return tuple(one(byte) for byte in range(256))


CRC16 = _crc16_table()


def crc16(data: bytes) -> int:
    """Return Tofino's CRC16: polynomial 0x18005, reversed, initial value and final XOR 0 (CRC-16/ARC)."""
    crc = 0
    for byte in data:
        crc = (crc >> 8) ^ CRC16[(crc ^ byte) & 0xFF]
    return crc


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class Frame(dict[str, int]):
    """The fields of one packet in one pipe, by path, with the packet's bytes."""

    __slots__ = ("cursor", "mirrored", "out", "packet")

    def __init__(self, fields: Mapping[str, int], packet: bytes) -> None:
        super().__init__(fields)
        self.packet = packet
        self.cursor = 0
        self.out: list[bytes] = []
        self.mirrored: list[tuple[int, bytes]] = []


class ShortPacketError(Exception):
    """A header ends beyond the packet."""


Evaluate = Callable[[Frame], int]
Execute = Callable[[Frame], None]


@dataclass(frozen=True, slots=True)
class Value:
    """An expression; `width` is None for a number without one, `constant` the value if it is one."""

    of: Evaluate
    width: int | None
    constant: int | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """A header's place: its path, its fields with their widths, its length in bytes."""

    path: str
    fields: tuple[tuple[str, int], ...]
    length: int

    @property
    def valid(self) -> str:
        """The path of its validity."""
        return f"{self.path}.$valid"

    def read(self, frame: Frame) -> None:
        """Extract it from the packet."""
        end = frame.cursor + self.length
        if end > len(frame.packet):
            raise ShortPacketError
        bits = int.from_bytes(frame.packet[frame.cursor : end])
        frame.cursor = end
        for path, width in reversed(self.fields):
            frame[path] = bits & ((1 << width) - 1)
            bits >>= width
        frame[self.valid] = 1

    def write(self, frame: Frame) -> bytes:
        """Return its bytes."""
        bits = 0
        for path, width in self.fields:
            bits = (bits << width) | frame[path]
        return bits.to_bytes(self.length)


@dataclass(slots=True)
class Register:
    """The values of a register.

    Attributes:
        fields: The path of each field below the value, with its width: one empty path, or the two of a pair.
        values: Numbers; the first field of a pair is in the lower bits.
    """

    name: str
    fields: tuple[tuple[str, int], ...]
    initial: int
    values: list[int]

    @property
    def width(self) -> int:
        """The bits of a value."""
        return sum(width for _, width in self.fields)

    def clear(self) -> None:
        """Give every value its initial one, as the controller's reset does."""
        self.values[:] = [self.initial] * len(self.values)


@dataclass(frozen=True, slots=True)
class RunnableAction:
    """An action with the paths and widths of its parameters."""

    name: str
    parameters: tuple[tuple[str, str, int], ...]
    body: tuple[Execute, ...]

    def run(self, frame: Frame, arguments: Sequence[int]) -> None:
        """Do it."""
        for (_, path, _), value in zip(self.parameters, arguments, strict=True):
            frame[path] = value
        for one in self.body:
            one(frame)


@dataclass(frozen=True, slots=True)
class Row:
    """An entry of a table: a test for each key, the action, its arguments."""

    tests: tuple[tuple[str, int, int], ...]
    action: RunnableAction
    arguments: tuple[int, ...]
    priority: int

    def matches(self, keys: Sequence[int]) -> bool:
        """Report whether it matches; a test is a range, or a value with a mask."""
        return all(
            a <= key <= b if kind == "range" else key & b == a
            for key, (kind, a, b) in zip(keys, self.tests, strict=True)
        )


@dataclass(slots=True)
class RunnableTable:
    """A table with the entries it has now."""

    name: str
    keys: tuple[tuple[str, str, int, Evaluate], ...]
    actions: Mapping[str, RunnableAction]
    default: tuple[RunnableAction, tuple[int, ...]]
    size: int
    constant: bool
    rows: list[Row] = field(default_factory=list)

    def apply(self, frame: Frame) -> bool:
        """Look up the keys, run the action and report a hit."""
        keys = [key(frame) for _, _, _, key in self.keys]
        for row in self.rows:
            if row.matches(keys):
                row.action.run(frame, row.arguments)
                return True
        self.default[0].run(frame, self.default[1])
        return False

    def add(self, tests: Sequence[tuple[str, int, int]], action: str, arguments: Sequence[int]) -> None:
        """Add an entry; the longest prefix comes first, other entries in their order.

        Raises:
            RefusedError: The table takes no such entry.
        """
        if self.constant:
            raise RefusedError(f"table {self.name} has constant entries")
        if len(self.rows) >= self.size:
            raise RefusedError(f"table {self.name} is full: {self.size} entries")
        if action not in self.actions:
            raise RefusedError(f"{action} is not an action of table {self.name}")
        chosen = self.actions[action]
        if len(tests) != len(self.keys) or len(arguments) != len(chosen.parameters):
            raise RefusedError(f"table {self.name}, action {action}: wrong number of keys or arguments")
        for (key, kind, width, _), (given, a, b) in zip(self.keys, tests, strict=True):
            if given != kind or max(a, b) >> width:
                raise RefusedError(f"table {self.name}: {key} takes {kind} of {width} bits")
        for (argument, _, width), value in zip(chosen.parameters, arguments, strict=True):
            if value >> max(width, 1):
                raise RefusedError(f"action {action}: {argument} has {width} bits")
        lpm = sum(b for kind, _, b in tests if kind == "lpm")
        self.rows.append(Row(tuple(tests), chosen, tuple(arguments), lpm))
        self.rows.sort(key=lambda row: -row.priority)


@dataclass(frozen=True, slots=True)
class RunnableState:
    """A state of a parser: what it does, then the keys and cases of its transition."""

    body: tuple[Execute, ...]
    keys: tuple[Evaluate, ...]
    cases: tuple[tuple[tuple[tuple[str, int, int], ...], str], ...]

    def next(self, frame: Frame) -> str:
        """Return the state that follows, `reject` if no case matches."""
        keys = [key(frame) for key in self.keys]
        for tests, state in self.cases:
            if all(
                a <= key <= b if kind == "range" else key & b == a
                for key, (kind, a, b) in zip(keys, tests, strict=True)
            ):
                return state
        return "reject"


class Scope:
    """The names of one parser or control, and what they mean."""

    def __init__(self, switch: Switch, block: Block) -> None:
        self.switch = switch
        self.block = block
        self.places: dict[str, str] = {}
        self.widths: dict[str, int] = {}
        self.registers: dict[str, Register] = {}
        self.executes: dict[str, Callable[[Evaluate], Evaluate]] = {}
        self.results: dict[str, int | None] = {}
        self.instances: dict[str, Instance] = {}
        self.actions: dict[str, RunnableAction] = {"NoAction": RunnableAction("NoAction", (), ())}
        self.tables: dict[str, RunnableTable] = {}
        for parameter in block.parameters:
            self.places[parameter.name] = switch.place(parameter.type)
        for local in block.locals:
            self.declare(local)

    def declare(self, local: State | Action | Table | Instance | Variable) -> None:
        """Make a declaration known."""
        if isinstance(local, Variable):
            self.name_variable(local.name, f"{self.block.name}.{local.name}", self.switch.width(local.type))
        elif isinstance(local, Action):
            self.actions[local.name] = self.action(local)
        elif isinstance(local, Table):
            self.tables[local.name] = self.table(local)
            self.switch.tables[f"{self.block.name}.{local.name}"] = self.tables[local.name]
        elif isinstance(local, Instance):
            self.instance(local)

    def name_variable(self, name: str, path: str, width: int) -> None:
        """Give a name to a value of its own."""
        self.places[name] = path
        self.widths[path] = width
        self.switch.variables.add(path)

    # ---- instances
    def instance(self, made: Instance) -> None:
        """Make an extern known.

        Raises:
            RefusedError: The extern, or one of its arguments, is not supported.
        """
        kind = made.type.name
        if kind == "Register":
            fields = self.switch.layout(made.type.arguments[0])
            size = self.switch.number(made.arguments[0], made.at)
            initial = self.initial(made, fields)
            self.registers[made.name] = Register(made.name, fields, initial, [initial] * size)
            self.switch.registers[f"{self.block.name}.{made.name}"] = self.registers[made.name]
        elif kind == "RegisterAction":
            self.register_action(made)
        elif kind == "Hash":
            algorithm = made.arguments[0]
            if not isinstance(algorithm, Member) or algorithm.name != "CRC16":
                raise made.at.refuse("this hash algorithm is not supported; choose HashAlgorithm_t.CRC16")
            if self.switch.width(made.type.arguments[0]) != 16:
                raise made.at.refuse("CRC16 has 16 bits")
        elif kind not in ("Checksum", "Mirror"):
            raise made.at.refuse(f"extern {kind} is not supported")
        self.instances[made.name] = made

    def initial(self, made: Instance, fields: Sequence[tuple[str, int]]) -> int:
        """Return the initial value of a register: 0, a number, or a list of them for a pair."""
        if len(made.arguments) == 1:
            return 0
        given = made.arguments[1]
        values = given.items if isinstance(given, Items) else (given,)
        if len(made.arguments) != 2 or len(values) != len(fields):
            raise made.at.refuse("a register takes its size, and an initial value of its type")
        packed = 0
        for value, (_, width) in zip(reversed(values), reversed(fields), strict=True):
            packed = packed << width | self.switch.number(value, made.at)
        return packed

    def register_action(self, made: Instance) -> None:
        """Compile the method of a RegisterAction."""
        target = made.arguments[0] if len(made.arguments) == 1 else None
        if not isinstance(target, Name) or target.name not in self.registers or made.method is None:
            raise made.at.refuse("RegisterAction needs a register of this control and a method apply")
        register = self.registers[target.name]
        if self.switch.layout(made.type.arguments[0]) != register.fields:
            raise made.at.refuse(f"register {register.name} has {register.width} bits")
        names = [parameter.name for parameter in made.parameters]
        directions = [parameter.direction for parameter in made.parameters]
        if directions not in (["inout"], ["inout", "out"]):
            raise made.at.refuse("the method takes (inout value) or (inout value, out result)")
        kept = {name: self.places.get(name) for name in names}
        paths = [f"${self.block.name}.{made.name}.{name}" for name in names]
        for parameter, path in zip(made.parameters, paths, strict=True):
            for below, width in self.switch.layout(parameter.type):
                self.name_variable(parameter.name, f"{path}{below}", width)
            self.places[parameter.name] = path
        body = tuple(self.statement(one) for one in made.method)
        for name, place in kept.items():
            del self.places[name]
            if place is not None:
                self.places[name] = place
        value, result = paths[0], paths[1] if len(paths) > 1 else None
        self.executes[made.name] = _executor(register, value, result, body)
        self.results[made.name] = self.widths[result] if result else None

    # ---- actions and tables
    def action(self, action: Action) -> RunnableAction:
        """Compile an action."""
        parameters = []
        for parameter in action.parameters:
            path = f"${self.block.name}.{action.name}.{parameter.name}"
            if parameter.name in self.places:
                raise parameter.at.refuse(f"parameter {parameter.name} hides another name")
            self.name_variable(parameter.name, path, self.switch.width(parameter.type))
            parameters.append((parameter.name, path, self.widths[path]))
        body = tuple(self.statement(one) for one in action.body)
        for parameter in action.parameters:
            del self.places[parameter.name]
        return RunnableAction(action.name, tuple(parameters), body)

    def chosen(self, call: Call, names: Sequence[str]) -> tuple[RunnableAction, tuple[int, ...]]:
        """Return an action that a table names, with its constant arguments."""
        name = call.function.name if isinstance(call.function, Name) else ""
        if name not in names or name not in self.actions:
            raise call.at.refuse(f"{name} is not in the table's actions")
        action = self.actions[name]
        if len(call.arguments) != len(action.parameters):
            raise call.at.refuse(f"action {name} takes {len(action.parameters)} arguments")
        return action, tuple(self.switch.number(one, call.at) for one in call.arguments)

    def table(self, table: Table) -> RunnableTable:
        """Compile a table."""
        keys = []
        for expression, kind in table.keys:
            value = self.expression(expression)
            if value.width is None:
                raise expression.at.refuse("a key needs a width")
            keys.append((_text(expression), kind, max(value.width, 1), value.of))
        for name in table.actions:
            if name not in self.actions:
                raise table.at.refuse(f"{name} is not an action")
        made = RunnableTable(
            f"{self.block.name}.{table.name}",
            tuple(keys),
            {name: self.actions[name] for name in table.actions},
            self.chosen(table.default, table.actions),
            table.size,
            bool(table.entries),
        )
        for entry in table.entries:
            if len(entry.matches) != len(keys):
                raise entry.at.refuse(f"the table has {len(keys)} keys")
            tests = tuple(
                self.test(match, width, kind)
                for match, (_, kind, width, _) in zip(entry.matches, keys, strict=True)
            )
            made.rows.append(Row(tests, *self.chosen(entry.action, table.actions), 0))
        if len(made.rows) > table.size:
            raise table.at.refuse(f"{len(made.rows)} entries, size {table.size}")
        return made

    def test(self, match: Match, width: int, kind: str) -> tuple[str, int, int]:
        """Return the test of one key of a constant entry or a select."""
        full = (1 << width) - 1
        if match.value is None:
            return ("mask", 0, 0)
        value = self.switch.number(match.value, match.at)
        high = full if match.mask is None else self.switch.number(match.mask, match.at)
        if match.high is not None:
            high = self.switch.number(match.high, match.at)
        if max(value, high) > full:
            raise match.at.refuse(f"{max(value, high)} does not fit into {width} bits")
        if match.high is not None:
            if kind != "range":
                raise match.at.refuse(f"a range for a key that is {kind}")
            return ("range", value, high)
        if match.mask is not None and kind not in ("ternary", "select"):
            raise match.at.refuse(f"a mask for a key that is {kind}")
        return ("range", value, value) if kind == "range" else ("mask", value & high, high)

    # ---- expressions
    def path(self, expression: Expression) -> str | None:
        """Return the path of a field or variable, None for anything else."""
        if isinstance(expression, Name):
            return self.places.get(expression.name)
        if isinstance(expression, Member):
            of = self.path(expression.of)
            return None if of is None else f"{of}.{expression.name}"
        return None

    def width_of(self, path: str, at: At) -> int:
        """Return the width of a field or variable."""
        width = self.widths.get(path, self.switch.fields.get(path))
        if width is None:
            raise at.refuse(f"{path} is not a field that is supported")
        return width

    def header(self, expression: Expression) -> Header:
        """Return the header that an expression names."""
        path = self.path(expression)
        if path is None or path not in self.switch.headers:
            raise expression.at.refuse("this is not a header")
        return self.switch.headers[path]

    def sized(self, expression: Expression, width: int) -> Evaluate:
        """Compile an expression that must have a width.

        Raises:
            RefusedError: It has another one.
        """
        value = self.expression(expression)
        if value.width is None and value.constant is not None and width != BOOL:
            if not 0 <= value.constant < 1 << width:
                raise expression.at.refuse(f"{value.constant} does not fit into {width} bits")
        elif value.width != width:
            raise expression.at.refuse(f"{_kind(value.width)} where {_kind(width)} is needed")
        return value.of

    def condition(self, expression: Expression) -> Evaluate:
        """Compile a condition."""
        return self.sized(expression, BOOL)

    def expression(self, expression: Expression) -> Value:
        """Compile an expression."""
        if isinstance(expression, Number):
            if expression.width is not None and expression.value >> expression.width:
                raise expression.at.refuse(f"{expression.value} does not fit into {expression.width} bits")
            return _constant(expression.value, expression.width)
        if isinstance(expression, Name | Member):
            return self.named(expression)
        if isinstance(expression, Slice):
            return self.slice(expression)
        if isinstance(expression, Unary):
            return self.unary(expression)
        if isinstance(expression, Binary):
            return self.binary(expression)
        if isinstance(expression, Cast):
            width = self.switch.width(expression.type)
            return Value(
                self.sized(expression.of, width), width
            )  # casts between widths are not needed so far
        if isinstance(expression, Call):
            return self.called(expression)
        raise expression.at.refuse("a list is not supported here")

    def named(self, expression: Name | Member) -> Value:
        """Compile a constant, a variable, a field, or a table's hit or miss."""
        if isinstance(expression, Name) and expression.name not in self.places:
            if expression.name in ("true", "false"):
                return _constant(int(expression.name == "true"), BOOL)
            if expression.name not in self.switch.constants:
                raise expression.at.refuse(f"{expression.name} is not declared")
            return self.switch.constants[expression.name]
        applied = self.hit_or_miss(expression)
        if applied is not None:
            table, hit = applied, expression.name == "hit"
            return Value(lambda frame: table.apply(frame) is hit, BOOL)
        path = self.path(expression)
        if path is None:
            raise expression.at.refuse(f"{_text(expression)} is not supported")
        place = path
        return Value(lambda frame: frame[place], self.width_of(path, expression.at))

    def hit_or_miss(self, expression: Expression) -> RunnableTable | None:
        """Return the table that `table.apply().hit` names, or `.miss`."""
        if isinstance(expression, Member) and expression.name in ("hit", "miss"):
            return self.applied(expression.of)
        return None

    def applied(self, expression: Expression) -> RunnableTable | None:
        """Return the table that `table.apply()` names."""
        if not isinstance(expression, Call) or not isinstance(expression.function, Member):
            return None
        of = expression.function.of
        if expression.function.name != "apply" or expression.arguments or not isinstance(of, Name):
            return None
        return self.tables.get(of.name)

    def slice(self, expression: Slice) -> Value:
        """Compile bits of a field."""
        value = self.expression(expression.of)
        high = self.switch.number(expression.high, expression.at)
        low = self.switch.number(expression.low, expression.at)
        if value.width is None or not 0 <= low <= high < value.width:
            raise expression.at.refuse(f"bits [{high}:{low}] of {_kind(value.width)}")
        of, mask = value.of, (1 << (high - low + 1)) - 1
        return Value(lambda frame: of(frame) >> low & mask, high - low + 1)

    def unary(self, expression: Unary) -> Value:
        """Compile a negation."""
        if expression.operator == "!":
            of = self.condition(expression.of)
            return Value(lambda frame: not of(frame), BOOL)
        value = self.expression(expression.of)
        if value.width is None or value.width == BOOL:
            raise expression.at.refuse("~ needs a width")
        inner, mask = value.of, (1 << value.width) - 1
        return Value(lambda frame: inner(frame) ^ mask, value.width)

    def binary(self, expression: Binary) -> Value:
        """Compile an operation of two operands."""
        sign = expression.operator
        if sign in ("&&", "||"):
            first, second = self.condition(expression.left), self.condition(expression.right)
            if sign == "&&":
                return Value(lambda frame: bool(first(frame)) and bool(second(frame)), BOOL)
            return Value(lambda frame: bool(first(frame)) or bool(second(frame)), BOOL)
        left, right = self.expression(expression.left), self.expression(expression.right)
        if left.constant is not None and right.constant is not None and left.width == right.width is None:
            return _constant(_fold(sign, left.constant, right.constant, expression.at), None)
        if sign == "++":
            if left.width is None or right.width is None:
                raise expression.at.refuse("++ needs widths")
            a, b, shift = left.of, right.of, right.width
            return Value(lambda frame: a(frame) << shift | b(frame), left.width + right.width)
        width = left.width if left.width is not None else right.width
        if width is None:
            raise expression.at.refuse(f"{sign} of two numbers without widths")
        one, two = self.sized(expression.left, width), self.sized(expression.right, width)
        if sign in COMPARISONS:
            compare = COMPARISONS[sign]
            return Value(lambda frame: compare(one(frame), two(frame)), BOOL)
        if width == BOOL:
            raise expression.at.refuse(f"{sign} of conditions")
        mask = (1 << width) - 1
        if sign == "|+|":
            return Value(lambda frame: min(one(frame) + two(frame), mask), width)
        if sign == "|-|":
            return Value(lambda frame: max(one(frame) - two(frame), 0), width)
        if sign not in ARITHMETIC:
            raise expression.at.refuse(f"{sign} is not supported here")
        apply = ARITHMETIC[sign]
        return Value(lambda frame: apply(one(frame), two(frame)) & mask, width)

    def called(self, call: Call) -> Value:
        """Compile a call that has a value."""
        if not isinstance(call.function, Member):
            raise call.at.refuse(f"{_text(call.function)} has no value")
        of, method = call.function.of, call.function.name
        if method == "isValid":
            valid = self.header(of).valid
            return Value(lambda frame: frame[valid], BOOL)
        if method == "lookahead" and self.is_packet(of) and len(call.types) == 1:
            return self.lookahead(call)
        name = of.name if isinstance(of, Name) else ""
        if name in self.executes and method == "execute" and len(call.arguments) == 1:
            value = self.expression(call.arguments[0])
            register = self.registers[_text(self.instances[name].arguments[0])]
            largest = (1 << (value.width or 0)) - 1 if value.constant is None else value.constant
            if largest >= len(register.values):
                raise call.at.refuse(f"register {register.name} is smaller than its index can be")
            return Value(self.executes[name](value.of), self.results[name])
        if name in self.instances and len(call.arguments) == 1:
            kind = self.instances[name].type.name
            if (kind, method) == ("Hash", "get"):
                data = self.octets(call.arguments[0], 8)
                return Value(lambda frame: crc16(data(frame)), 16)
            if (kind, method) == ("Checksum", "update"):
                words = self.octets(call.arguments[0], 16)
                return Value(lambda frame: checksum(words(frame)), 16)
        raise call.at.refuse(f"{_text(call.function)}() is not supported")

    def lookahead(self, call: Call) -> Value:
        """Compile a look at the packet's next bits."""
        width = self.switch.width(call.types[0])
        length = width // 8
        if width % 8 or not width:
            raise call.at.refuse("lookahead takes whole bytes")

        def look(frame: Frame) -> int:
            if frame.cursor + length > len(frame.packet):
                raise ShortPacketError
            return int.from_bytes(frame.packet[frame.cursor : frame.cursor + length])

        return Value(look, width)

    def is_packet(self, expression: Expression) -> bool:
        """Report whether this is the packet of a parser or deparser."""
        return self.path(expression) == "$packet"

    def octets(self, expression: Expression, multiple: int) -> Callable[[Frame], bytes]:
        """Compile a list of fields to bytes."""
        if not isinstance(expression, Items):
            raise expression.at.refuse("a list is needed here")
        parts: list[tuple[Evaluate, int]] = []
        for item in expression.items:
            value = self.expression(item)
            if not value.width:
                raise item.at.refuse("every field of a list needs a width")
            parts.append((value.of, value.width))
        total = sum(width for _, width in parts)
        if total % multiple:
            raise expression.at.refuse(f"{total} bits are no multiple of {multiple}")

        def pack(frame: Frame) -> bytes:
            bits = 0
            for of, width in parts:
                bits = (bits << width) | of(frame)
            return bits.to_bytes(total // 8)

        return pack

    # ---- statements
    def statement(self, statement: Statement) -> Execute:
        """Compile a statement."""
        if isinstance(statement, If):
            condition = self.condition(statement.condition)
            then = tuple(self.statement(one) for one in statement.then)
            orelse = tuple(self.statement(one) for one in statement.orelse)

            def branch(frame: Frame) -> None:
                for one in then if condition(frame) else orelse:
                    one(frame)

            return branch
        if isinstance(statement, Assign):
            path = self.path(statement.target)
            if path is None:
                raise statement.at.refuse(f"{_text(statement.target)} cannot be assigned")
            self.check_writable(statement.target)
            place, value = path, self.sized(statement.value, self.width_of(path, statement.at))

            def assign(frame: Frame) -> None:
                frame[place] = value(frame)

            return assign
        return self.do(statement.call)

    def check_writable(self, target: Expression) -> None:
        """Refuse to write to a parameter `in`."""
        root = target
        while isinstance(root, Member):
            root = root.of
        for parameter in self.block.parameters:
            if isinstance(root, Name) and parameter.name == root.name and parameter.direction == "in":
                raise target.at.refuse(f"{root.name} is read-only here")

    def do(self, call: Call) -> Execute:
        """Compile a call whose effect counts."""
        if isinstance(call.function, Name):
            if call.function.name not in self.actions:
                raise call.at.refuse(f"{call.function.name} is not an action of this control")
            action, arguments = self.chosen(call, [call.function.name])
            return lambda frame: action.run(frame, arguments)
        table = self.applied(call)
        if table is not None:
            apply = table.apply

            def applied(frame: Frame) -> None:
                apply(frame)

            return applied
        if not isinstance(call.function, Member):
            raise call.at.refuse(f"{_text(call.function)}() is not supported")
        of, method = call.function.of, call.function.name
        if method in ("setValid", "setInvalid") and not call.arguments:
            valid, state = self.header(of).valid, int(method == "setValid")

            def set_valid(frame: Frame) -> None:
                frame[valid] = state

            return set_valid
        if self.is_packet(of):
            return self.packet(call, method)
        if isinstance(of, Name) and of.name in self.executes and method == "execute":
            execute = self.called(call).of

            def executed(frame: Frame) -> None:
                execute(frame)

            return executed
        if isinstance(of, Name) and of.name in self.instances and method == "emit":
            return self.mirror(call)
        raise call.at.refuse(f"{_text(call.function)}() is not supported")

    def packet(self, call: Call, method: str) -> Execute:
        """Compile a method of packet_in or packet_out."""
        if len(call.arguments) != 1 or method not in ("extract", "advance", "emit"):
            raise call.at.refuse(f"packet method {method} is not supported")
        argument = call.arguments[0]
        if method == "advance":
            if not isinstance(argument, Name) or argument.name != "PORT_METADATA_SIZE":
                raise call.at.refuse("advance is supported for PORT_METADATA_SIZE only")
            return lambda frame: None  # packets come without port metadata
        path = self.path(argument)
        if method == "extract" and path in self.switch.intrinsic:
            return lambda frame: None  # their fields are there from the start
        header = self.header(argument)
        if method == "extract":
            return header.read

        def emit(frame: Frame) -> None:
            if frame[header.valid]:
                frame.out.append(header.write(frame))

        return emit

    def mirror(self, call: Call) -> Execute:
        """Compile the emit of a mirror."""
        if len(call.arguments) != 2 or len(call.types) != 1:
            raise call.at.refuse("a mirror takes emit<header>(session, {fields})")
        record = next((one for one in self.switch.tree.records if one.name == call.types[0].name), None)
        values = call.arguments[1]
        if record is None or not isinstance(values, Items) or len(values.items) != len(record.fields):
            raise call.at.refuse("the fields of a mirror are those of its header")
        for value, wanted in zip(values.items, record.fields, strict=True):
            self.sized(value, self.switch.width(wanted.type))
        session = self.sized(call.arguments[0], self.switch.types["MirrorId_t"])
        header = self.octets(values, 8)

        def emit(frame: Frame) -> None:
            frame.mirrored.append((session(frame), header(frame)))

        return emit

    # ---- whole blocks
    def states(self) -> Mapping[str, RunnableState]:
        """Compile the states of a parser."""
        made = {}
        for local in self.block.locals:
            if isinstance(local, State):
                made[local.name] = self.state(local.body, local.transition)
        for state in made.values():
            for _, name in state.cases:
                if name not in made and name not in ("accept", "reject"):
                    raise self.block.at.refuse(f"{name} is not a state of {self.block.name}")
        if "start" not in made:
            raise self.block.at.refuse(f"parser {self.block.name} has no state start")
        return made

    def state(self, body: Sequence[Statement], transition: Select) -> RunnableState:
        """Compile one state."""
        keys = [self.expression(key) for key in transition.keys]
        cases = []
        for matches, name in transition.cases:
            if len(matches) == 1 and matches[0].value is None:
                cases.append((tuple(("mask", 0, 0) for _ in keys), name))
                continue
            if len(matches) != len(keys):
                raise transition.at.refuse(f"a case has {len(matches)} values for {len(keys)} keys")
            tests = tuple(
                self.test(match, key.width or 1, "select") for match, key in zip(matches, keys, strict=True)
            )
            cases.append((tests, name))
        return RunnableState(
            tuple(self.statement(one) for one in body), tuple(key.of for key in keys), tuple(cases)
        )

    def apply(self) -> tuple[Execute, ...]:
        """Compile the apply of a control."""
        return tuple(self.statement(one) for one in self.block.apply)


def _executor(
    register: Register, value: str, result: str | None, body: Sequence[Execute]
) -> Callable[[Evaluate], Evaluate]:
    """Return what makes an access of an index; `value` and `result` are paths of the method's parameters."""
    values, fields = register.values, tuple((f"{value}{below}", width) for below, width in register.fields)

    def bind(index: Evaluate) -> Evaluate:
        def execute(frame: Frame) -> int:
            at = index(frame)
            bits = values[at]
            for path, width in fields:
                frame[path] = bits & ((1 << width) - 1)
                bits >>= width
            if result:
                frame[result] = 0
            for one in body:
                one(frame)
            for path, width in reversed(fields):
                bits = bits << width | frame[path]
            values[at] = bits
            return frame[result] if result else 0

        return execute

    return bind


def _constant(value: int, width: int | None) -> Value:
    return Value(lambda frame: value, width, value)


def _fold(sign: str, left: int, right: int, at: At) -> int:
    folds: Mapping[str, Callable[[int, int], int]] = {**ARITHMETIC, "<<": operator.lshift}
    if sign not in folds:
        raise at.refuse(f"{sign} of constants is not supported")
    return folds[sign](left, right)


def _kind(width: int | None) -> str:
    return "a number without width" if width is None else "bool" if width == BOOL else f"bit<{width}>"


def _text(expression: Expression) -> str:
    if isinstance(expression, Name):
        return expression.name
    if isinstance(expression, Member):
        return f"{_text(expression.of)}.{expression.name}"
    if isinstance(expression, Slice):
        return _text(expression.of)
    if isinstance(expression, Call):
        return f"{_text(expression.function)}()"
    return type(expression).__name__.lower()


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet that leaves the switch."""

    port: int
    packet: bytes


@dataclass(frozen=True, slots=True)
class Queued:
    """A packet between ingress and egress: its port and queue, with the bridged header in front."""

    port: int
    queue: int
    packet: bytes


class Switch:
    """One pipe of a switch that runs a program.

    Attributes:
        tables: Tables by `control.table`.
        registers: Registers by `control.register`.
        sessions: Mirror sessions: port and `$max_pkt_len` by session.
    """

    def __init__(self, tree: Tree, chip: Chip = TOFINO) -> None:
        self.tree = tree
        self.intrinsic = chip.intrinsic
        self.tables: dict[str, RunnableTable] = {}
        self.registers: dict[str, Register] = {}
        self.sessions: dict[int, tuple[int, int]] = {}
        self.fields: dict[str, int] = {}
        self.headers: dict[str, Header] = {}
        self.variables: set[str] = set()
        self.types = dict(chip.types)
        self.constants: dict[str, Value] = {"PORT_METADATA_SIZE": _constant(64, 32)}
        for typedef in tree.typedefs:
            self.types[typedef.name] = self.width(typedef.type)
        for const in tree.consts:
            value, width = self.number(const.value, const.at), self.width(const.type)
            if value >> width:
                raise const.at.refuse(f"{value} does not fit into {width} bits")
            self.constants[const.name] = _constant(value, width)
        for intrinsic, fields in self.intrinsic.items():
            self.fields.update({f"{intrinsic}.{name}": width for name, width in fields.items()})
        self._placed: set[str] = set()
        blocks = self._blocks()
        self.scopes = [Scope(self, block) for block in blocks]
        self.parsers = {at: self.scopes[at].states() for at in (0, 3)}
        self.controls = {at: self.scopes[at].apply() for at in (1, 2, 4, 5)}
        paths = [*self.fields, *self.variables, *(header.valid for header in self.headers.values())]
        self.empty = dict.fromkeys(paths, 0)

    def _blocks(self) -> list[Block]:
        pipelines = [one for one in self.tree.instances if one.type.name == "Pipeline"]
        mains = [one for one in self.tree.instances if one.type.name == "Switch" and one.name == "main"]
        if len(pipelines) != 1 or len(mains) != 1 or len(self.tree.instances) != 2:
            raise RefusedError("a program has one Pipeline and one Switch(...) main")
        named = [
            one.function.name
            for one in pipelines[0].arguments
            if isinstance(one, Call) and isinstance(one.function, Name)
        ]
        known = {block.name: block for block in self.tree.blocks}
        if any(name not in known for name in named):
            raise pipelines[0].at.refuse("the pipeline names a block that is not there")
        blocks = [known[name] for name in named]
        if tuple(block.kind for block in blocks) != BLOCKS or len(known) != len(blocks):
            raise pipelines[0].at.refuse(f"a pipeline has six blocks: {', '.join(BLOCKS)}")
        return blocks

    def scope(self, block: Block) -> Scope:
        """Return the names of a block."""
        return next(scope for scope in self.scopes if scope.block is block)

    # ---- types
    def width(self, type_: Type) -> int:
        """Return the width of a type in bits.

        Raises:
            RefusedError: The type is not supported.
        """
        if type_.name == "bit" and type_.width is not None:
            return self.number(type_.width, type_.at)
        if type_.name not in self.types:
            raise type_.at.refuse(f"type {type_.name} is not supported")
        return self.types[type_.name]

    def layout(self, type_: Type) -> tuple[tuple[str, int], ...]:
        """Return the path and width of each field of a value: one without a path, unless it is a struct."""
        record = next((one for one in self.tree.records if one.name == type_.name), None)
        if record is None:
            return (("", self.width(type_)),)
        return tuple((f".{one.name}", self.width(one.type)) for one in record.fields)

    def number(self, expression: Expression, at: At) -> int:
        """Return the value of a constant expression.

        Raises:
            RefusedError: It is none.
        """
        if isinstance(expression, Number):
            return expression.value
        if isinstance(expression, Binary):
            return _fold(
                expression.operator, self.number(expression.left, at), self.number(expression.right, at), at
            )
        if isinstance(expression, Name) and expression.name in self.constants:
            value = self.constants[expression.name].constant
            if value is not None:
                return value
        raise at.refuse(f"{_text(expression)} is not a constant")

    def place(self, type_: Type) -> str:
        """Return the path of a parameter by its type, and make its fields known."""
        if type_.name in ("packet_in", "packet_out"):
            return "$packet"
        if type_.name in self.intrinsic:
            return type_.name
        record = next((one for one in self.tree.records if one.name == type_.name), None)
        if record is None or record.kind != "struct":
            raise type_.at.refuse(f"type {type_.name} is not supported for a parameter")
        if record.name not in self._placed:
            self._placed.add(record.name)
            for one in record.fields:
                self._place_field(f"{record.name}.{one.name}", one)
        return record.name

    def _place_field(self, path: str, one: Parameter) -> None:
        header = next((found for found in self.tree.records if found.name == one.type.name), None)
        if header is None:
            self.fields[path] = self.width(one.type)
            return
        fields = tuple((f"{path}.{inner.name}", self.width(inner.type)) for inner in header.fields)
        bits = sum(width for _, width in fields)
        if header.kind != "header" or bits % 8:
            raise header.at.refuse(f"{header.name} is not a header of whole bytes")
        self.headers[path] = Header(path, fields, bits // 8)
        self.fields.update(dict(fields))

    # ---- packets
    def ingress(self, time_ns: int, port: int, packet: bytes) -> Queued | None:
        """Run the ingress pipe; None if it drops the packet."""
        inputs = {
            "ingress_intrinsic_metadata_t.ingress_port": port,
            "ingress_intrinsic_metadata_from_parser_t.global_tstamp": time_ns & ((1 << 48) - 1),
            "ingress_intrinsic_metadata_for_tm_t.ucast_egress_port": NO_PORT,
        }
        frame = self._run(0, packet, inputs)
        if frame is None or frame["ingress_intrinsic_metadata_for_deparser_t.drop_ctl"] & 1:
            return None
        target = frame["ingress_intrinsic_metadata_for_tm_t.ucast_egress_port"]
        queue = frame["ingress_intrinsic_metadata_for_tm_t.qid"]
        return None if target == NO_PORT else Queued(target, queue, b"".join(frame.out))

    def egress(self, time_ns: int, port: int, packet: bytes, depth_cells: int) -> list[Sent]:
        """Run the egress pipe, and that of the copies it mirrors."""
        inputs = {
            "egress_intrinsic_metadata_t.egress_port": port,
            "egress_intrinsic_metadata_t.enq_qdepth": depth_cells,
            "egress_intrinsic_metadata_t.deq_qdepth": depth_cells,
            "egress_intrinsic_metadata_from_parser_t.global_tstamp": time_ns & ((1 << 48) - 1),
        }
        frame = self._run(3, packet, inputs)
        if frame is None:
            return []
        made = b"".join(frame.out)
        dropped = frame["egress_intrinsic_metadata_for_deparser_t.drop_ctl"] & 1
        sent = [] if dropped else [Sent(port, made)]
        for session, header in frame.mirrored:
            if session in self.sessions:
                target, longest = self.sessions[session]
                sent += self.egress(time_ns, target, (header + made)[:longest], 0)
        return sent

    def _run(self, first: int, packet: bytes, inputs: Mapping[str, int]) -> Frame | None:
        frame = Frame(self.empty, packet)
        frame.update(inputs)
        states, state = self.parsers[first], "start"
        try:
            while state not in ("accept", "reject"):
                for one in states[state].body:
                    one(frame)
                state = states[state].next(frame)
        except ShortPacketError:
            return None
        if state == "reject":
            return None
        for control in (first + 1, first + 2):
            for one in self.controls[control]:
                one(frame)
        frame.out.append(frame.packet[frame.cursor :])
        return frame
