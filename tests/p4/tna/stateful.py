# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""RegisterActions, which run in a stateful ALU: p4c takes few of them.

Comparisons, assignments and operators: mau/stateful_alu.cpp of the compiler; operands of a comparison: CmpOP
in salu_inst.cpp of the assembler; indexes: mau/instruction_selection.cpp.

An instruction holds constants from -8 to 7. Others take one of four places that all actions of a register
share (specs/device.cpp, MinInstructionConstValue, MaxInstructionConstValue and MaxRegfileRows of both chips;
CheckStatefulAlu); a number and its negative count once here. A comparison subtracts its right side, so there
constants up to 8 are held, and a pair's output takes none. A place of Tofino 1 is a signed number of 32 bits,
which a comparison of magnitude keeps to (CheckStatefulAlu).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.p4.tna.chips import Chip
from tests.p4.tna.machine import COMPARISONS, Switch
from tests.p4.tna.stages import path
from tests.p4.tna.syntax import (
    Action,
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Do,
    Expression,
    If,
    Instance,
    Member,
    Name,
    Number,
    RefusedError,
    Slice,
    Statement,
    Table,
    Unary,
    calls,
    shape,
)

ONE_EACH = "takes one field, one value of the register and one constant"
NEGATIONS = {"!=": "==", ">=": "<", "<=": ">"}
"""Comparisons that are the opposite of another, and so need no unit of their own."""
ALU_BITS = 32
WIDE = ("+", "-", "|", "^")
"""Operators that take more bits than `ALU_BITS` where a chip computes wider values."""
OPERATORS = ("+", "-", "|+|", "|-|", "&", "|", "^")
HELD, HELD_COMPARED = 7, 8
"""The largest constants that an instruction holds, and a comparison."""
CONSTANTS = 4
"""Other constants of all actions of a register."""
SIGNED = 1 << 31
MAGNITUDES = ("<", ">", "<=", ">=")


def register_actions(block: Block, switch: Switch, chip: Chip) -> Iterator[RefusedError]:
    """Refuse methods that a stateful ALU cannot do at once."""
    constants: dict[str, set[int]] = {}
    for local in block.locals:
        if isinstance(local, Instance) and local.method is not None:
            method = _Method(local, switch, chip)
            method.statements(local.method, ())
            yield from method.found
            if len(method.comparisons) > chip.comparisons:
                number = len(method.comparisons)
                yield local.at.refuse(
                    f"{local.name} has {number} comparisons; {chip.name} has {chip.comparisons} units"
                )
            register = path(local.arguments[0])
            before = constants.setdefault(register, set())
            after = before | method.constants
            if len(before) <= CONSTANTS < len(after):
                yield local.at.refuse(
                    f"the actions of register {register} use {len(after)} constants that no instruction "
                    f"holds ({', '.join(map(str, sorted(after)))}); the limit is {CONSTANTS}"
                )
            constants[register] = after


@dataclass
class _Method:
    """The method of a RegisterAction while it is looked at."""

    made: Instance
    switch: Switch
    chip: Chip
    comparisons: set[str] = field(default_factory=set)
    constants: set[int] = field(default_factory=set)
    written: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    found: list[RefusedError] = field(default_factory=list)

    def refuse(self, at: Expression | Statement, message: str) -> None:
        """Note a problem."""
        self.found.append(at.at.refuse(f"{self.made.name}: {message}"))

    def statements(self, body: Sequence[Statement], branch: tuple[str, ...]) -> None:
        """Look at statements below the conditions of a branch."""
        for statement in body:
            if isinstance(statement, If):
                self.condition(statement.condition)
                text = shape(statement.condition)
                self.statements(statement.then, (*branch, text))
                self.statements(statement.orelse, (*branch, f"!{text}"))
            elif isinstance(statement, Assign):
                self.operators(statement.value)
                self.held(statement)
                self.assignment(statement, branch)
            elif isinstance(statement, Do):
                self.refuse(statement, "a call is not supported here")

    def assignment(self, assign: Assign, branch: tuple[str, ...]) -> None:
        """Refuse a second assignment that may happen with the first; an initial 0 does not count."""
        target = path(assign.target)
        self.width(assign, target)
        before = self.written.get(target)
        if before is None and not branch and _constant(assign.value, self.switch) == 0:
            return
        if before and any(not other or not branch or other == branch for other in before):
            self.refuse(assign, f"{target} may be assigned twice; the assignments must exclude each other")
        self.written.setdefault(target, []).append(branch)

    def held(self, assign: Assign) -> None:
        """Collect the constants of an assignment; a pair's output takes none."""
        fields = self.switch.layout(self.made.parameters[0].type)
        output = path(assign.target).split(".")[0] != self.made.parameters[0].name
        if fields[0][1] == 1:  # it is set or cleared
            return
        if output and (len(fields) > 1 or fields[0][1] > self.chip.register_bits // 2):
            return
        for operand in _operands(assign.value, self.switch):
            constant = _constant(operand, self.switch)
            if constant is not None and constant > HELD:
                self.constants.add(constant)

    def width(self, assign: Assign, target: str) -> None:
        """Refuse values that are wider than what the chip computes."""
        for parameter in self.made.parameters:
            for below, width in self.switch.layout(parameter.type):
                if f"{parameter.name}{below}" != target:
                    continue
                if width > self.chip.operand_bits:
                    limit = f"{self.chip.name} computes up to {self.chip.operand_bits}"
                    self.refuse(assign, f"{target} has {width} bits; {limit}; use a struct of two fields")
                value = assign.value
                if width > ALU_BITS and isinstance(value, Binary) and value.operator not in WIDE:
                    self.refuse(assign, f"{value.operator} of {width} bits; it takes up to {ALU_BITS}")

    def is_constant(self, expression: Expression) -> bool:
        """Report whether an expression is folded to a number."""
        return _constant(expression, self.switch) is not None

    def operators(self, expression: Expression) -> None:
        """Refuse more than one operator, unless the outer one is `|`."""
        if not isinstance(expression, Binary):
            return
        sides = (expression.left, expression.right)
        inner = [
            side
            for side in sides
            if isinstance(side, Binary) and side.operator in OPERATORS and not self.is_constant(side)
        ]
        if expression.operator in OPERATORS and expression.operator != "|" and inner:
            self.refuse(expression, f"{shape(expression)} has more than one operator")
            return
        self.operators(expression.left)
        self.operators(expression.right)

    def condition(self, condition: Expression) -> None:
        """Collect the comparisons of a condition, and refuse those with too many operands."""
        if isinstance(condition, Unary):
            self.condition(condition.of)
        elif isinstance(condition, Binary) and condition.operator in ("&&", "||"):
            self.condition(condition.left)
            self.condition(condition.right)
        elif isinstance(condition, Binary) and condition.operator in COMPARISONS:
            sign = NEGATIONS.get(condition.operator, condition.operator)
            self.comparisons.add(f"{shape(condition.left)} {sign} {shape(condition.right)}")
            self.operators(condition)
            self.operands(condition)
        else:
            self.comparisons.add(f"{shape(condition)} == 0")

    def operands(self, condition: Binary) -> None:
        """Refuse a comparison with more operands of a kind than a unit has."""
        kinds: dict[str, list[str]] = {"fields": [], "values of the register": [], "constants": []}
        value = self.made.parameters[0].name
        for term in (*_terms(condition.left), *_terms(condition.right)):
            root = term
            while isinstance(root, Member | Slice):
                root = root.of
            constant = _constant(term, self.switch)
            if constant is not None:
                kinds["constants"] += [shape(term)] if constant else []
                if constant > HELD_COMPARED:
                    self.constants.add(constant)
                if constant > SIGNED and condition.operator in MAGNITUDES and not self.chip.wide_constants:
                    limit = f"{condition.operator} takes no constant above {SIGNED} on {self.chip.name}"
                    self.refuse(condition, f"{limit}, not {constant}")
            elif isinstance(root, Name) and root.name == value:
                kinds["values of the register"].append(shape(term))
            else:
                kinds["fields"].append(shape(term))
        for kind, terms in kinds.items():
            if len(terms) > 1:
                self.refuse(
                    condition, f"a comparison {ONE_EACH}; here are {len(terms)} {kind}: {', '.join(terms)}"
                )


def _constant(expression: Expression, switch: Switch) -> int | None:
    try:
        return switch.number(expression, expression.at)
    except RefusedError:
        return None


def _operands(expression: Expression, switch: Switch) -> Iterator[Expression]:
    if (
        isinstance(expression, Binary)
        and expression.operator in OPERATORS
        and _constant(expression, switch) is None
    ):
        yield from _operands(expression.left, switch)
        yield from _operands(expression.right, switch)
    else:
        yield expression


def _terms(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Binary) and expression.operator in ("+", "-"):
        yield from _terms(expression.left)
        yield from _terms(expression.right)
    elif isinstance(expression, Binary) and expression.operator == "&":  # a mask belongs to its field
        masked = isinstance(expression.right, Number)
        yield from _terms(expression.left if masked else expression.right)
    else:
        yield expression


def indexes(block: Block, switch: Switch) -> Iterator[RefusedError]:
    """Refuse indexes that are computed, and tables whose actions index a register in different ways."""
    executed = {one.name: path(one.arguments[0]) for one in _instances(block, "RegisterAction")}
    hashes = {one.name for one in _instances(block, "Hash")}
    actions = {one.name: one for one in block.locals if isinstance(one, Action)}
    for body in (block.apply, *(action.body for action in actions.values())):
        for _, call in _executions(body, executed):
            index = call.arguments[0]
            if not _plain(index, hashes):
                yield index.at.refuse(
                    f"the index is too complex: {shape(index)} is computed; assign it to a field before"
                )
    for table in block.locals:
        if not isinstance(table, Table):
            continue
        used: dict[str, str] = {}
        for name in table.actions:
            given = {one.name for one in actions[name].parameters} if name in actions else set()
            for register, call in _executions(actions[name].body if name in actions else (), executed):
                text = shape(call.arguments[0])
                if text in given or _constant(call.arguments[0], switch) is not None:
                    text = "action data"
                if used.setdefault(register, text) != text:
                    yield call.at.refuse(
                        f"table {table.name} indexes register {register} by {used[register]} and by {text}; "
                        "a table has one way for each register"
                    )


def _instances(block: Block, kind: str) -> Iterator[Instance]:
    for local in block.locals:
        if isinstance(local, Instance) and local.type.name == kind:
            yield local


def _executions(body: Sequence[Statement], executed: dict[str, str]) -> Iterator[tuple[str, Call]]:
    for call in calls(body):
        function = call.function
        if isinstance(function, Member) and function.name == "execute" and isinstance(function.of, Name):
            yield executed[function.of.name], call


def _plain(index: Expression, hashes: set[str]) -> bool:
    """Report whether the crossbar gives an index as it is: a constant, fields side by side, or a hash."""
    if isinstance(index, Slice | Cast):
        return _plain(index.of, hashes)
    if isinstance(index, Binary) and index.operator == "++":
        return _plain(index.left, hashes) and _plain(index.right, hashes)
    if isinstance(index, Call):
        return isinstance(index.function, Member) and path(index.function.of) in hashes
    return isinstance(index, Number | Name | Member)
