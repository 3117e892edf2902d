# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Limits of a chip that compilers report late: after the front end took the program. `p4test` sees none."""

from __future__ import annotations

from collections.abc import Iterator

from tests.p4.tna import conditions, memory, placement, stateful
from tests.p4.tna.chips import TOFINO, Chip
from tests.p4.tna.machine import Switch
from tests.p4.tna.stages import Analysis, chain, path, pipeline
from tests.p4.tna.syntax import (
    Action,
    Assign,
    Binary,
    Block,
    Expression,
    If,
    Instance,
    Items,
    Member,
    Name,
    Number,
    RefusedError,
    Slice,
    Table,
    Tree,
    calls,
)

RANGE_NIBBLES = 5
"""Nibbles of one range key (mau/resource_estimate.cpp: TERNARY_BYTES_PER_GROUP)."""
ACTIONS_PER_REGISTER = 4
MIRROR_BYTES = 32
SATURATING = ("|+|", "|-|")


def problems(tree: Tree, chip: Chip = TOFINO) -> list[str]:
    """Return everything in a program that the chip does not take, with its place.

    Raises:
        RefusedError: The interpreter does not know a part of the program.
    """
    switch = Switch(tree, chip)
    found: list[RefusedError] = []
    for block in tree.blocks:
        found += checksums(block)
        if block.kind == "control":
            found += ranges(block, switch)
            found += register_accesses(block)
            found += register_shapes(block, switch, chip)
            found += stateful.register_actions(block, switch, chip)
            found += stateful.indexes(block, switch)
            found += actions(block)
            found += mirrors(block, switch, tree)
    sizes = list(memory.problems(tree, switch, chip))
    for block in pipeline(tree):
        found += conditions.problems(block, switch)
        length = len(chain(block).steps)
        if length > chip.stages:
            sizes.append(
                block.at.refuse(f"{block.name} needs {length} stages; {chip.name} has {chip.stages}")
            )
    found += sizes or placement.problems(tree, switch, chip)
    return [str(one) for one in found]


def checksums(block: Block) -> Iterator[RefusedError]:
    """Refuse constants other than 0 in a checksum: the deparser adds fields only."""
    made = {
        local.name for local in block.locals if isinstance(local, Instance) and local.type.name == "Checksum"
    }
    for call in calls(block.apply):
        if not isinstance(call.function, Member) or path(call.function.of) not in made:
            continue
        for argument in call.arguments:
            for item in argument.items if isinstance(argument, Items) else ():
                if isinstance(item, Number) and item.value:
                    yield item.at.refuse("a checksum takes no constant but 0; put it into metadata")


def ranges(block: Block, switch: Switch) -> Iterator[RefusedError]:
    """Refuse range keys that lie in too many nibbles."""
    for local in block.locals:
        if not isinstance(local, Table):
            continue
        keys = switch.tables[f"{block.name}.{local.name}"].keys
        for (expression, kind), (name, _, width, _) in zip(local.keys, keys, strict=True):
            if kind != "range":
                continue
            low = first_bit(expression, block, switch) % 4
            nibbles = -(-(low + width) // 4)
            if nibbles > RANGE_NIBBLES:
                where = f" from bit {low} of a nibble on" if low else ""
                yield expression.at.refuse(
                    f"range key {name} has {width} bits{where}: {nibbles} nibbles, of at most {RANGE_NIBBLES}"
                )


def first_bit(expression: Expression, block: Block, switch: Switch) -> int:
    """Return the lowest bit of a field, counted from a byte's.

    A packet's fields keep their place in a byte in the chip's containers. Metadata begins where the compiler
    likes: at a byte's first bit, as it is assumed here.
    """
    if isinstance(expression, Slice):
        return first_bit(expression.of, block, switch) + switch.number(expression.low, expression.at)
    place = switch.scope(block).path(expression)
    for header in switch.headers.values():
        below = 0
        for name, width in reversed(header.fields):
            if name == place:
                return below
            below += width
    return 0


def register_accesses(block: Block) -> Iterator[RefusedError]:
    """Refuse a register that a packet could access twice: in two tables, or twice in one action."""
    analysis = Analysis(block)
    steps = analysis.steps()
    for at, step in enumerate(steps):
        for other in steps[:at]:
            twice = step.effects.registers & other.effects.registers
            if twice and not step.excludes(other):
                names = ", ".join(sorted(twice))
                yield block.at.refuse(
                    f"register {names}: a packet may access it in {other.name} and in {step.name}"
                )
    for action in analysis.actions.values():
        seen: set[str] = set()
        for call in calls(action.body):
            for register in analysis.of_call(call).registers:
                if register in seen:
                    yield call.at.refuse(f"register {register} is accessed twice in {action.name}")
                seen.add(register)


def register_shapes(block: Block, switch: Switch, chip: Chip) -> Iterator[RefusedError]:
    """Refuse registers of other widths, and more RegisterActions than a stateful unit holds.

    A value has a width of its own, or is a struct of one or two fields of one width (mau/stateful_alu.cpp).
    """
    fields = tuple(bits for bits in (8, 16, 32, 64) if bits < chip.register_bits)
    alone = (1, *fields, chip.register_bits)
    counts: dict[str, int] = {}
    for local in block.locals:
        if not isinstance(local, Instance):
            continue
        if local.type.name == "Register":
            (below, width), *more = switch.registers[f"{block.name}.{local.name}"].fields
            choices = fields if below else alone
            if width not in choices:
                yield local.at.refuse(f"register {local.name} has {width} bits; choose from {choices}")
            if len(more) > 1 or any(other != width for _, other in more):
                yield local.at.refuse(f"register {local.name} is no struct of one or two fields of one width")
        elif local.type.name == "RegisterAction":
            register = path(local.arguments[0])
            counts[register] = counts.get(register, 0) + 1
            if counts[register] == ACTIONS_PER_REGISTER + 1:
                yield local.at.refuse(f"register {register} has more than {ACTIONS_PER_REGISTER} actions")


def actions(block: Block) -> Iterator[RefusedError]:
    """Refuse actions that span stages, and saturating operations with action data."""
    analysis = Analysis(block)
    for local in block.locals:
        if not isinstance(local, Action):
            continue
        parameters = {parameter.name for parameter in local.parameters}
        computed: set[str] = set()
        for statement in local.body:
            if not isinstance(statement, Assign):
                if isinstance(statement, If):
                    yield statement.at.refuse(f"action {local.name} has a condition")
                continue
            value = statement.value
            if isinstance(value, Binary):
                operands = analysis.of_expression(value).reads
                if operands & computed:
                    yield statement.at.refuse(f"action {local.name} needs a result of its own: two stages")
                right = value.right
                if value.operator in SATURATING and isinstance(right, Name) and right.name in parameters:
                    yield statement.at.refuse(f"the second operand of {value.operator} is action data")
            computed.add(path(statement.target))


def mirrors(block: Block, switch: Switch, tree: Tree) -> Iterator[RefusedError]:
    """Refuse mirror type 0, which means none, and headers that are too long."""
    headers = {record.name: record for record in tree.records}
    for local in block.locals:
        if not isinstance(local, Instance) or local.type.name != "Mirror":
            continue
        if len(local.arguments) != 1 or switch.number(local.arguments[0], local.at) == 0:
            yield local.at.refuse("a mirror needs a type other than 0")
    for call in calls(block.apply):
        if isinstance(call.function, Member) and call.function.name == "emit" and call.types:
            length = sum(switch.width(one.type) for one in headers[call.types[0].name].fields) // 8
            if length > MIRROR_BYTES:
                yield call.at.refuse(f"a mirror header has at most {MIRROR_BYTES} bytes, not {length}")
