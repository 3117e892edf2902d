# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Stages in which dependent tables and registers have to lie, and what a stage has for them.

A chain of dependent steps leaves each table some stages: those after the chain before it, and before the one
behind it. What has to lie within some stages must fit there, together with that of the other gress, which
has the same stages. A stage has 4 stateful ALUs, one for each register (METER_ALUS), and 16 tables
(TABLES_MAX; mau/tofino/memories.h of p4c's back end, mem_info::constraint_check), beside its memory. On
Tofino 1 all accesses to a register are in its one stage (mau/table_placement.cpp, can_split).

What fits by these sums may still not fit: a stage has crossbars, buses and rows as well, which are not
counted, nor are tables without a key and statements, which the compiler may put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.p4.tna import memory
from tests.p4.tna.chips import Chip
from tests.p4.tna.machine import Switch
from tests.p4.tna.memory import Memory
from tests.p4.tna.stages import Analysis, behind, latest, pipeline
from tests.p4.tna.syntax import RefusedError, Table, Tree

ALUS, TABLES = 4, 16


@dataclass(frozen=True, slots=True)
class Placed:
    """A table or register that is used: the first and the last stage it may lie in, and what it takes."""

    memory: Memory
    first: int
    last: int
    table: Table | None


def problems(tree: Tree, switch: Switch, chip: Chip) -> Iterator[RefusedError]:
    """Refuse tables and registers that do not fit into the stages that chains leave them."""
    placed = list(_placed(tree, switch, chip))
    for count in range(chip.stages + 1):
        for first in range(1, chip.stages + 2 - count):
            last = first + count - 1
            inside = [one for one in placed if first <= one.first and one.last <= last]
            if inside and not count:
                (one, *_) = inside
                yield one.memory.at.refuse(
                    f"register {one.memory.name} is accessed in several stages; {chip.name} keeps it in one"
                )
                return
            for kind, needs, limit in _needs(inside):
                if sum(needs) > count * limit:
                    names = ", ".join(
                        one.memory.name for one, need in zip(inside, needs, strict=True) if need
                    )
                    where = f"stage {first}" if count == 1 else f"stages {first} to {last}"
                    yield inside[0].memory.at.refuse(
                        f"{sum(needs)} {kind} have to lie in {where} of {chip.name}, "
                        f"where a stage has {limit}: those of {names}"
                    )
                    return


def _needs(inside: Sequence[Placed]) -> Iterator[tuple[str, list[int], int]]:
    yield "stateful ALUs", [int(one.table is None) for one in inside], ALUS
    yield "tables", [int(one.table is not None and bool(one.table.keys)) for one in inside], TABLES
    yield "SRAM blocks", [one.memory.srams for one in inside], memory.SRAMS
    yield "map RAMs", [one.memory.map_rams for one in inside], memory.MAP_RAMS
    # the compiler may make a gateway of constant entries
    ternary = [0 if one.table is not None and one.table.entries else one.memory.tcams for one in inside]
    yield "TCAM blocks", ternary, memory.TCAMS


def _placed(tree: Tree, switch: Switch, chip: Chip) -> Iterator[Placed]:
    sizes = {one.name: one for one in memory.memories(tree, switch, chip)}
    for block in pipeline(tree):
        analysis = Analysis(block)
        steps = analysis.steps()
        heads, follow = [stage for stage, _ in latest(steps)], behind(steps)
        for name in (*analysis.tables, *analysis.instances):
            size = sizes.get(f"{block.name}.{name}")
            table = analysis.tables.get(name)
            used = [
                at
                for at, step in enumerate(steps)
                if (name == step.name if table else name in step.effects.registers)
            ]
            if size is None or not used:
                continue
            # branches may have their parts of a table, or of a register that lies in several stages
            outer = min if table or chip.spreads_registers else max
            first, after = outer(heads[at] for at in used), outer(follow[at] for at in used)
            yield Placed(size, first, chip.stages - after, table)
