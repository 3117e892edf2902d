# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Memory of tables and registers, and what a chip has of it. Figures are those of p4c's back end.

A stage has 80 SRAM blocks of 1024 words, 48 map RAMs and 24 blocks of TCAM (specs/mau_spec.h: StageUse). A
register takes a map RAM for each SRAM block, and one more of both, its spare bank (mau/resource_estimate.cpp:
calculate_attached_rams). Entries of exact tables share words as in mau/table_layout.cpp (setup_exact_match),
but do not cross words as they may there: a table slightly above the limit may fit after all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.p4.tna.chips import Chip
from tests.p4.tna.machine import RunnableTable, Switch
from tests.p4.tna.syntax import At, Instance, RefusedError, Table, Tree

SRAMS, MAP_RAMS, TCAMS = 80, 48, 24
"""What a stage has."""
WORD_BITS, WORDS = 128, 1024
"""An SRAM block."""
TCAM_ROWS = 512
BLOCK_BYTES = WORD_BITS // 8 * WORDS
ENTRIES_PER_WORD = 5
"""specs/device.h: getSramMaxPackEntriesPerRow."""
OVERHEAD_BITS = 64
"""Bits of a word that are not matched (mau/table_format.h)."""
VERSION_BITS = 4
"""Bits of an entry for updates (mau/table_format.h)."""
ROW_BITS = 10
"""Bits of a key that an entry's row implies (mau/table_format.h: RAM_GHOST_BITS)."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one table or register, in blocks."""

    name: str
    at: At
    srams: int = 0
    map_rams: int = 0
    tcams: int = 0


def register_blocks(entries: int, bits: int, chip: Chip) -> int:
    """Return the SRAM blocks of a register, with a spare bank in each stage that it needs."""
    blocks = -(-entries * bits // 8 // BLOCK_BYTES)
    return blocks + (-(-blocks // (MAP_RAMS - 1)) if chip.spreads_registers else 1)


def memories(tree: Tree, switch: Switch, chip: Chip) -> Iterator[Memory]:
    """Return the memory of every table and register."""
    for block in tree.blocks:
        for local in block.locals:
            name = f"{block.name}.{local.name}"
            if isinstance(local, Table):
                yield _table(switch.tables[name], local)
            elif isinstance(local, Instance) and local.type.name == "Register":
                register = switch.registers[name]
                blocks = register_blocks(len(register.values), register.width, chip)
                yield Memory(name, local.at, srams=blocks, map_rams=blocks)


def _table(table: RunnableTable, local: Table) -> Memory:
    bits = sum(width for _, _, width, _ in table.keys)
    data = max(sum(width for *_, width in action.parameters) for action in table.actions.values())
    if any(kind != "exact" for _, kind, _, _ in table.keys):
        return Memory(table.name, local.at, tcams=_tcams(table.size, -(-bits // 8)))
    entries = min(table.size, 1 << bits)  # the compiler shrinks it to that
    select = (len(table.actions) - 1).bit_length()
    beside = _srams(entries, bits, select + data)
    apart = _srams(entries, bits, select) + _action_data(entries, -(-data // 8))
    return Memory(table.name, local.at, srams=min(beside, apart) if table.keys else 0)


def _srams(entries: int, key: int, overhead: int) -> int:
    """Return the blocks of entries that share words, or take several."""
    bits = max(key - ROW_BITS, 0) + VERSION_BITS + overhead
    per_word = min(WORD_BITS // bits, OVERHEAD_BITS // max(overhead, 1), ENTRIES_PER_WORD)
    if per_word:
        return -(-entries // (per_word * WORDS))
    return -(-bits // WORD_BITS) * -(-entries // WORDS)


def _action_data(entries: int, size: int) -> int:
    """Return the blocks of action data, whose entries have a power of 2 of bytes (ActionDataPerWord)."""
    size = 1 << (size - 1).bit_length() if size else 0
    return -(-entries * size // BLOCK_BYTES)


def _tcams(entries: int, size: int) -> int:
    """Return the blocks of TCAM for keys of so many bytes (options_to_ternary_entries)."""
    wide, rest = divmod(size, 11)
    width = 2 * wide + (2 if rest > 6 else 1 if rest or not wide else 0)
    return -(-entries // TCAM_ROWS) * width


def problems(tree: Tree, switch: Switch, chip: Chip) -> Iterator[RefusedError]:
    """Refuse registers that do not fit into a stage, and programs that do not fit into a pipe."""
    used = list(memories(tree, switch, chip))
    whole = [one for one in used if one.map_rams > MAP_RAMS and not chip.spreads_registers]
    for one in whole:
        yield one.at.refuse(
            f"register {one.name} takes {one.map_rams} map RAMs, its spare bank included; "
            f"{chip.name} keeps it in one stage, which has {MAP_RAMS}"
        )
    if whole:
        return
    for kind, counts, limit in (
        ("SRAM blocks", [one.srams for one in used], SRAMS),
        ("map RAMs", [one.map_rams for one in used], MAP_RAMS),
        ("TCAM blocks", [one.tcams for one in used], TCAMS),
    ):
        if sum(counts) > limit * chip.stages:
            most = used[counts.index(max(counts))]
            yield most.at.refuse(
                f"the program takes {sum(counts)} {kind}, {max(counts)} of them for {most.name}; "
                f"{chip.name} has {chip.stages} stages of {limit}"
            )
            return
