# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The two chips: what their architectures declare, and what their back end in p4c knows of them.

Names in parentheses are files below `backends/tofino/bf-p4c` of p4c 1.2.5, and the constants there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BOOL = 0
"""The width of a bool, to tell it from `bit<1>`."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip.

    Attributes:
        name: Its name for p4c's `--target`.
        macros: What the headers of its architecture define (tna.p4, t2na.p4).
        types: Widths of the architecture's types (tofino1_specs.p4, tofino2_specs.p4).
        deparser: Fields of the egress deparser's metadata that only this chip has.
        stages: Stages of a pipe, which ingress and egress share (specs/device.h, getNumStages).
        comparisons: Comparisons of one RegisterAction (specs/device.cpp, CmpUnits).
        operand_bits: The widest value that a RegisterAction computes (specs/device.cpp, MaxSize).
        register_bits: The widest value of a register, pairs included (specs/device.cpp, MaxDualSize).
        wide_constants: A constant of a RegisterAction may have 32 bits without a sign (mau/stateful_alu.cpp).
        spreads_registers: A register may lie in several stages (mau/table_placement.cpp, can_split).
    """

    name: str
    macros: tuple[str, ...]
    types: Mapping[str, int]
    deparser: Mapping[str, int] = field(default_factory=dict)
    stages: int = 12
    comparisons: int = 2
    operand_bits: int = 32
    register_bits: int = 64
    wide_constants: bool = False
    spreads_registers: bool = False

    @property
    def intrinsic(self) -> Mapping[str, Mapping[str, int]]:
        """The fields of intrinsic metadata whose effect is modelled, with their widths (tofino1_base.p4)."""
        port, queue = self.types["PortId_t"], self.types["QueueId_t"]
        mirror = {"drop_ctl": 3, "mirror_type": self.types["MirrorType_t"]}
        return {
            "ingress_intrinsic_metadata_t": {"ingress_port": port},
            "ingress_intrinsic_metadata_from_parser_t": {"global_tstamp": 48},
            "ingress_intrinsic_metadata_for_deparser_t": {"drop_ctl": 3},
            "ingress_intrinsic_metadata_for_tm_t": {"ucast_egress_port": port, "qid": queue},
            "egress_intrinsic_metadata_t": {"egress_port": port, "enq_qdepth": 19, "deq_qdepth": 19},
            "egress_intrinsic_metadata_from_parser_t": {"global_tstamp": 48},
            "egress_intrinsic_metadata_for_deparser_t": {**mirror, **self.deparser},
            "egress_intrinsic_metadata_for_output_port_t": {},
        }


TOFINO = Chip(
    "tofino",
    ("-D__TARGET_TOFINO__=1", "-DMIRROR_ID_WIDTH=10"),
    {"PortId_t": 9, "QueueId_t": 5, "MirrorId_t": 10, "MirrorType_t": 3, "bool": BOOL},
)
TOFINO2 = Chip(
    "tofino2",
    ("-D__TARGET_TOFINO__=2", "-DMIRROR_ID_WIDTH=8"),
    {"PortId_t": 9, "QueueId_t": 7, "MirrorId_t": 8, "MirrorType_t": 4, "bool": BOOL},
    deparser={"mirror_io_select": 1},
    stages=20,
    comparisons=4,
    operand_bits=128,
    register_bits=128,
    wide_constants=True,
    spreads_registers=True,
)
CHIPS = {chip.name: chip for chip in (TOFINO, TOFINO2)}
