# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Chains of dependent tables and registers, which say how many stages of a pipe a program takes at least.

A table needs a later stage than one that writes a field which it matches, tests, reads or writes, unless a
packet never passes both. A branch on a table's hit, and a field that is read before it is written, allow the
same stage (RMT, Bosshart et al., SIGCOMM 2013, section 3.2). A compiler may need more stages than the chain:
for memory, or for more tables than a stage holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
    Items,
    Member,
    Name,
    RefusedError,
    Slice,
    Statement,
    Table,
    Tree,
    Unary,
)


@dataclass(frozen=True, slots=True)
class Effects:
    """Fields that something reads and writes, and registers that it accesses."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    registers: frozenset[str] = frozenset()

    def __or__(self, other: Effects) -> Effects:
        return Effects(self.reads | other.reads, self.writes | other.writes, self.registers | other.registers)


@dataclass(frozen=True, slots=True)
class Step:
    """A table, or a statement that becomes one: its effects, and what decides whether it runs.

    Attributes:
        name: Table or action.
        effects: All that its actions may do.
        tested: Fields that conditions around it test.
        after: Tables on whose hit or miss it depends.
        branches: The `if`s around it, with the side it is on.
    """

    name: str
    effects: Effects
    tested: frozenset[str]
    after: frozenset[str]
    branches: Mapping[int, bool]

    def excludes(self, other: Step) -> bool:
        """Report whether no packet passes both."""
        return any(other.branches.get(branch, side) != side for branch, side in self.branches.items())


@dataclass(frozen=True, slots=True)
class Chain:
    """The longest chain of a control: the names of its steps, with their registers."""

    control: str
    steps: tuple[str, ...]


def path(expression: Expression) -> str:
    """Return a field's name as the program writes it."""
    if isinstance(expression, Name):
        return expression.name
    if isinstance(expression, Member):
        return f"{path(expression.of)}.{expression.name}"
    if isinstance(expression, Slice):
        return path(expression.of)
    raise expression.at.refuse("this is not a field")


@dataclass
class Analysis:
    """Effects of the actions and tables of one control."""

    block: Block
    actions: dict[str, Action] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for local in self.block.locals:
            if isinstance(local, Action):
                self.actions[local.name] = local
            elif isinstance(local, Table):
                self.tables[local.name] = local
            elif isinstance(local, Instance):
                self.instances[local.name] = local

    def of_expression(self, expression: Expression) -> Effects:
        """Return what evaluating an expression reads and accesses."""
        if isinstance(expression, Name | Member):
            return Effects(reads=frozenset({path(expression)}))
        if isinstance(expression, Slice | Unary | Cast):
            return self.of_expression(expression.of)
        if isinstance(expression, Binary):
            return self.of_expression(expression.left) | self.of_expression(expression.right)
        if isinstance(expression, Items):
            return self.union(self.of_expression(item) for item in expression.items)
        if isinstance(expression, Call):
            return self.of_call(expression)
        return Effects()

    def union(self, parts: Iterator[Effects]) -> Effects:
        """Return all effects together."""
        total = Effects()
        for part in parts:
            total |= part
        return total

    def of_call(self, call: Call) -> Effects:
        """Return the effects of a call."""
        arguments = self.union(self.of_expression(one) for one in call.arguments)
        if isinstance(call.function, Name):
            return arguments | self.of_action(call.function.name)
        if not isinstance(call.function, Member):
            raise call.at.refuse("this call is not supported")
        of, method = call.function.of, call.function.name
        if method == "isValid":
            return Effects(reads=frozenset({f"{path(of)}.isValid()"}))
        if method in ("setValid", "setInvalid"):
            return Effects(writes=frozenset({f"{path(of)}.isValid()"}))
        made = self.instances.get(path(of))
        if made is not None and made.method is not None:
            own = {parameter.name for parameter in made.parameters}
            inside = self.of_body(made.method)
            register = path(made.arguments[0])
            return arguments | Effects(reads=inside.reads - own, registers=frozenset({register}))
        return arguments

    def of_action(self, name: str) -> Effects:
        """Return the effects of an action, its parameters left out."""
        if name not in self.actions:
            return Effects()
        action = self.actions[name]
        own = {parameter.name for parameter in action.parameters}
        inside = self.of_body(action.body)
        return Effects(inside.reads - own, inside.writes - own, inside.registers)

    def of_body(self, body: Sequence[Statement]) -> Effects:
        """Return the effects of statements."""
        return self.union(self.of_statement(one) for one in body)

    def of_statement(self, statement: Statement) -> Effects:
        """Return the effects of one statement."""
        if isinstance(statement, Assign):
            return self.of_expression(statement.value) | Effects(writes=frozenset({path(statement.target)}))
        if isinstance(statement, Do):
            return self.of_call(statement.call)
        return (
            self.of_expression(statement.condition)
            | self.of_body(statement.then)
            | self.of_body(statement.orelse)
        )

    def of_table(self, name: str) -> Effects:
        """Return all that a table may do."""
        table = self.tables[name]
        keys = self.union(self.of_expression(key) for key, _ in table.keys)
        return keys | self.union(self.of_action(action) for action in table.actions)

    # ---- steps
    def applied(self, expression: Expression) -> str | None:
        """Return the table that an expression applies, directly or for its hit or miss."""
        if isinstance(expression, Member) and expression.name in ("hit", "miss"):
            return self.applied(expression.of)
        if isinstance(expression, Call) and isinstance(expression.function, Member):
            of = expression.function.of
            if expression.function.name == "apply" and isinstance(of, Name) and of.name in self.tables:
                return of.name
        return None

    def steps(self) -> list[Step]:
        """Return the steps of the control in their order."""
        found: list[Step] = []
        self._walk(self.block.apply, frozenset(), frozenset(), {}, found)
        return found

    def _walk(
        self,
        body: Sequence[Statement],
        tested: frozenset[str],
        after: frozenset[str],
        branches: Mapping[int, bool],
        found: list[Step],
    ) -> None:
        for statement in body:
            if not isinstance(statement, If):
                found.append(self._step(statement, tested, after, branches))
                continue
            table = self.applied(statement.condition)
            inner_tested, inner_after = tested, after
            if table is not None:
                found.append(Step(table, self.of_table(table), tested, after, branches))
                inner_after = after | {table}
            else:
                condition = self.of_expression(statement.condition)
                if condition.registers:
                    raise statement.at.refuse("a register is accessed in a condition")
                inner_tested = tested | condition.reads
            number = id(statement)
            for side, inner in ((True, statement.then), (False, statement.orelse)):
                self._walk(inner, inner_tested, inner_after, {**branches, number: side}, found)

    def _step(
        self,
        statement: Assign | Do,
        tested: frozenset[str],
        after: frozenset[str],
        branches: Mapping[int, bool],
    ) -> Step:
        if isinstance(statement, Do):
            table = self.applied(statement.call)
            if table is not None:
                return Step(table, self.of_table(table), tested, after, branches)
            name = path(statement.call.function)
        else:
            name = path(statement.target)
        return Step(name, self.of_statement(statement), tested, after, branches)


def gap(step: Step, before: Step) -> int | None:
    """Return how many stages a step is behind an earlier one at least; None if it may be in any."""
    if step.excludes(before):
        return None
    if before.effects.writes & (step.effects.reads | step.effects.writes | step.tested):
        return 1
    return 0 if before.name in step.after or before.effects.reads & step.effects.writes else None


def latest(steps: Sequence[Step]) -> list[tuple[int, int | None]]:
    """Return the stage of each step, counted from 1, and the step before it in its chain."""
    stages: list[tuple[int, int | None]] = []
    for step in steps:
        stage, before = 1, None
        for earlier, other in enumerate(steps[: len(stages)]):
            apart = gap(step, other)
            if apart is not None and stages[earlier][0] + apart > stage:
                stage, before = stages[earlier][0] + apart, earlier if apart else stages[earlier][1]
        stages.append((stage, before))
    return stages


def behind(steps: Sequence[Step]) -> list[int]:
    """Return how many stages have to follow that of each step."""
    follow = [0] * len(steps)
    for at in reversed(range(len(steps))):
        for later in range(at + 1, len(steps)):
            apart = gap(steps[later], steps[at])
            if apart is not None:
                follow[at] = max(follow[at], apart + follow[later])
    return follow


def chain(block: Block) -> Chain:
    """Return the longest chain of dependent steps of a control."""
    steps = Analysis(block).steps()
    stages = latest(steps)
    found: list[str] = []
    at: int | None = max(range(len(steps)), key=lambda one: stages[one][0], default=None)
    while at is not None:
        step = steps[at]
        registers = ", ".join(sorted(step.effects.registers))
        found.append(f"{step.name} ({registers})" if registers else step.name)
        at = stages[at][1]
    return Chain(block.name, tuple(reversed(found)))


def pipeline(tree: Tree) -> tuple[Block, Block]:
    """Return the controls of ingress and egress.

    Raises:
        RefusedError: The program has no pipeline of six blocks.
    """
    named = [
        one.function.name
        for made in tree.instances
        if made.type.name == "Pipeline"
        for one in made.arguments
        if isinstance(one, Call) and isinstance(one.function, Name)
    ]
    known = {block.name: block for block in tree.blocks}
    if len(named) != 6 or any(name not in known for name in named):
        raise RefusedError("a program has one Pipeline of six blocks")
    return known[named[1]], known[named[4]]
