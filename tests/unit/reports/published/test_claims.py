# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Claims asked of runs that never were: two flows each of three schemes, and what they got."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectors.assemble import collect
from l4sbench.app.api import load_matrix
from l4sbench.catalog import Catalog
from l4sbench.cli import main
from l4sbench.errors import InputError
from l4sbench.facts.factors import column_of
from l4sbench.store import Run
from reports.published.claims import ClaimOutcome, as_document, check, load_study, markdown, measures, offered
from reports.published.claims.model import Claim, Study
from reports.result.load import RunTables, load
from tests.captured import captured_trial
from tests.unit.reports.conftest import write
from tools.measured import rows

Values = Mapping[tuple[str, float], Sequence[float]]
"""Scheme and RTT (ms) -> the measure in every trial."""
MakeRun = Callable[..., RunTables]

LENGTHS: Values = {("rtt", 5.0): [1500, 1400], ("linear", 5.0): [300, 310], ("log", 5.0): [290, 320]}


@pytest.fixture
def run(tmp_path: Path) -> MakeRun:
    def build(
        lengths: Values = LENGTHS,
        goodputs: Sequence[float] = (3.0, 1.0),
        again: Mapping[str, int] | None = None,
        invalid: Sequence[str] = (),
    ) -> RunTables:
        trials: list[dict[str, Any]] = []
        flows: list[dict[str, Any]] = []
        packets: list[dict[str, Any]] = []
        for (scheme, rtt_ms), values in lengths.items():
            for trial, length in enumerate(values, start=1):
                key = {"cell": f"{scheme}-{rtt_ms}", "trial": trial}
                status = "invalid" if scheme in invalid else "ok"
                factors = {"l4s.segsize": scheme, "rtt_ms": rtt_ms, "rate_mbps": 10.0, "l4s.count": 2}
                about = {"status": status, "seed": "1", "inputs": "i", "folder": f"{trial}-i"}
                trials.append(key | factors | about)
                for index, goodput in enumerate(goodputs if status == "ok" else ()):
                    flow = key | {"flow": f"l4s-{index}", "group": "l4s"}
                    flows.append(
                        flow | {"cc": "x", "sender": "a", "receiver": "b", "goodput_mbps": float(goodput)}
                    )
                    counts = {"data_packets": 1000, "ack_packets": 500, "lost_packets": 0, "ce_packets": 20}
                    lost = {"retransmits_packets": (again or {}).get(scheme, 0), "sojourn_samples": 1000}
                    packets.append(
                        flow | counts | lost | {"seconds": 60.0, "length_mean_bytes": float(length)}
                    )
        folder = tmp_path / "tables"
        write(folder, "trials", trials)
        write(folder, "flows", flows)
        write(folder, "packet_flows", packets)
        return load(tmp_path)

    return build


def study(**claim: Any) -> Study:
    asked = {"name": "c", "says": "it is so", "measure": "length_mean_bytes"} | claim
    return Study(
        study="s",
        about="",
        source="",
        factor="l4s.segsize",
        schemes=("rtt", "fixed", "linear", "log"),
        settings=("rtt_ms",),
        claims=(Claim.model_validate(asked),),
        shown=({"measure": "length_mean_bytes"},),
    )


@pytest.mark.parametrize(
    ("claim", "outcome", "holds"),
    [
        ({"of": ["rtt"], "at_least": 1400}, ClaimOutcome.SEEN, 2),
        ({"of": ["rtt"], "at_least": 1450}, ClaimOutcome.MIXED, 1),
        ({"of": ["rtt"], "at_most": 1399}, ClaimOutcome.NOT_SEEN, 0),
        ({"of": ["linear", "log"], "than": "rtt", "at_most": 0.25}, ClaimOutcome.SEEN, 2),
        ({"of": ["linear", "log"], "than": "rtt", "at_most": 0.15}, ClaimOutcome.NOT_SEEN, 0),
        ({"of": ["log"], "extreme": "least"}, ClaimOutcome.MIXED, 1),
        ({"of": ["rtt"], "extreme": "greatest"}, ClaimOutcome.SEEN, 2),
        ({"of": ["fixed"], "at_most": 1}, ClaimOutcome.NOT_ASKED, 0),
    ],
)
def test_claims_are_asked_of_every_trial(
    run: MakeRun, claim: Mapping[str, Any], outcome: ClaimOutcome, holds: int
) -> None:
    (finding,) = check(run(), study(**claim)).findings
    assert finding.outcome == outcome
    assert finding.settings[0].holds == holds


def test_the_least_of_all_schemes_needs_the_others(run: MakeRun) -> None:
    """Of two schemes the second has one valid trial; alone, any scheme would be the least."""
    lengths: Values = {("log", 5.0): [290, 320], ("rtt", 5.0): [1500]}
    (setting,) = check(run(lengths), study(of=["log"], extreme="least")).findings[0].settings
    assert (setting.holds, setting.trials) == (1, 1)
    (finding,) = check(run({("log", 5.0): [290, 320]}), study(of=["log"], extreme="least")).findings
    assert finding.outcome == ClaimOutcome.NOT_ASKED


def test_a_claim_is_about_its_cells_only(run: MakeRun) -> None:
    lengths: Values = {**LENGTHS, ("rtt", 80.0): [100, 100]}
    (finding,) = check(run(lengths), study(of=["rtt"], at_least=1400, where={"rtt": "5ms"})).findings
    assert [s.setting for s in finding.settings] == [{"rtt_ms": 5.0}]
    assert finding.outcome == ClaimOutcome.SEEN
    (everywhere,) = check(run(lengths), study(of=["rtt"], at_least=1400)).findings
    assert [(s.setting["rtt_ms"], s.outcome) for s in everywhere.settings] == [
        (5.0, ClaimOutcome.SEEN),
        (80.0, ClaimOutcome.NOT_SEEN),
    ]
    assert everywhere.outcome == ClaimOutcome.MIXED


def test_nothing_over_nothing_is_no_ratio(run: MakeRun) -> None:
    claim = {"measure": "retransmits_percent", "of": ["log"], "than": "rtt", "at_most": 0.05}
    assert check(run(), study(**claim)).findings[0].outcome == ClaimOutcome.NOT_ASKED
    assert check(run(again={"rtt": 30}), study(**claim)).findings[0].outcome == ClaimOutcome.SEEN
    assert check(run(again={"log": 1}), study(**claim)).findings[0].outcome == ClaimOutcome.NOT_SEEN


def test_a_goodput_that_is_not_known_is_not_zero(run: MakeRun) -> None:
    """A flow with few bytes was over before the warm-up was."""
    tables = run()
    flows = [
        row | {"goodput_mbps": None if row["flow"] == "l4s-1" else 3.0} for row in tables.flows.to_dicts()
    ]
    write(tables.folder, "flows", flows)
    tables = RunTables(tables.folder)
    names = ["goodput_mbps", "normalised_goodput", "jain", "jain_all", "utilisation_percent"]
    assert set(measures(tables).select(names).row(0)) == {None}
    write(tables.folder, "flows", [*flows[::2], *(row | {"send": "flent"} for row in flows[1::2])])
    row = measures(RunTables(tables.folder)).row(0, named=True)
    assert (row["goodput_mbps"], row["jain"], row["utilisation_percent"]) == (3, 1, 30)


def test_only_tcp_sends_again_as_it_counts(run: MakeRun) -> None:
    """Paced flows, and many connections, have no such count, though receivers of the former count packets."""
    tables = run()
    counts = {"l4s": (10, 1000), "paced": (None, 3000), "mice": (None, None)}
    flows = [
        row
        | {"group": group, "flow": f"{group}-0", "send": "bulk" if group == "l4s" else "paced"}
        | {"retransmits_packets": again, "delivered_packets": delivered}
        for row in tables.flows.filter(flow="l4s-0").to_dicts()
        for group, (again, delivered) in counts.items()
    ]
    write(tables.folder, "flows", flows)
    tables = RunTables(tables.folder)
    names = ["tcp_retransmits_packets", "tcp_retransmits_percent"]
    found = {group: measures(tables, group).select(names).row(0) for group in (*counts, "all")}
    assert found == {"l4s": (10, 1), "paced": (None, None), "mice": (None, None), "all": (10, 1)}


def test_nothing_of_nothing_has_no_number(run: MakeRun) -> None:
    tables = run(goodputs=(0.0, 0.0))
    other = {"group": "classic", "flow": "classic-0", "retransmits_packets": 0, "delivered_packets": 0}
    flows = tables.flows.to_dicts()
    write(tables.folder, "flows", [*flows, *(row | other for row in flows if row["flow"] == "l4s-0")])
    nothing = dict.fromkeys(("data_packets", "ce_packets", "lost_packets", "retransmits_packets"), 0)
    packets = [row | nothing for row in tables.packet_flows.to_dicts()]
    write(tables.folder, "packet_flows", packets)
    tables = RunTables(tables.folder)
    names = ["jain", "jain_all", "ratio_per_flow", "ratio_of_sums"]
    names += ["retransmits_percent", "lost_percent", "marked_percent"]
    assert set(measures(tables).select(names).row(0)) == {None}
    assert measures(tables, "classic")["tcp_retransmits_percent"].to_list() == [None] * 6
    report = check(tables, study(measure="jain", of=["rtt"], at_least=0.5))
    assert report.findings[0].outcome == ClaimOutcome.NOT_ASKED
    assert "| 5 | - | - | - | - | 0 of 0 |" in markdown(report, "l4sbench run s")


def test_a_ratio_to_a_group_that_gets_nothing_is_infinite(run: MakeRun) -> None:
    """So a claim that it is at most something does not hold."""
    tables = run()
    flows = tables.flows.to_dicts()
    other = {"group": "classic", "flow": "classic-0", "goodput_mbps": 0.0}
    write(tables.folder, "flows", [*flows, *(row | other for row in flows if row["flow"] == "l4s-0")])
    report = check(RunTables(tables.folder), study(measure="ratio_per_flow", of=["rtt"], at_most=2))
    assert report.findings[0].outcome == ClaimOutcome.NOT_SEEN
    assert "| infinite |" in markdown(report, "l4sbench run s")


def test_measures_between_flows(run: MakeRun) -> None:
    row = measures(run(again={"rtt": 30})).filter(cell="rtt-5.0").row(0, named=True)
    assert row["flows"] == 2
    assert row["jain"] == pytest.approx(16 / (2 * 10))  # (3 + 1)^2 / (2 (9 + 1))
    assert row["goodput_mbps"] == 4
    assert row["normalised_goodput"] == pytest.approx(2 / 5)  # of two flows on 10 Mbit/s
    assert row["retransmits_packets"] == 60
    assert row["retransmits_percent"] == pytest.approx(3)
    assert (row["lost_percent"], row["marked_percent"]) == (0, pytest.approx(2))
    assert row["throughput_mbps"] is None  # no flow has one


def test_measures_of_a_run_are_a_table_with_intervals(run: MakeRun) -> None:
    head, *lines = rows(run(), ["rtt_ms", "l4s.segsize"], ["l4s"], ["length_mean_bytes", "goodput_mbps"])
    assert head[2:7] == [
        "group",
        "trials",
        "length_mean_bytes",
        "length_mean_bytes_low",
        "length_mean_bytes_high",
    ]
    assert [line[:2] for line in lines] == [["5", "linear"], ["5", "log"], ["5", "rtt"]]
    assert lines[2][2:5] == ["l4s", "2", "1450"]
    assert float(lines[2][6]) == pytest.approx(1450 + 12.71 * 50, rel=1e-3)  # t of one degree of freedom
    assert lines[2][7:] == ["4", "4", "4"]


def test_flows_that_are_left_out_count_in_sums_with_the_mean_of_the_others(run: MakeRun) -> None:
    tables = run(goodputs=(3.0, 1.0, 0.5))
    whole = {"group": "l4s", "srtt_minus_base_ms": 5.0, "retransmits_packets": 1, "delivered_packets": 100}
    out = {"group": "l4s", "srtt_minus_base_ms": 99.0, "retransmits_packets": 50, "delivered_packets": 100}
    flows = [
        row | (out | {"left_out": "ended early"} if row["flow"] == "l4s-2" else whole)
        for row in tables.flows.to_dicts()
    ]
    write(tables.folder, "flows", flows)
    packets = [
        row | {"sojourn_mean_ms": 99.0 if row["flow"] == "l4s-2" else 1.0}
        for row in tables.packet_flows.to_dicts()
    ]
    write(tables.folder, "packet_flows", packets)
    row = measures(RunTables(tables.folder)).filter(cell="rtt-5.0").row(0, named=True)
    assert (row["flows"], row["goodput_mbps"], row["utilisation_percent"]) == (3, 6, pytest.approx(60))
    assert row["normalised_goodput"] == pytest.approx(2 / (10 / 3))
    assert row["jain"] == row["jain_all"] == pytest.approx(16 / (2 * 10))
    assert (row["srtt_minus_base_ms"], row["sojourn_mean_ms"]) == (5, 1)
    assert (row["tcp_retransmits_packets"], row["tcp_retransmits_percent"]) == (2, 1)


def test_all_flows_are_a_group(run: MakeRun) -> None:
    row = measures(run(), "all").filter(cell="rtt-5.0").row(0, named=True)
    assert (row["flows"], row["goodput_mbps"], row["jain"]) == (2, 4, row["jain_all"])
    assert row["ratio_per_flow"] is row["ratio_of_sums"] is None


def test_invalid_trials_do_not_count(run: MakeRun) -> None:
    report = check(run(invalid=["log"]), study(of=["log"], extreme="least"))
    assert report.findings[0].outcome == ClaimOutcome.NOT_ASKED
    assert "log" not in report.shown[0][1].columns


def test_the_report_says_what_was_asked_and_found(run: MakeRun) -> None:
    report = check(run(), study(of=["linear", "log"], than="rtt", at_most=0.25))
    text = markdown(report, "l4sbench run s")
    assert "linear, log: mean packet length, bytes at most 0.25 times that of rtt" in text
    assert "| 2 of 2 | **seen** |" in text
    assert "| 5 | 1450 | 305 | 305 |" in text
    document: Any = as_document(report)
    assert document["claims"][0]["settings"][0] == {
        "rtt_ms": 5.0,
        "values": {"rtt": 1450.0, "linear": 305.0, "log": 305.0},
        "holds": 2,
        "trials": 2,
    }


def test_runs_that_cannot_be_asked(run: MakeRun, tmp_path: Path) -> None:
    tables = run()
    other = study(of=["rtt"], at_least=1).model_copy(update={"settings": ("aqm",)})
    with pytest.raises(InputError, match="aqm"):
        check(tables, other)
    write(tmp_path / "tables", "packet_flows", [])
    with pytest.raises(InputError, match="capture: headers"):
        check(load(tmp_path), study(of=["rtt"], at_least=1))


def test_factors_that_the_run_lacks_are_reported_where_the_file_names_them(
    run: MakeRun, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(
        OWN.replace("l4s.cc", "codel").replace("rate_mbps", "rtt_ms, taste").replace("rate:", "smell:"),
        encoding="utf-8",
    )
    with pytest.raises(InputError) as raised:
        check(run(), load_study(str(path)))
    assert str(raised.value).splitlines() == [
        f"{path}:4:9: factor: the run has no codel; the claims of mine are about it",
        f"{path}:6:20: settings[1]: the run has no taste; the claims of mine are about it",
        f"{path}:8:46: claims[0].where.smell: the run has no smell; the claims of mine are about it",
    ]


def test_several_cells_of_one_setting_are_refused_with_the_factors_that_they_differ_in(
    run: MakeRun, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yml"
    head = (
        "study: mine\nabout: a\nsource: b\nfactor: l4s.segsize\nschemes: [rtt, log]\nsettings: [rate_mbps]\n"
    )
    claim = "name: c, says: s, measure: length_mean_bytes, of: [rtt], at_least: 1400"
    lengths: Values = {**LENGTHS, ("rtt", 80.0): [100, 100]}
    path.write_text(f"{head}claims:\n  - {{{claim}}}\n", encoding="utf-8")
    with pytest.raises(InputError) as raised:
        check(run(lengths), load_study(str(path)))
    assert str(raised.value) == (
        f"{path}:6:11: settings: cells of one setting and scheme differ in rtt_ms, and only one of them can "
        "be judged; add rtt_ms to settings, or choose cells by a filter or by `where` of every claim"
    )
    path.write_text(f"{head}shown:\n  - measure: length_mean_bytes\n", encoding="utf-8")
    with pytest.raises(InputError, match="differ in rtt_ms"):
        check(run(lengths), load_study(str(path)))
    path.write_text(f"{head}claims:\n  - {{{claim}, where: {{rtt: 5ms}}}}\n", encoding="utf-8")
    (finding,) = check(run(lengths), load_study(str(path))).findings
    assert finding.outcome == ClaimOutcome.SEEN


@pytest.mark.parametrize("name", offered())
def test_shipped_studies_are_sound(name: str) -> None:
    study = load_study(name)
    assert study.study == name
    assert study.claims or study.shown


OF_OTHER_MATRICES = {"segsize26-beside": "segsize26-bbr3", "segsize26-order": "segsize26-cubic"}
"""Studies that are asked of the run of a matrix with another name."""


@pytest.mark.parametrize("name", offered())
def test_shipped_studies_name_columns_that_their_matrix_has(name: str) -> None:
    study = load_study(name)
    matrix = load_matrix(OF_OTHER_MATRICES.get(name, name))
    rows = [dict(column_of(*factor) for factor in cell.factors.items()) for cell in matrix.cells]
    assert {study.factor, *study.settings} <= set().union(*rows)
    for claim in study.claims:
        wanted = claim.columns().items()
        assert any(all(row.get(key) in values for key, values in wanted) for row in rows), claim.name


def test_whole_numbers_are_those_of_columns_with_fractions(run: MakeRun) -> None:
    report = check(run(), study(of=["rtt"], at_least=1, where={"rtt_ms": 5}))
    assert [setting.setting for setting in report.findings[0].settings] == [{"rtt_ms": 5.0}]


def test_every_study_has_its_claims() -> None:
    studies = {"anrw24", "anrw24-fig1", "segsize26", "segsize26-cubic", "segsize26-order", "segsize26-flood"}
    studies |= {f"stress25-{name}" for name in ("jitter", "steps", "mixes", "loss", "bbr3")}
    studies |= {"segsize26-bbr3", "segsize26-beside"}
    studies |= {f"ncf26-{name}" for name in ("flood", "requests", "slowstart", "staggered", "rtts")}
    studies |= {"ncf26-parking", "ncf26-workload"}
    assert studies <= set(offered())


def test_an_unknown_study_is_told_which_there_are() -> None:
    with pytest.raises(InputError, match="segsize26"):
        load_study("segsize27")


@pytest.mark.parametrize("kind", ["missing", "a folder", "a loop"])
def test_a_file_of_claims_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine.yml"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a loop":
        path.symlink_to(path)
    with pytest.raises(InputError, match=rf"^{re.escape(str(path))}: cannot be read: "):
        load_study(str(path))


MATRIX = """\
matrix: captured
rate: 1mbit
rtt: 20ms
duration: 3s
capture: headers
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [dualpi2]
  buffer_bdp: [8]
"""
OWN = """\
study: mine
about: a
source: b
factor: l4s.cc
schemes: [prague]
settings: [rate_mbps]
claims:
  - {name: c, says: it is so, where: {rate: 1mbit}, measure: retransmits_packets, of: [prague], at_least: 22}
"""


def test_claims_of_ones_own_are_asked_of_a_real_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The captured trial, in which Prague sent 22 packets again (tests/unit/collectors/test_packets.py)."""
    run = Run.create(tmp_path / "runs", "captured", MATRIX.encode(), 1, {})
    captured_trial("captured-dualpi2").store(run)
    collect(run, Catalog.load())
    own = tmp_path / "mine.yml"
    own.write_text(OWN, encoding="utf-8")
    assert main(["report", str(run.path), "--claims", str(own)]) == 0
    assert "| 1 of 1 | **seen** |" in capsys.readouterr().out
    assert "**seen**" in (run.path / "report" / "claims-mine.md").read_text(encoding="utf-8")
    assert main(["report", str(run.path), "--claims", "nobody"]) == 2
