# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Conditions of a control's `apply`, which become gateways: p4c takes few of them (mau/gateway.cpp and .h).

A gateway compares fields. Equality takes two fields, or a field with a constant mask; any other comparison
needs a constant, and looks at up to 12 bits (HashBits). A sum would need an action before it.

Its whole input has a limit as well: 4 bytes, each of one field or of two that are compared, and 12 bits more,
the only ones for comparisons of magnitude (specs/device.cpp, PhvBytes and HashBits of both chips;
CollectGatewayFields::compute_offsets). The compiler divides a condition between gateways at its `||`
(mau/split_gateways.cpp), so the limit is that of comparisons which are joined by `&&`. With an inequality
among them it divides those too (removeNotEquals), and each is measured alone here. Fields are measured as if
they began a byte: others may need more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.p4.tna.machine import Scope, Switch
from tests.p4.tna.syntax import (
    Binary,
    Block,
    Call,
    Cast,
    Expression,
    If,
    Member,
    Name,
    RefusedError,
    Slice,
    Statement,
    Unary,
    shape,
)

MAGNITUDES = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""Comparisons of magnitude, with the one that results from exchanging the operands."""
NEGATIONS = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
GATEWAY_BYTES = 4
RANGE_BITS = 12
ALTERNATIVES = 64
"""Alternatives of one condition that are looked at; their number doubles with each `||` within an `&&`."""


@dataclass(frozen=True, slots=True)
class Input:
    """Bits of a field that a gateway reads."""

    field: str
    low: int
    width: int

    @property
    def bytes(self) -> tuple[int, ...]:
        """The bits that it has of each byte."""
        whole, rest = divmod(self.width, 8)
        return (8,) * whole + ((rest,) if rest else ())


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison of a gateway: of one input with a constant, or of two inputs."""

    inputs: tuple[Input, ...]
    magnitude: bool = False
    unequal: bool = False


def problems(block: Block, switch: Switch) -> Iterator[RefusedError]:
    """Refuse conditions that no gateway computes."""
    scope = switch.scope(block)
    for condition in _conditions(block.apply):
        if scope.hit_or_miss(condition) is None:
            found = list(_condition(condition, scope))
            yield from found or _width(condition, scope)


def _conditions(body: Sequence[Statement]) -> Iterator[Expression]:
    for statement in body:
        if isinstance(statement, If):
            yield statement.condition
            yield from _conditions(statement.then)
            yield from _conditions(statement.orelse)


def _condition(condition: Expression, scope: Scope) -> Iterator[RefusedError]:
    if isinstance(condition, Unary):
        yield from _condition(condition.of, scope)
    elif isinstance(condition, Binary) and condition.operator in ("&&", "||"):
        yield from _condition(condition.left, scope)
        yield from _condition(condition.right, scope)
    elif isinstance(condition, Binary):
        for operand in (condition.left, condition.right):
            if not _operand(operand, scope):
                yield operand.at.refuse(
                    f"the condition is too complex: {shape(operand)} is computed; assign it to a field before"
                )
        if condition.operator in MAGNITUDES:
            yield from _magnitude(condition, scope)


def _operand(operand: Expression, scope: Scope) -> bool:
    """Report whether a gateway can read an operand: a constant, or a field, masked or not."""
    if isinstance(operand, Cast):
        return _operand(operand.of, scope)
    if isinstance(operand, Call):
        return isinstance(operand.function, Member) and operand.function.name == "isValid"
    if scope.expression(operand).constant is not None or isinstance(operand, Name | Member):
        return True
    if isinstance(operand, Slice):
        return _operand(operand.of, scope)
    if isinstance(operand, Binary) and operand.operator in ("&", "|"):
        sides = (operand.left, operand.right)
        constants = [scope.expression(side).constant is not None for side in sides]
        return any(constants) and all(_operand(side, scope) for side in sides)
    return False


def _magnitude(condition: Binary, scope: Scope) -> Iterator[RefusedError]:
    bound = _bound(condition, scope)
    if bound is None:
        yield condition.at.refuse(
            f"the condition is too complex: one operand of {condition.operator} must be constant"
        )
        return
    field, value = bound
    bits = _compared(value, scope.expression(field).width)
    if bits is not None and bits[1] and bits[0] > RANGE_BITS:
        yield condition.at.refuse(
            f"the condition compares {bits[0]} bits; the limit of {condition.operator} is {RANGE_BITS}"
        )


def _bound(condition: Binary, scope: Scope) -> tuple[Expression, int] | None:
    """Return the field of a comparison of magnitude, and the number that separates its values."""
    sign, field = condition.operator, condition.left
    value = scope.expression(condition.right).constant
    if value is None:
        sign, field, value = MAGNITUDES[sign], condition.right, scope.expression(condition.left).constant
    return None if value is None else (field, value + (sign in ("<=", ">")))


def _compared(bound: int, width: int | None) -> tuple[int, bool] | None:
    """Return how many bits are compared, and whether by magnitude; None if the result is always the same."""
    if width is None or not 0 < bound < 1 << width:
        return None
    zeros = (bound & -bound).bit_length() - 1  # their bits need no look
    return width - zeros, bound >> zeros != 1


def _width(condition: Expression, scope: Scope) -> Iterator[RefusedError]:
    """Refuse a condition with comparisons that no gateway has the input for."""
    for together in _alternatives(condition, scope, negated=False):
        divided = any(test.unequal for test in together)
        for tests in [[test] for test in together] if divided else [together]:
            excess = _excess(tests)
            if excess:
                yield condition.at.refuse(f"the condition is too wide: {excess}")
                return


def _excess(tests: Sequence[Test]) -> str:
    """Return in which respect tests need more input than a gateway has; nothing if they do not."""
    pairs = {test.inputs for test in tests if len(test.inputs) == 2}
    magnitudes = {test.inputs[0] for test in tests if test.magnitude}
    constants = {one for test in tests if len(test.inputs) == 1 for one in test.inputs}
    constants -= magnitudes | {one for pair in pairs for one in pair}
    paired = sum(len(one.bytes) for one, _ in pairs)
    if paired > GATEWAY_BYTES:
        return f"it compares fields with each other in {paired} bytes; a gateway has {GATEWAY_BYTES}"
    single = sorted((bits for one in constants for bits in one.bytes), reverse=True)
    bits = sum(one.width for one in magnitudes) + sum(single[GATEWAY_BYTES - paired :])
    if bits > RANGE_BITS:
        return f"it compares {bits} bits beside {GATEWAY_BYTES} bytes; a gateway has {RANGE_BITS}"
    return ""


def _alternatives(condition: Expression, scope: Scope, *, negated: bool) -> list[list[Test]]:
    """Return the lists of tests of which one has to hold; none if there are too many."""
    if isinstance(condition, Unary) and condition.operator == "!":
        return _alternatives(condition.of, scope, negated=not negated)
    if not isinstance(condition, Binary) or condition.operator not in ("&&", "||"):
        return [_tests(condition, scope, negated)]
    left = _alternatives(condition.left, scope, negated=negated)
    right = _alternatives(condition.right, scope, negated=negated)
    if (condition.operator == "||") is not negated:
        return left + right
    both = [[*one, *other] for one in left for other in right]
    return both if len(both) <= ALTERNATIVES else []


def _tests(condition: Expression, scope: Scope, negated: bool) -> list[Test]:
    if not isinstance(condition, Binary):
        if scope.expression(condition).constant is not None:
            return []
        return [Test((Input(shape(condition), 0, 1),))]
    sign = NEGATIONS[condition.operator] if negated else condition.operator
    if sign not in MAGNITUDES:
        sides = (condition.left, condition.right)
        inputs = tuple(_input(side, scope) for side in sides if scope.expression(side).constant is None)
        return [Test(inputs, unequal=sign == "!=" and inputs[0].width > 1)] if inputs else []
    bound = _bound(condition, scope)
    assert bound is not None  # else the condition is refused already
    read = _input(bound[0], scope)
    bits = _compared(bound[1], read.width)
    if bits is None:
        return []
    width, magnitude = bits
    upper = Input(read.field, read.low + read.width - width, width)
    return [Test((upper,), magnitude, unequal=not magnitude and sign in (">", ">=") and width > 1)]


def _input(operand: Expression, scope: Scope) -> Input:
    """Return what a gateway reads of an operand; a mask leaves the bits from its lowest 1 to its highest."""
    if isinstance(operand, Cast):
        return _input(operand.of, scope)
    if isinstance(operand, Slice):
        of, low = _input(operand.of, scope), scope.switch.number(operand.low, operand.at)
        return Input(of.field, of.low + low, scope.switch.number(operand.high, operand.at) - low + 1)
    if isinstance(operand, Binary):
        masked, mask = operand.left, scope.expression(operand.right).constant
        if mask is None:
            masked, mask = operand.right, scope.expression(operand.left).constant
        of = _input(masked, scope)
        if operand.operator == "|" or not mask:
            return of
        low = (mask & -mask).bit_length() - 1
        return Input(of.field, of.low + low, mask.bit_length() - low)
    return Input(shape(operand), 0, scope.expression(operand).width or 1)
