# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The interpreter: what it refuses, what it checks for the chip, how it counts stages, hash, checksum."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.p4.reference import internet_checksum
from tests.p4.tiny import PAIR, REGISTER, text
from tests.p4.tna.limits import problems
from tests.p4.tna.machine import Switch, checksum, crc16
from tests.p4.tna.report import budget
from tests.p4.tna.stages import chain
from tests.p4.tna.syntax import RefusedError, load, parse, preprocess


def refused(**parts: str) -> str:
    with pytest.raises(RefusedError) as caught:
        Switch(parse(text(**parts), "x.p4"))
    return str(caught.value)


def run(**parts: str) -> bytes | None:
    """Return an Ethernet header after the ingress pipe, by port 1."""
    queued = Switch(parse(text(**parts), "x.p4")).ingress(0, 1, bytes(range(14)))
    return None if queued is None else queued.packet


# ---- refusals
LINE = text().splitlines().index("    apply { tm.ucast_egress_port = 2;") + 2
"""The line that `apply` fills."""


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("md.a = 256;", "256 does not fit into 8 bits"),
        ("md.a = 8w256;", "256 does not fit into 8 bits"),
        ("md.a = md.wide;", "bit<16> where bit<8> is needed"),
        ("md.a = md.a + md.wide;", "bit<16> where bit<8> is needed"),
        ("md.yes = md.one;", "bit<1> where bool is needed"),
        ("if (md.one) { md.a = 1; }", "bit<1> where bool is needed"),
        ("md.a = md.wide[8:0];", "bit<9> where bit<8> is needed"),
        ("md.a = md.b[8:1];", "bits [8:1] of bit<8>"),
        ("md.d = 1;", "md_t.d is not a field that is supported"),
        (
            "tm.copy_to_cpu = 1;",
            "ingress_intrinsic_metadata_for_tm_t.copy_to_cpu is not a field that is supported",
        ),
        ("ig.ingress_port = 1;", "ig is read-only here"),
        ("md.a = other;", "other is not declared"),
        ("other();", "other is not an action of this control"),
        ("other.apply();", "other.apply() is not supported"),
        ("hdr.md.setValid();", "this is not a header"),
        ("md.a = (bit<8>) md.wide;", "bit<16> where bit<8> is needed"),
        ("md.a = 1 + 2 * 3;", "'*' is not supported here; expected ';'"),
        ("md.a = md.b << 1;", "<< is not supported here"),
        ("return;", "this statement has no effect"),
        ("bit<8> x = 1;", "'<' is not supported here; expected ';'"),
        ("md.a $ 1;", "'$' is not a part of P4"),
    ],
)
def test_statements_that_are_refused(statement: str, message: str) -> None:
    assert refused(apply=statement) == f"x.p4:{LINE}: {message}"


ONE_KEY = "table t { key = { md.a: %s; } actions = { NoAction; } default_action = NoAction(); size = 1; %s }"


@pytest.mark.parametrize(
    ("local", "message"),
    [
        ("Meter<bit<8>>(256) m;", "extern Meter is not supported"),
        ("Counter<bit<32>, bit<8>>(1) c;", "extern Counter is not supported"),
        (
            "Hash<bit<16>>(HashAlgorithm_t.CRC32) h;",
            "this hash algorithm is not supported; choose HashAlgorithm_t.CRC16",
        ),
        ("Hash<bit<8>>(HashAlgorithm_t.CRC16) h;", "CRC16 has 16 bits"),
        ("@defaultonly action a() { md.a = 1; }", "'@' is not a name"),
        (
            "table t { actions = { NoAction; } default_action = NoAction(); }",
            "table t needs actions, default_action and size",
        ),
        (
            "table t { actions = { NoAction; } default_action = NoAction(); size = 1; idle_timeout = true; }",
            "table property idle_timeout is not supported",
        ),
        (
            ONE_KEY % ("selector", ""),
            "match kind selector is not supported; choose from exact, lpm, range, ternary",
        ),
        (
            ONE_KEY % ("exact", "const entries = { 1 &&& 1: NoAction(); }"),
            "a mask for a key that is exact",
        ),
        (
            ONE_KEY % ("exact", "const entries = { 256: NoAction(); }"),
            "256 does not fit into 8 bits",
        ),
        (
            ONE_KEY % ("exact", "const entries = { 1: NoAction(); 2: NoAction(); }"),
            "2 entries, size 1",
        ),
        ("table t { actions = { lost; } default_action = lost(); size = 1; }", "lost is not an action"),
    ],
)
def test_declarations_that_are_refused(local: str, message: str) -> None:
    line = text().splitlines().index("           inout ingress_intrinsic_metadata_for_tm_t tm) {") + 2
    assert refused(locals=local) == f"x.p4:{line}: {message}"


def test_headers_are_whole_bytes() -> None:
    assert refused(copy="bit<4> half;").endswith("copy_h is not a header of whole bytes")


def test_a_register_holds_its_index() -> None:
    small = REGISTER.replace("256", "16")
    assert refused(locals=small, apply="md.a = add.execute(md.b);").endswith(
        "register r is smaller than its index can be"
    )


def test_places_are_those_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "wire.h").write_text("#define ONE 1\n#define TWO \\\n    2\n", encoding="utf-8")
    program = tmp_path / "x.p4"
    program.write_text(
        '#include <core.p4>\n#include "wire.h"\n\nconst bit<8> A = TWO;\nconst bit<8> B = $;\n'
    )
    with pytest.raises(RefusedError, match=r"^x\.p4:5: '\$' is not a part of P4$"):
        load(program)
    program.write_text("#if 1\nconst bit<8> A = 1;\n")
    with pytest.raises(RefusedError, match=r"^x\.p4: .*unterminated"):
        preprocess(program)


# ---- the chip's limits
TABLE = "table %s { key = { %s: %s; } actions = { %s; } default_action = NoAction(); size = 4; }"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"deparse": "hdr.eth.kind = sum.update({hdr.eth.dst, 16w6});"},
            "a checksum takes no constant but 0",
        ),
        (
            {"locals": TABLE % ("t", "md.long", "range", "NoAction")},
            "range key md.long has 32 bits: 8 nibbles, of at most 5",
        ),
        (
            {"locals": REGISTER, "apply": "md.a = add.execute(md.b); md.c = add.execute(md.b);"},
            "register r: a packet may access it in md.a and in md.c",
        ),
        (
            {
                "locals": REGISTER
                + "action x() { md.a = add.execute(md.b); }\n"
                + TABLE % ("t", "md.a", "exact", "x; NoAction")
                + TABLE % ("u", "md.b", "exact", "x; NoAction"),
                "apply": "t.apply(); u.apply();",
            },
            "register r: a packet may access it in t and in u",
        ),
        (
            {
                "locals": REGISTER + "action x() { md.a = add.execute(md.b); md.c = add.execute(md.b); }",
                "apply": "x();",
            },
            "register r is accessed twice in x",
        ),
        (
            {"locals": "action x() { md.a = md.b |+| md.c; md.c = md.a |+| md.b; }", "apply": "x();"},
            "action x needs a result of its own: two stages",
        ),
        (
            {"locals": "action x(bit<8> p) { md.a = md.b |-| p; }"},
            "the second operand of |-| is action data",
        ),
        (
            {"locals": "action x() { if (md.a == 1) { md.b = 1; } }", "apply": "x();"},
            "action x has a condition",
        ),
        (
            {"locals": "Register<bit<24>, bit<8>>(256, 0) r;"},
            "register r has 24 bits; choose from (1, 8, 16, 32, 64)",
        ),
        (
            {
                "locals": REGISTER
                + "".join("\n".join(REGISTER.splitlines()[2:]).replace("add", f"a{n}") for n in range(4))
            },
            "register r has more than 4 actions",
        ),
        ({"mirror": "Mirror(0) m;"}, "a mirror needs a type other than 0"),
        (
            {
                "copy": "bit<256> much;",
                "mirror": "Mirror(1) m;",
                "emit": "m.emit<copy_h>(1, {md.a, 256w0});",
            },
            "a mirror header has at most 32 bytes, not 33",
        ),
        (
            {"apply": "".join(f"md.{a} = md.{b} + 1;" for a, b in [("a", "b"), ("b", "a")] * 7)},
            "IC needs 14 stages; tofino has 12",
        ),
    ],
)
def test_problems_that_compilers_report_late(parts: dict[str, str], message: str) -> None:
    (problem,) = problems(parse(text(**parts), "x.p4"))
    assert message in problem


def test_one_register_in_two_branches_is_fine() -> None:
    both = "if (md.a == 1) { md.b = add.execute(md.c); } else { md.wide = 1; md.b = add.execute(md.c); }"
    assert problems(parse(text(locals=REGISTER, apply=both), "x.p4")) == []


# ---- chains
def steps(apply: str, local: str = "") -> tuple[str, ...]:
    tree = parse(text(locals=local, apply=apply), "x.p4")
    (block,) = [block for block in tree.blocks if block.name == "IC"]
    return chain(block).steps


@pytest.mark.parametrize(
    ("apply", "longest"),
    [
        ("md.a = 1; md.b = 2;", 1),
        ("md.a = 1; md.b = md.a;", 2),  # reads what was written
        ("md.a = 1; md.a = 2;", 2),  # writes what was written
        ("md.b = md.a; md.a = 2;", 1),  # writes what was read
        ("md.a = 1; if (md.a == 1) { md.b = 1; }", 2),  # tests what was written
        ("if (md.c == 1) { md.a = 1; } else { md.b = md.a; }", 1),  # never both
        ("if (md.c == 1) { md.a = 1; } if (md.c == 2) { md.b = md.a; }", 2),  # two tests may both hold
        ("md.a = 1; md.wide = 1; md.b = md.a; md.long = 3; md.c = md.b;", 3),
        ("hdr.copy.setValid(); if (hdr.copy.isValid()) { md.a = 1; }", 2),
    ],
)
def test_lengths_of_chains(apply: str, longest: int) -> None:
    assert len(steps(apply)) == longest


def test_a_hit_needs_no_stage_and_a_key_does() -> None:
    tables = "action x() { md.b = 1; }\n" + TABLE % ("t", "md.a", "exact", "x; NoAction")
    tables += TABLE % ("u", "md.c", "exact", "NoAction") + TABLE % ("v", "md.b", "exact", "NoAction")
    assert steps("if (t.apply().miss) { u.apply(); }", tables) == (
        "tm.ucast_egress_port",
    )  # one stage for all
    assert steps("if (t.apply().miss) { v.apply(); }", tables) == ("t", "v")


def test_chains_name_their_registers() -> None:
    assert steps("md.b = 1; md.a = add.execute(md.b); md.c = md.a;", REGISTER) == ("md.b", "md.a (r)", "md.c")


def test_memory_of_registers() -> None:
    tree = parse(
        text(locals="Register<bit<32>, bit<16>>(65536, 0) big; Register<bit<8>, bit<1>>(2, 0) tiny;"), "x.p4"
    )
    big, tiny = budget(tree).registers
    assert (big.bytes, big.blocks, tiny.bytes, tiny.blocks) == (256 * 1024, 17, 2, 2)


# ---- meaning
def test_saturation_slices_and_concatenation() -> None:
    made = run(
        apply="md.a = 250; md.b = md.a |+| 10; md.c = md.a |-| 251; md.wide = md.b ++ md.c; "
        "hdr.eth.kind = md.wide; md.long = prsr.global_tstamp[47:16]; if (!(md.b != 255) && md.long == 0) "
        "{ hdr.eth.dst = 0; } else if (md.a == 1) { hdr.eth.src = 1; }"
    )
    assert made == bytes(6) + bytes(range(6, 12)) + b"\xff\x00"


def test_registers_keep_their_values() -> None:
    switch = Switch(
        parse(text(locals=REGISTER, apply="md.a = add.execute(7); hdr.eth.kind = md.a ++ md.b;"), "x.p4")
    )
    seen = [switch.ingress(0, 1, bytes(14)) for _ in range(3)]
    assert [one.packet[12] for one in seen if one is not None] == [1, 2, 3]
    assert switch.registers["IC.r"].values[6:9] == [0, 3, 0]
    switch.registers["IC.r"].clear()
    assert switch.registers["IC.r"].values == [0] * 256


def test_a_pair_is_two_values() -> None:
    local = (
        "Register<pair_t, bit<8>>(256, {5, 7}) r;\n"
        "RegisterAction<pair_t, bit<8>, bit<32>>(r) swap = { void apply(inout pair_t v, out bit<32> o) { "
        "o = v.high; if (v.low == 5) { v.high = v.high + 1; } else { v.low = 5; } } };"
    )
    program = text(locals=local, apply="md.long = swap.execute(3); hdr.eth.kind = md.long[15:0];")
    switch = Switch(parse(PAIR + program, "x.p4"))
    seen = [switch.ingress(0, 1, bytes(14)) for _ in range(3)]
    assert [one.packet[13] for one in seen if one is not None] == [7, 8, 9]
    assert switch.registers["IC.r"].values[2:5] == [5 | 7 << 32, 5 | 10 << 32, 5 | 7 << 32]


def test_tables_match_in_order_of_entries() -> None:
    table = (
        "action put(bit<16> kind) { hdr.eth.kind = kind; }\n"
        "table t { key = { hdr.eth.dst[7:0]: range; hdr.eth.src: ternary; } actions = { put; NoAction; } "
        "default_action = put(9); size = 4; "
        "const entries = { (3 .. 4, _): put(1); (0 .. 9, 6 &&& 6): put(2); (5, default): put(3); } }"
    )
    kinds = []
    switch = Switch(parse(text(locals=table, apply="t.apply();"), "x.p4"))
    for dst, src in ((4, 6), (5, 7), (5, 0), (6, 0)):
        queued = switch.ingress(0, 1, dst.to_bytes(6) + src.to_bytes(6) + b"\0\0payload")
        assert queued is not None
        kinds.append(queued.packet[13])
        assert queued.packet.endswith(b"payload")
    assert kinds == [1, 2, 3, 9]


def test_entries_must_fit_their_table() -> None:
    table = TABLE % ("t", "md.a", "range", "NoAction")
    switch = Switch(parse(text(locals=table), "x.p4"))
    with pytest.raises(RefusedError, match=r"md\.a takes range of 8 bits"):
        switch.tables["IC.t"].add([("range", 0, 256)], "NoAction", [])
    with pytest.raises(RefusedError, match=r"lost is not an action of table IC\.t"):
        switch.tables["IC.t"].add([("range", 0, 1)], "lost", [])
    with pytest.raises(RefusedError, match="wrong number of keys or arguments"):
        switch.tables["IC.t"].add([("range", 0, 1)], "NoAction", [1])
    for _ in range(4):
        switch.tables["IC.t"].add([("range", 0, 1)], "NoAction", [])
    with pytest.raises(RefusedError, match=r"table IC\.t is full: 4 entries"):
        switch.tables["IC.t"].add([("range", 0, 1)], "NoAction", [])


def test_hash_is_crc16_arc() -> None:
    assert crc16(b"123456789") == 0xBB3D  # the check value of the catalogue of CRCs (CRC-16/ARC)


@given(st.binary(max_size=80))
def test_checksum_is_the_internets(data: bytes) -> None:
    even = data + bytes(len(data) % 2)
    assert checksum(even) == internet_checksum(even)
    assert checksum(bytes.fromhex("45000073000040004011c0a80001c0a800c7")) == 0xB861
