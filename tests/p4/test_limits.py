# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Limits of the chips: for each rule tiny programs that a chip takes, and ones that it does not."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.p4.plane import PROGRAM
from tests.p4.tiny import PAIR, text
from tests.p4.tna.chips import CHIPS, TOFINO, TOFINO2, Chip
from tests.p4.tna.limits import problems
from tests.p4.tna.syntax import load, parse
from tests.patience import ran

BOTH = (TOFINO, TOFINO2)
STRUCTS = (
    PAIR + "struct uneven_t { bit<32> a; bit<16> b; }\nstruct three_t { bit<16> a; bit<16> b; bit<16> c; }\n"
)
TABLE = "table %s { key = { %s: %s; } actions = { %s; } default_action = NoAction(); size = %s; }\n"


@dataclass(frozen=True)
class Case:
    """A program: its parts, and what the chips say of it; no words if they take it."""

    name: str
    parts: dict[str, str]
    refused: str = ""
    chips: tuple[Chip, ...] = field(default=BOTH)


def gateway(condition: str, refused: str = "") -> Case:
    """Return a program with a condition."""
    return Case(f"if {condition}", {"apply": f"if ({condition}) {{ hdr.eth.kind = 1; }}"}, refused)


def salu(
    method: str, refused: str = "", *, call: str = "act.execute(md.b)", chips: tuple[Chip, ...] = BOTH
) -> Case:
    """Return a program with a RegisterAction."""
    local = (
        "Register<bit<8>, bit<8>>(256, 0) r;\n"
        "Hash<bit<16>>(HashAlgorithm_t.CRC16) h;\n"
        "RegisterAction<bit<8>, bit<8>, bit<8>>(r) act = { void apply(inout bit<8> v, out bit<8> o) "
        f"{{ {method} }} }};"
    )
    return Case(f"{method} {call}", {"locals": local, "apply": f"md.c = {call};"}, refused, chips)


def actions(*methods: str, refused: str = "") -> Case:
    """Return a program with a register and several actions of it."""
    local = "Register<bit<8>, bit<8>>(256, 0) r;\n" + "".join(
        f"RegisterAction<bit<8>, bit<8>, bit<8>>(r) a{number} = "
        f"{{ void apply(inout bit<8> v, out bit<8> o) {{ {method} }} }};\n"
        for number, method in enumerate(methods)
    )
    return Case("  ".join(methods), {"locals": local}, refused)


def key(name: str, expression: str, refused: str = "", *, copy: str = "") -> Case:
    """Return a program with a range key."""
    return Case(
        f"{name} {copy}",
        {"copy": copy, "locals": TABLE % ("t", expression, "range", "NoAction", 4), "apply": "t.apply();"},
        refused,
    )


def two_indexes(first: str, second: str, refused: str = "") -> Case:
    """Return a program with two actions of one register in one table."""
    head = "RegisterAction<bit<8>, bit<8>, bit<8>>(r) %s = { void apply(inout bit<8> v) { v = 1; } };\n"
    local = (
        "Register<bit<8>, bit<8>>(256, 0) r;\n" + head % "one" + head % "two" +
        f"action x(bit<8> p) {{ one.execute({first}); }}\naction y(bit<8> p) {{ two.execute({second}); }}\n" +
        TABLE % ("t", "md.a", "exact", "x; y; NoAction", 4)
    )  # fmt: skip
    return Case(f"indexes {first} and {second}", {"locals": local, "apply": "t.apply();"}, refused)


def if_each(*conditions: str) -> str:
    """Return statements that test conditions one within the other."""
    return "".join(f"if ({one}) {{ " for one in conditions) + "v = 1;" + " }" * len(conditions)


def memory(name: str, local: str, refused: str = "", *, chips: tuple[Chip, ...] = BOTH) -> Case:
    """Return a program with a register or table."""
    return Case(name, {"locals": local}, refused, chips)


def register(
    kind: str, size: int = 256, method: str = "", refused: str = "", *, chips: tuple[Chip, ...] = BOTH
) -> Case:
    """Return a program with a register of a type, with a method if one is given."""
    local = f"Register<{kind}, bit<32>>({size}) r;\n"
    if method:
        local += f"RegisterAction<{kind}, bit<32>, bit<32>>(r) act = "
        local += f"{{ void apply(inout {kind} v) {{ {method} }} }};"
    return Case(f"{size} x {kind} {method}", {"locals": local}, refused, chips)


def steps(number: int) -> str:
    """Return statements that depend on each other; the last one writes `md.a`."""
    names = ("a", "b") if number % 2 else ("b", "a")
    return "".join(f"md.{names[at % 2]} = md.{names[1 - at % 2]} + 1;\n" for at in range(number))


def chained(
    before: int, registers: int, refused: str = "", *, after: int = 0, chips: tuple[Chip, ...] = BOTH
) -> Case:
    """Return a program with registers between chains of steps; the index is the result of the one before."""
    local = "".join(
        f"Register<bit<8>, bit<8>>(256, 0) r{n};\nRegisterAction<bit<8>, bit<8>, bit<8>>(r{n}) act{n} = "
        "{ void apply(inout bit<8> v, out bit<8> o) { v = v + 1; o = v; } };\n"
        for n in range(registers)
    )
    apply = steps(before) + "".join(f"act{n}.execute(md.a);\n" for n in range(registers))
    if after:
        apply = apply.replace("act0.execute", "md.a = act0.execute") + steps(after)
    return Case(
        f"{before} steps, {registers} registers, {after} steps",
        {"locals": local, "apply": apply},
        refused,
        chips,
    )


def behind(
    before: int, local: str, refused: str = "", *, apply: str = "t.apply();", chips: tuple[Chip, ...] = BOTH
) -> Case:
    """Return a program with tables or registers behind a chain."""
    body = steps(before) + f"if (md.a == 1) {{ {apply} }}"
    return Case(f"{before} steps, {local}", {"locals": local, "apply": body}, refused, chips)


def one_of_two(before: int, after: int, refused: str = "", *, chips: tuple[Chip, ...] = BOTH) -> Case:
    """Return a program whose branches access one register: behind a chain, and before one."""
    local = (
        "Register<bit<8>, bit<8>>(256, 0) r;\nRegisterAction<bit<8>, bit<8>, bit<8>>(r) act = "
        "{ void apply(inout bit<8> v, out bit<8> o) { v = v + 1; o = v; } };\n"
    )
    apply = f"{steps(before)} act.execute(md.a); }} else {{ md.a = act.execute(md.c); {steps(after)}"
    body = {"locals": local, "apply": f"if (hdr.eth.kind == 1) {{ {apply} }}"}
    return Case(f"{before} steps before, {after} behind", body, refused, chips)


MILLIONS = "action x(bit<9> port) { tm.ucast_egress_port = port; }\n" + TABLE % (
    "t", "hdr.eth.dst", "%s", "x; NoAction", "%d",
)  # fmt: skip
MANY_TABLES = TABLE % ("t%d", "md.b", "exact", "NoAction", 4)
APPLY_16 = " ".join(f"t{at}.apply();" for at in range(16))
TWO_REGISTERS = "".join(
    f"Register<bit<32>, bit<16>>(%d, 0) r{n};\nRegisterAction<bit<32>, bit<16>, bit<32>>(r{n}) act{n} = "
    "{ void apply(inout bit<32> v) { v = v + 1; } };\n"
    for n in (1, 2)
)
BOTH_REGISTERS = "act1.execute(md.wide); act2.execute(md.wide);"
COMPUTED = "the condition is too complex: {} is computed; assign it to a field before"
MANY = (
    "the actions of register r use 5 constants that no instruction holds (11, 12, 13, 14, 15); the limit is 4"
)
WIDE = "the condition is too wide: it compares {} bits beside 4 bytes; a gateway has 12"
CASES = [
    # conditions
    gateway("md.a == 1 && (md.b != 2 || !md.yes)"),
    gateway("md.a == md.b"),
    gateway("md.a[3:0] == 1"),
    gateway("(md.a & 3) == 1"),
    gateway("hdr.eth.isValid()"),
    gateway("(md.a & md.b) == 1", COMPUTED.format("(md.a & md.b)")),
    gateway("md.a > 12"),
    gateway("12 > md.a"),
    gateway("md.a > md.b", "the condition is too complex: one operand of > must be constant"),
    gateway("md.a <= md.b", "the condition is too complex: one operand of <= must be constant"),
    gateway("md.yes && md.wide[7:0] >= md.b", "one operand of >= must be constant"),
    gateway("md.a + md.b > 12", COMPUTED.format("(md.a + md.b)")),
    gateway("md.a |+| md.b == 12", COMPUTED.format("(md.a |+| md.b)")),
    gateway("md.a - 1 == 0", COMPUTED.format("(md.a - 1)")),
    gateway("~md.a == 0", COMPUTED.format("~md.a")),
    gateway("md.wide[11:0] > 12"),
    gateway("md.wide > 12", "the condition compares 16 bits; the limit of > is 12"),
    gateway("md.wide >= 48"),  # 4 bits of it do not matter
    gateway("md.wide >= 40", "the condition compares 13 bits; the limit of >= is 12"),
    gateway("md.long <= 65535"),  # whether the high bits are 0
    gateway("hdr.eth.dst[43:0] == 1"),  # 4 bytes and 12 bits
    gateway("hdr.eth.dst == 1", WIDE.format(16)),
    gateway("hdr.eth.dst != 1", WIDE.format(16)),
    gateway("(hdr.eth.dst & 0xffff00) == 0x100 && md.wide == 1 && md.a[3:0] == 1"),
    gateway("md.long == 1 && md.a[5:0] == 1 && md.b[4:0] == 1 && md.one == 1"),
    gateway("md.long == 1 && md.a[5:0] == 1 && md.b[5:0] == 1 && md.yes", WIDE.format(13)),
    gateway("md.long == 1 && md.wide == 1", WIDE.format(16)),
    gateway("md.long == 1 || md.wide == 1"),  # two gateways
    gateway("!(md.long != 1 || md.wide != 1)", WIDE.format(16)),
    gateway("md.long == 1 && md.wide != 1"),  # two gateways
    gateway("md.wide == 1 && md.wide != 2 && md.wide > 65279"),
    gateway("md.a > 12 && md.b[3:0] > 2 && md.long == 1"),
    gateway("md.a > 12 && md.b > 12", WIDE.format(16)),
    gateway("md.a > 12 && md.b[3:0] > 2 && md.long == 1 && md.one == 1", WIDE.format(13)),
    gateway("md.a == md.b && md.c == 1 && md.wide == 1"),  # two fields share a byte
    gateway("md.a == md.b && md.c == 1 && md.long[27:0] == 1"),
    gateway("md.a == md.b && md.c == 1 && md.long == 1 && md.wide[4:0] == 1", WIDE.format(21)),
    gateway("hdr.eth.dst[31:0] == hdr.eth.src[31:0]"),
    gateway("hdr.eth.dst == hdr.eth.src", "it compares fields with each other in 6 bytes; a gateway has 4"),
    # RegisterActions
    salu("o = v; if (v == 0) { v = md.a; }"),
    salu("o = 0; if (md.a - v > 3) { v = md.a; o = 1; }"),
    salu(if_each("v > 1", "v != 3")),
    salu(if_each("v > 1", "v <= 1", "v != 3", "v == 3")),  # opposites share a unit
    salu(if_each("v > 1", "v > 2", "v > 3"), "act has 3 comparisons; tofino has 2", chips=(TOFINO,)),
    salu(if_each("v > 1", "v > 2", "v > 3", "v > 4"), "act has 4 comparisons", chips=(TOFINO,)),
    salu(if_each("v > 1", "v > 2", "v > 3", "v > 4"), chips=(TOFINO2,)),
    salu("if (v > 1 && v > 2 && (v > 3 || md.a == 4)) { v = 1; }", "act has 4 comparisons", chips=(TOFINO,)),
    salu(if_each(*(f"v > {n}" for n in range(5))), "act has 5 comparisons; tofino2 has 4", chips=(TOFINO2,)),
    salu("if (md.a == md.b) { v = 1; }", "here are 2 fields: md.a, md.b"),
    salu("if (v == v) { v = 1; }", "here are 2 values of the register: v, v"),
    salu("if (v - 1 > 2) { v = 1; }", "here are 2 constants: 1, 2"),
    salu("v = v + md.a;"),
    salu("v = v + md.a + 1;", "((v + md.a) + 1) has more than one operator"),
    salu("v = (v & 1) | (md.a & 2);"),
    salu("if (v == 0) { v = 1; } else { v = 2; }"),
    # constants of a RegisterAction
    actions("if (v > 11) { v = 12; }", "v = v - 13;", "o = v & 14;", "if (11 < v) { v = 12; }"),
    actions("if (v > 11) { v = 12; }", "v = v - 13;", "o = v & 14;", "v = v |+| 15;", refused=MANY),
    actions("if (v == 11) { v = 12; }", "v = md.a + 13;", "v = v | 14;", "o = 15;", refused=MANY),
    actions("if (v > 8) { v = 7; }", "v = v - 13;", "v = v & 14;", "v = v + 15; o = 12;"),
    actions("if ((v & 64) == 11) { v = 12; }", "v = v - 13;", "v = v & 14;", "o = md.a;"),
    register("pair_t", refused=MANY,
             method="if (v.low > 11) { v.low = 12; v.high = 13; } else { v.low = v.low & 14; v.high = 15; }"),
    register("bit<1>", method="v = 1;"),
    register("bit<32>", method="if (v > 2147483648) { v = 0; }"),
    register("bit<32>", method="if (v > 2147483649) { v = 0; }", chips=(TOFINO,),
             refused="act: > takes no constant above 2147483648 on tofino, not 2147483649"),
    register("bit<32>", method="if (v > 2147483649) { v = 0; }", chips=(TOFINO2,)),
    register("bit<32>", method="if (v == 4294967295) { v = 0; }"),
    salu("v = 1; if (v == 0) { v = 2; }", "act: v may be assigned twice"),
    salu("if (v == 0) { v = 1; v = 2; }", "act: v may be assigned twice"),
    # indexes
    salu("v = 1;", call="act.execute(7)"),
    salu("v = 1;", call="act.execute(md.wide[7:0])"),
    salu("v = 1;", call="act.execute(md.a[3:0] ++ md.b[3:0])"),
    salu("v = 1;", "the index is too complex: (md.b + 1) is computed", call="act.execute(md.b + 1)"),
    salu("v = 1;", "the index is too complex: (md.a ^ md.b) is computed", call="act.execute(md.a ^ md.b)"),
    two_indexes("md.b", "md.b"),
    two_indexes("p", "3"),
    two_indexes("md.b", "md.c", "table t indexes register r by md.b and by md.c"),
    two_indexes("md.b", "3", "table t indexes register r by md.b and by action data"),
    # widths of registers
    register("bit<1>"),
    register("bit<24>", refused="register r has 24 bits; choose from (1, 8, 16, 32,"),
    register("bit<64>"),
    register("bit<64>", method="v = v + 1;", refused="v has 64 bits; tofino computes", chips=(TOFINO,)),
    register("bit<64>", method="v = v + 1;", chips=(TOFINO2,)),
    register("bit<64>", method="v = v |+| 1;", refused="|+| of 64 bits; it takes up to 32", chips=(TOFINO2,)),
    register("bit<128>", refused="register r has 128 bits; choose from (1, 8, 16, 32, 64)", chips=(TOFINO,)),
    register("bit<128>", chips=(TOFINO2,)),
    register("pair_t"),
    register("pair_t", method="v.low = v.low + 1; v.high = md.long;"),
    register("pair_t", method="v.low = 1; v.low = md.long;", refused="act: v.low may be assigned twice"),
    register("pair_t", method="if (v.low > v.high) { v.low = 1; }", refused="here are 2 values of"),
    register("uneven_t", refused="register r is no struct of one or two fields of one width"),
    register("three_t", refused="register r is no struct of one or two fields of one width"),
    # memory
    register("bit<32>", 47 * 4096),
    register("bit<32>", 47 * 4096 + 1, refused="takes 49 map RAMs, its spare bank included; tofino keeps it",
             chips=(TOFINO,)),
    register("bit<32>", 1 << 20, refused="register IC.r takes 257 map RAMs", chips=(TOFINO,)),
    register("bit<32>", 1 << 20, chips=(TOFINO2,)),
    register("pair_t", 1 << 17, refused="register IC.r takes 65 map RAMs", chips=(TOFINO,)),
    register("bit<32>", 1 << 22, refused="takes 1046 map RAMs, 1046 of them for IC.r",
             chips=(TOFINO2,)),
    memory("a large table", MILLIONS % ("exact", 500_000)),
    memory("two million", MILLIONS % ("exact", 2_000_000),
           "the program takes 977 SRAM blocks, 977 of them for IC.t; tofino has 12 stages of 80",
           chips=(TOFINO,)),
    memory("four million", MILLIONS % ("exact", 4_000_000), "takes 1954 SRAM blocks", chips=(TOFINO2,)),
    memory("many short keys", TABLE % ("t", "md.a", "exact", "NoAction", 2_000_000)),  # 256 are possible
    memory("ternary", MILLIONS % ("ternary", 100_000)),
    memory("too many ternary", MILLIONS % ("ternary", 2_000_000), "takes 3907 TCAM blocks"),
    # stages
    chained(12, 0),
    chained(13, 0, "IC needs 13 stages; tofino has 12", chips=(TOFINO,)),
    chained(20, 0, chips=(TOFINO2,)),
    chained(21, 0, "IC needs 21 stages; tofino2 has 20", chips=(TOFINO2,)),
    chained(11, 4),
    chained(11, 5, "5 stateful ALUs have to lie in stage 12 of tofino, where a stage has 4: those of IC.r0, ",
            chips=(TOFINO,)),
    chained(19, 5, "5 stateful ALUs have to lie in stage 20 of tofino2", chips=(TOFINO2,)),
    chained(10, 8, chips=(TOFINO,)),
    chained(10, 9, "9 stateful ALUs have to lie in stages 11 to 12", chips=(TOFINO,)),
    chained(5, 1, after=6, chips=(TOFINO,)),
    chained(5, 1, "IC needs 13 stages", after=7, chips=(TOFINO,)),
    chained(0, 49, "49 stateful ALUs have to lie in stages 1 to 12", chips=(TOFINO,)),
    chained(0, 80, chips=(TOFINO2,)),
    one_of_two(7, 4),
    one_of_two(7, 5, "register IC.r is accessed in several stages; tofino keeps it in one", chips=(TOFINO,)),
    one_of_two(7, 5, chips=(TOFINO2,)),
    behind(11, MILLIONS % ("exact", 160_000)),
    behind(11, MILLIONS % ("exact", 170_000), "84 SRAM blocks have to lie in stage 12", chips=(TOFINO,)),
    behind(10, MILLIONS % ("exact", 170_000)),
    behind(11, MILLIONS % ("ternary", 12_000)),
    behind(11, MILLIONS % ("ternary", 13_000), "26 TCAM blocks have to lie in stage 12", chips=(TOFINO,)),
    behind(11, "".join(MANY_TABLES % at for at in range(16)), apply=APPLY_16),
    behind(11, "".join(MANY_TABLES % at for at in range(17)), "17 tables have to lie in stage 12",
           apply=f"{APPLY_16} t16.apply();", chips=(TOFINO,)),
    behind(11, TWO_REGISTERS % (90_000, 90_000), apply=BOTH_REGISTERS),
    behind(11, TWO_REGISTERS % (100_000, 100_000), "52 map RAMs have to lie in stage 12",
           apply=BOTH_REGISTERS, chips=(TOFINO,)),
    # range keys
    key("20 bits", "hdr.copy.x", copy="bit<4> pad; bit<20> x;"),
    key("21 bits", "hdr.copy.x", "has 21 bits: 6 nibbles, of at most 5", copy="bit<3> pad; bit<21> x;"),
    key("20 bits in the middle", "hdr.copy.x", "20 bits from bit 2 of a nibble on: 6 nibbles",
        copy="bit<2> pad; bit<20> x; bit<2> more;"),
    key("17 bits in the middle", "hdr.copy.x", copy="bit<5> pad; bit<17> x; bit<2> more;"),
    key("a slice", "md.long[21:2]", "20 bits from bit 2 of a nibble on: 6 nibbles"),
    key("an even slice", "md.long[23:4]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "chip"),
    [pytest.param(case, chip, id=f"{chip.name}: {case.name}") for case in CASES for chip in case.chips],
)
def test_a_chip_takes_what_its_compiler_does(case: Case, chip: Chip) -> None:
    found = problems(parse(STRUCTS + text(**case.parts), "x.p4"), chip)
    if case.refused:
        assert len(found) == 1, found
        assert found[0].startswith("x.p4:")
        assert case.refused in found[0]
    else:
        assert found == []


@pytest.mark.parametrize("chip", BOTH, ids=lambda chip: chip.name)
def test_both_chips_take_the_program(chip: Chip) -> None:
    assert problems(load(PROGRAM, chip=chip), chip) == []


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("if (md.fire == 1)", "if (md.flows > md.was)", "one operand of > must be constant"),
        ("if (md.fire == 1)", "if (md.flows + md.was == 12)", "(md.flows + md.was) is computed"),
        ("if (md.fire == 1)", "if (hdr.bridge.src == 0)", "compares 16 bits beside 4 bytes"),
        ("damp.execute(hdr.bridge.flow)", "damp.execute(hdr.bridge.flow + 1)", "the index is too complex"),
        ("eg.enq_qdepth: range", "eg.enq_qdepth[18:1]: range", ""),
        ("md.sum: range", "hdr.ip.src: range", "32 bits: 8 nibbles"),
        (
            "Register<bit<32>, flow_t>(FLOWS, 0)",
            "Register<bit<32>, flow_t>(1048576, 0)",
            "takes 257 map RAMs",
        ),
        ("default_action = drop(); size = 1024", "default_action = drop(); size = 2000000", "SRAM blocks"),
        ("if (v == 0) { v = md.mark; }", "if (v == 0 && v != 5) { v = md.mark; }", "3 comparisons"),
        # to leave one port's number and join another's with one packet
        ("fewer.execute(md.at)", "fewer.execute(md.was[9:1])", "a table has one way for each register"),
        (
            "more.execute(md.at);",
            "more.execute(md.at); fewer.execute(md.at);",
            "elephants is accessed twice",
        ),
    ],
)
def test_mutations_of_the_program(tmp_path: Path, before: str, after: str, reason: str) -> None:
    program = PROGRAM.read_text(encoding="utf-8")
    assert program.count(before) == 1
    for name in (PROGRAM.name, "wire.h"):
        (tmp_path / name).write_bytes((PROGRAM.parent / name).read_bytes())
    changed = tmp_path / PROGRAM.name
    changed.write_text(program.replace(before, after), encoding="utf-8")
    line = program[: program.index(before)].count("\n") + 1
    found = problems(load(changed))
    if reason:
        assert len(found) == 1, found
        assert reason in found[0]
        assert found[0].startswith(f"ncf.p4:{line}:") or "comparisons" in found[0]
    else:
        assert found == []


@pytest.mark.parametrize("name", CHIPS)
def test_the_command_takes_the_chip(tmp_path: Path, name: str) -> None:
    program = tmp_path / "x.p4"
    (case,) = [one for one in CASES if one.refused.startswith("act has 3 comparisons")]
    program.write_text(text(**case.parts), encoding="utf-8")
    done = ran([sys.executable, "-m", "tests.p4.tna", "--target", name, str(program)])
    assert done.returncode == (2 if name == "tofino" else 0)
    assert ("act has 3 comparisons" in done.stderr) == (name == "tofino")
