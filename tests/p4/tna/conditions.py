# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Conditions of a control's `apply`, which become gateways: p4c takes few of them (mau/gateway.cpp and .h).

A gateway compares fields. Equality takes two fields, or a field with a constant mask; any other comparison
needs a constant, and looks at up to 12 bits (HashBits). A sum would need an action before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
RANGE_BITS = 12


def problems(block: Block, switch: Switch) -> Iterator[RefusedError]:
    """Refuse conditions that no gateway computes."""
    scope = switch.scope(block)
    for condition in _conditions(block.apply):
        if scope.hit_or_miss(condition) is None:
            yield from _condition(condition, scope)


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
    left, right = scope.expression(condition.left), scope.expression(condition.right)
    sign, bound, width = condition.operator, right.constant, left.width
    if bound is None:
        sign, bound, width = MAGNITUDES[sign], left.constant, right.width
    if bound is None:
        yield condition.at.refuse(
            f"the condition is too complex: one operand of {condition.operator} must be constant"
        )
        return
    bound += sign in ("<=", ">")  # now all below the bound differ from all others
    if width is None or not 0 < bound < 1 << width:
        return  # always or never
    zeros = (bound & -bound).bit_length() - 1  # their bits need no look
    if bound >> zeros != 1 and width - zeros > RANGE_BITS:
        yield condition.at.refuse(
            f"the condition compares {width - zeros} bits; the limit of {sign} is {RANGE_BITS}"
        )
