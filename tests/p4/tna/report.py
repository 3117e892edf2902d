# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The budget of a program: chains of dependent tables, registers and their memory."""

from __future__ import annotations

from dataclasses import dataclass

from tests.p4.tna import memory
from tests.p4.tna.chips import TOFINO, Chip
from tests.p4.tna.machine import Switch
from tests.p4.tna.stages import Chain, chain, pipeline
from tests.p4.tna.syntax import Tree


@dataclass(frozen=True, slots=True)
class RegisterSize:
    """A register: entries and their bits, and the SRAM blocks that hold them, with its spare bank."""

    name: str
    entries: int
    bits: int
    blocks: int

    @property
    def bytes(self) -> int:
        """Its memory."""
        return self.entries * self.bits // 8


@dataclass(frozen=True, slots=True)
class Budget:
    """Chains of ingress and egress, all registers, and the SRAM blocks of a pipe."""

    chains: tuple[Chain, Chain]
    registers: tuple[RegisterSize, ...]
    pipe_blocks: int

    @property
    def blocks(self) -> int:
        """SRAM blocks of all registers."""
        return sum(register.blocks for register in self.registers)

    def lines(self) -> list[str]:
        """Return the budget as text."""
        text = [
            f"{one.control}: {len(one.steps)} dependent steps: {' -> '.join(one.steps)}"
            for one in self.chains
        ]
        text += [
            f"{one.name}: {one.entries} x {one.bits} bit = {one.bytes / 1024:g} KB, {one.blocks} SRAM blocks"
            for one in self.registers
        ]
        share = 100 * self.blocks / self.pipe_blocks
        text.append(
            f"{len(self.registers)} registers: {self.blocks} of {self.pipe_blocks} SRAM blocks, {share:.1f} %"
        )
        return text


def budget(tree: Tree, chip: Chip = TOFINO) -> Budget:
    """Return the budget of a program on a chip."""
    ingress, egress = pipeline(tree)
    sizes = []
    for name, register in Switch(tree, chip).registers.items():
        entries, bits = len(register.values), register.width
        sizes.append(RegisterSize(name, entries, bits, memory.register_blocks(entries, bits, chip)))
    return Budget((chain(ingress), chain(egress)), tuple(sizes), chip.stages * memory.SRAMS)
