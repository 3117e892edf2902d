# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The catalog: what is offered, tc lines as published, read-backs of a kernel, strict `module.yml` files.

tests/cases/readback/<queue>.json was captured from Linux 7.3.4 with tc of iproute2 7.2: for each set of
parameters the command that was given and the qdiscs that `tc -s -j qdisc show` showed after it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench import tables
from l4sbench.catalog import Bottleneck, Catalog, Expectation
from l4sbench.catalog.exports import SHARED
from l4sbench.catalog.template import parse_text, render_text, write
from l4sbench.disk.assets import folder
from l4sbench.errors import InputError
from l4sbench.program import Expected, differences
from l4sbench.text.units import Duration, Packets, Rate, Value, parse_quantity

READBACK = Path(__file__).parents[3] / "cases" / "readback"
KERNELS = folder("kernels")
CATALOG = Catalog.load()


def setting(buffer_bdp: float, rate: str = "100mbit", rtt: str = "10ms") -> Bottleneck:
    return Bottleneck(Rate.parse(rate), Duration.parse(rtt), buffer_bdp)


def test_offers_what_the_design_names() -> None:
    queues = (
        "cake codel codel-drop dualpi2 fifo fifo-ecn fq fq-codel fq-codel-l4s fq-pie ncf pie pie-drop red"
    )
    assert " ".join(CATALOG.queues) == queues
    controls = "bbr1 bbr2 bbr2-l4s bbr3 bbr3-ect1 cubic dctcp ncf prague reno"
    assert " ".join(CATALOG.congestion_controls) == controls


@pytest.mark.parametrize(
    ("buffer_bdp", "size_bytes", "packets"),
    [(0.5, 62_500, 42), (1, 125_000, 84), (2, 250_000, 167), (4, 500_000, 334), (8, 1_000_000, 667)],
)
def test_buffers_are_the_published_ones(buffer_bdp: float, size_bytes: int, packets: int) -> None:
    assert setting(buffer_bdp).buffer_bytes == size_bytes
    assert setting(buffer_bdp).buffer_packets == packets
    assert CATALOG.queue("fifo").tc({}, setting(buffer_bdp)) == ("bfifo", "limit", str(size_bytes))
    assert CATALOG.queue("codel").tc({}, setting(buffer_bdp))[:3] == ("codel", "limit", str(packets))


def test_buffers_are_exact_where_floats_are_not() -> None:
    # 0.29 * 100 is 28.999... in binary; the published formula would lose a byte
    assert setting(0.29, "8mbit", "100us").buffer_bytes == 29


@pytest.mark.parametrize(
    ("queue", "params", "line"),
    [
        ("fifo", {}, "bfifo limit 125000"),
        (
            "fifo-ecn",
            {"form": "literal"},
            "fq limit 84 flow_limit 84 orphan_mask 0 ce_threshold 5ms",
        ),
        ("fifo-ecn", {}, "codel limit 84 target 10s interval 20s ce_threshold 5ms"),
        ("codel", {}, "codel limit 84 target 5ms interval 100ms ecn"),
        ("codel-drop", {}, "codel limit 84 target 5ms interval 100ms noecn"),
        ("fq", {"form": "literal"}, "fq limit 84 flow_limit 84 ce_threshold 5ms"),
        ("fq", {}, "fq_codel limit 84 target 10s interval 20s ce_threshold 5ms noecn"),
        ("fq-codel", {}, "fq_codel limit 84 target 5ms interval 100ms ecn"),
        (
            "fq-codel-l4s",
            {},
            (
                "fq_codel limit 84 target 5ms interval 100ms ecn ce_threshold 1ms "
                "ce_threshold_selector 0x01/0x01"
            ),
        ),
        ("cake", {}, "cake diffserv3 triple-isolate rtt 100ms memlimit 125000 no-ack-filter"),
        ("fq-pie", {}, "fq_pie limit 84 target 5ms ecn"),
        ("pie", {}, "pie limit 84 target 5ms ecn"),
        ("pie-drop", {}, "pie limit 84 target 5ms noecn"),
        (
            "red",
            {},
            "red limit 125000 min 3000 max 3001 avpkt 1500 burst 3 probability 1 bandwidth 100mbit ecn",
        ),
        ("dualpi2", {}, "dualpi2 limit 84 target 5ms"),
        ("dualpi2", {"limit": "default"}, "dualpi2 target 5ms"),
        ("dualpi2", {"target": "default", "limit": "100p"}, "dualpi2 limit 100"),
    ],
)
def test_tc_lines(queue: str, params: dict[str, Value], line: str) -> None:
    declared = CATALOG.queue(queue).params
    values = {name: declared[name].parse(raw) for name, raw in params.items()}
    assert " ".join(CATALOG.queue(queue).tc(values, setting(1))) == line


def captured() -> list[Any]:
    return [
        pytest.param(file.stem, case, id=f"{file.stem}: {case['case']}")
        for file in sorted(READBACK.glob("*.json"))
        for case in json.loads(file.read_text())
    ]


def test_every_queue_was_captured() -> None:
    assert {file.stem for file in READBACK.glob("*.json")} == set(CATALOG.queues)


@pytest.mark.parametrize(("name", "case"), captured())
def test_a_kernel_shows_what_is_expected(name: str, case: dict[str, Any]) -> None:
    queue = CATALOG.queue(name)
    values = {key: queue.params[key].parse(raw) for key, raw in case["given"].items()}
    assert " ".join(queue.tc(values, setting(2))) == case["tc"]
    assert shows(name, values, case["shown"]) == ()


@pytest.mark.parametrize(("name", "case"), captured())
def test_a_kernel_that_shows_something_else_is_noticed(name: str, case: dict[str, Any]) -> None:
    """Every stated number, changed on its own, is a difference."""
    queue = CATALOG.queue(name)
    values = {key: queue.params[key].parse(raw) for key, raw in case["given"].items()}
    _, expected = queue.expects(values, setting(2))
    numbers = [item for item in expected if not isinstance(item.value, bool | str)]
    for item in numbers:
        shown = json.loads(json.dumps(case["shown"]))
        shown[-1]["options"][item.key] += 10 * item.within + 3
        assert [item.key in message for message in shows(name, values, shown)] == [True]


def shows(name: str, values: dict[str, Value], shown: object) -> tuple[str, ...]:
    kind, options = CATALOG.queue(name).expects(values, setting(2))
    listed = tuple(Expectation(f"options.{item.key}", item.value, item.within) for item in options)
    return differences(Expected("it", "", (("kind", kind), ("parent", "1:3")), listed), json.dumps(shown))


def test_parameters_apply_by_form() -> None:
    queue = CATALOG.queue("fq")
    assert "flow_limit" in queue.applicable({"form": "literal"})
    assert "flow_limit" not in queue.applicable({})
    assert "flows" in queue.applicable({"form": "robust"})


def test_a_derived_limit_follows_the_limit_that_is_given() -> None:
    args = CATALOG.queue("fq").tc({"form": "literal", "limit": Packets(50)}, setting(1))
    assert args[:5] == ("fq", "limit", "50", "flow_limit", "50")


def test_prague_states_all_parameters_of_its_network_namespace() -> None:
    prague = CATALOG.congestion_control("prague")
    sysctls = dict(prague.role_sysctls("sender", {"rtt_target": Duration.parse("10ms")}))
    assert sysctls["net.ipv4.prague_rtt_target"] == "10000"
    assert sysctls["net.ipv4.prague_burst_shift"] == "12"
    assert next(iter(sysctls)) == "net.ipv4.prague_version"
    assert prague.module_params({}) == ()
    source = (prague.folder / "prague_params.c").read_text()
    every = set(re.findall(r"^\t&prague_(\w+),$", source, re.MULTILINE))
    assert {f"net.ipv4.prague_{name}" for name in every} == set(prague.sysctls["sender"])


BBRS = {"bbr2": "tcp_bbr2", "bbr2-l4s": "tcp_bbr2", "bbr3": "tcp_bbr3", "bbr3-ect1": "tcp_bbr3"}


@pytest.mark.parametrize(("name", "module"), BBRS.items())
def test_bbr_states_the_parameters_and_defaults_of_its_module(name: str, module: str) -> None:
    """Those that an ECN mode sets have no default; what version 3 does not use is left out."""
    cc = CATALOG.congestion_control(name)
    version = module.removeprefix("tcp_")
    gate = {"bbr2": "ecn_enable", "bbr3": "ecn_low"}[version]
    source = (KERNELS / module / "bbr_params.c").read_text()
    every = set(re.findall(r"^\t&bbr_param_(\w+),$", source, re.MULTILINE)) - {"gate"} | {gate}
    left_out = {"bw_probe_pif_gain", "bw_probe_exit"} if version == "bbr3" else set()
    assert set(cc.params) == every - left_out
    assert set(cc.sysctls["sender"]) == {f"net.ipv4.{cc.kernel_name}_{key}" for key in cc.params}
    code = (KERNELS / module / f"{version}.c").read_text()
    shared, *own = re.split(r"BBR\d_COMMON\b", code.partition("struct bbr_kind")[0])[1:]
    stated: dict[str, str] = {}
    for text in (shared, own[1 if name in {"bbr2-l4s", "bbr3-ect1"} else 0]):
        stated |= dict(re.findall(r"\.(\w+) = ([^,\\\n]+)", text))
    values = {"USEC_PER_SEC": "1000000", "2 * USEC_PER_SEC": "2000000", "BBR_EXIT_QUEUE": "0"}
    for key, param in cc.params.items():
        if param.default is not None:
            assert str(param.default) == values.get(stated[key].strip(), stated[key]), key


@pytest.mark.parametrize(
    ("column", "factor", "unit"),
    [
        ("rate_mbps", "rate", "Mbit/s"),
        ("duration_s", "duration", "s"),
        ("buffer_bdp", "buffer_bdp", "BDP"),
        ("path.loss_percent", "path.loss", "%"),
        ("path.loss_burst_packets", "path.loss_burst", "packets"),
        ("events.step.at_s", "events.step.at", "s"),
        ("events.step.rate_mbps", "events.step.rate", "Mbit/s"),
        ("mice.period_ms", "mice.period", "ms"),
        ("l4s.segsize_high_rate_mbps", "l4s.segsize_high_rate", "Mbit/s"),
        ("aqm.target_ms", "aqm.target", "ms"),
        ("aqm.limit_bytes", "aqm.limit", "bytes"),
        ("aqm.limit", "aqm.limit", ""),
        ("aqm.nobodys_ms", "aqm.nobodys_ms", ""),
    ],
)
def test_parameters_say_what_columns_of_trials_hold(column: str, factor: str, unit: str) -> None:
    assert CATALOG.column(column) == (column, factor, unit)


def test_an_entry_may_name_the_module_of_another(tmp_path: Path) -> None:
    text = (KERNELS / "bbr2-l4s" / "module.yml").read_text().replace("name: bbr2-l4s", "name: mine")
    entry(tmp_path / "mine", text)
    catalog = Catalog.load([tmp_path])
    mine, other = catalog.congestion_control("mine"), catalog.congestion_control("bbr2")
    assert mine.module is not None
    assert (mine.module.name, mine.module.source) == ("tcp_bbr2", KERNELS / "tcp_bbr2")
    assert mine.exports is other.exports


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("{from: bbr22}", "no entry bbr22 of the same kind brings a module; did you mean bbr2"),
        ("{from: bbr2-l4s}", "no entry bbr2-l4s of the same kind brings a module"),
        ("{from: codel}", "no entry codel of the same kind brings a module"),
        ("{from: bbr2, name: tcp_bbr2}", "needs either name or from, the entry whose module it is"),
        ("{}", "needs either name or from, the entry whose module it is"),
        ("{from: bbr2, source: true}", "the module's source is beside bbr2, not here"),
    ],
)
def test_modules_of_others_that_are_none(tmp_path: Path, module: str, message: str) -> None:
    text = (KERNELS / "bbr2-l4s" / "module.yml").read_text().replace("name: bbr2-l4s", "name: mine")
    entry(tmp_path / "mine", text.replace("{from: bbr2}", module))
    with pytest.raises(InputError) as error:
        Catalog.load([tmp_path])
    assert message in str(error.value)


def test_an_entry_describes_what_it_exports() -> None:
    prague = CATALOG.exports["tcp_prague"]
    assert prague is CATALOG.congestion_control("prague").exports
    assert (prague.table, prague.counter("rate")) == ("sockets", "prague_rate")
    assert {column.name: column.scale for column in prague.columns}["prague_rate_mbps"] == (8, 1e6)
    heading = re.search(r'"local remote (.*)\\n"', (KERNELS / "tcp_prague" / "prague_net.c").read_text())
    assert heading is not None
    assert {name for column in prague.columns for name in column.counters} <= set(heading[1].split())
    # other entries of the same kind of queue need not repeat it
    assert CATALOG.queue("codel-drop").exports is None
    assert CATALOG.exports["codel"].counter("ldelay") == "ldelay"


def test_columns_that_all_entries_share_are_columns_of_their_tables() -> None:
    for table, names in SHARED.items():
        assert set(names) <= set(tables.SCHEMAS[table].columns())


def exporting(tmp_path: Path, entry: str, exports: str) -> Path:
    mine = tmp_path / "mine"
    mine.mkdir()
    text = (KERNELS / entry / "module.yml").read_text().partition("\nexports:")[0]
    text = text.replace(f"name: {entry}\n", "name: mine\n").replace("name: prague\n", "name: mine\n")
    (mine / "module.yml").write_text(f"{text}\nexports:\n{exports}")
    return mine


@pytest.mark.parametrize(
    ("entry", "exports", "path"),
    [
        ("red", "  columns: {marks_packets: marked}\n", "exports"),
        (
            "red",
            "  of: red\n  statistics: {early: u33}\n  columns: {marks_packets: marked}\n",
            "exports.statistics.early",
        ),
        ("red", "  of: mine\n  columns: {mark_packets: marked}\n", "exports.columns.mark_packets"),
        ("red", "  of: mine\n  columns: {mine_x: x}\n", "exports.columns.mine_x"),
        (
            "red",
            "  of: mine\n  columns: {mine_x_ms: {from: x, unit: B/s, kind: float, doc: X}}\n",
            "exports.columns.mine_x_ms.unit",
        ),
        ("red", "  of: codel\n  columns: {marks_packets: x}\n", "exports"),
        ("cubic", "  of: tcp_cubic\n  columns: {alpha: x}\n", "exports"),
        (
            "red",
            "  of: mine\n  columns: {marks_packets: x}\n  panels: {marks: [marks_packets]}\n",
            "exports.panels",
        ),
        ("cubic", "  columns: {alpha: x}\n  panels: {share: [alpha, alphas]}\n", "exports.panels.share"),
        (
            "cubic",
            "  columns: {alpha: x, mine_m: {from: y, kind: str, doc: Y}}\n  panels: {all: [alpha, mine_m]}\n",
            "exports.panels.all",
        ),
    ],
)
def test_exports_that_make_no_sense(tmp_path: Path, entry: str, exports: str, path: str) -> None:
    with pytest.raises(InputError) as error:
        Catalog.load([exporting(tmp_path, entry, exports)])
    assert [problem.path for problem in error.value.problems] == [path]


def test_lookup_lists_what_is_offered() -> None:
    with pytest.raises(InputError, match="the catalog has no queue codl; did you mean codel"):
        CATALOG.queue("codl")
    with pytest.raises(
        InputError, match=r"l4s\.cc: the catalog has no congestion control prage; did you mean prague"
    ):
        CATALOG.congestion_control("prage", "l4s.cc")


PFIFO = """\
    name: pfifo
    kind: queue
    label: FIFO of packets
    about: One queue limited in packets.
    family: sq-drop
    marks: []
    buffer: limit
    params:
      limit: {kind: packets, from: buffer, doc: Packets it holds}
    tc: [pfifo, [limit, "{limit}"]]
    readback: {limit: "{limit}"}
    """


def entry(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    file = folder / "module.yml"
    file.write_text(dedent(text))
    return file


def test_a_queue_is_added_by_a_folder(tmp_path: Path) -> None:
    entry(tmp_path / "mine" / "pfifo", PFIFO)
    for place in (tmp_path / "mine", tmp_path / "mine" / "pfifo"):
        catalog = Catalog.load([place])
        assert catalog.queue("pfifo").tc({}, setting(1)) == ("pfifo", "limit", "84")
        assert set(catalog.queues) == {*CATALOG.queues, "pfifo"}


def test_an_added_queue_changes_no_other_entry(tmp_path: Path) -> None:
    entry(tmp_path / "pfifo", PFIFO)
    catalog = Catalog.load([tmp_path])
    assert catalog.digest() != CATALOG.digest()
    assert {name: queue.digest for name, queue in catalog.queues.items() if name != "pfifo"} == {
        name: queue.digest for name, queue in CATALOG.queues.items()
    }


def test_a_digest_is_about_what_runs(tmp_path: Path) -> None:
    texts = {
        "base": PFIFO,
        "label": PFIFO.replace("FIFO of packets", "pfifo"),
        "sources": PFIFO.replace("    kind: queue\n", "    kind: queue\n    sources: [RFC 8290]\n"),
        "tc": PFIFO.replace("[pfifo,", "[pfifo_fast,"),
    }
    assert len(set(texts.values())) == len(texts)
    digests = {}
    for name, text in texts.items():
        entry(tmp_path / name / "pfifo", text)
        digests[name] = Catalog.load([tmp_path / name]).queue("pfifo").digest
    assert digests["base"] == digests["label"] == digests["sources"]
    assert digests["base"] != digests["tc"]


def test_a_folder_without_module_yml_is_no_entry(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    assert set(Catalog.load([tmp_path]).queues) == set(CATALOG.queues)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: catalog folder not found"):
        Catalog.load([tmp_path / "nowhere"])


def test_two_entries_of_one_name_are_an_error(tmp_path: Path) -> None:
    entry(tmp_path / "codel2", PFIFO.replace("name: pfifo", "name: codel"))
    with pytest.raises(
        InputError, match=r"codel2/module\.yml:1:1: name: codel is already the name of .*codel/module\.yml"
    ):
        Catalog.load([tmp_path])


def test_a_queue_and_a_congestion_control_may_share_a_name() -> None:
    queue, control = CATALOG.queue("ncf"), CATALOG.congestion_control("ncf")
    assert (queue.module, control.module) != (None, None)
    assert {"queues": queue, "sockets": control} == {
        entry.exports.table: entry for entry in (queue, control) if entry.exports is not None
    }


def test_all_problems_of_all_files_come_at_once(tmp_path: Path) -> None:
    entry(tmp_path / "one", PFIFO.replace("marks: []", "marks: [x]").replace("label:", "lable:"))
    entry(tmp_path / "two", PFIFO.replace("buffer: limit", "buffer: size"))
    with pytest.raises(InputError) as error:
        Catalog.load([tmp_path])
    assert sorted(problem.path for problem in error.value.problems) == [
        "buffer",
        "label",
        "lable",
        "marks[0]",
    ]


@pytest.mark.parametrize(
    ("limit", "tc"),
    [
        ("kind: packets, from: buffer", '[pfifo, limit, "{limit}"]'),
        ("kind: packets", '[pfifo, [limit, "{limit}"]]'),
        (
            "kind: packets, default: 1p, when: {form: a}",
            '[pfifo, {when: {form: a}, args: [limit, "{limit}"]}]',
        ),
    ],
)
def test_arguments_that_always_have_a_value(tmp_path: Path, limit: str, tc: str) -> None:
    text = dedent(PFIFO).replace("kind: packets, from: buffer", limit)
    text = text.replace("params:", "params:\n  form: {kind: str, choices: [a, b], default: a, doc: Form}")
    entry(tmp_path / "pfifo", text.replace('[pfifo, [limit, "{limit}"]]', tc))
    assert Catalog.load([tmp_path]).queue("pfifo").tc({}, setting(1))[0] == "pfifo"


@given(st.integers(0, 2**62))
def test_tc_reads_what_we_write(amount: int) -> None:
    """tc's suffixes are a subset of ours, and no digit is lost."""
    assert parse_quantity("rate", write(Rate(amount))) == Rate(amount)
    assert parse_quantity("duration", write(Duration(amount))) == Duration(amount)
    assert write(Duration(amount)).isascii()
    assert "." not in write(Rate(amount)) + write(Duration(amount))


def test_fields_convert() -> None:
    assert (
        render_text(parse_text("{t.us}:{r.kbit}"), {"t": Duration(1500), "r": Rate(2_500_000)}) == "1.5:2500"
    )
    with pytest.raises(ValueError, match="cannot convert 1bit to us"):
        render_text(parse_text("{r.us}"), {"r": Rate(1)})
