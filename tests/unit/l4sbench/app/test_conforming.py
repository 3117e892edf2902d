# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Candidates put into sheets, and the matrix of all cells; nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest
from junitparser import JUnitXml

from l4sbench.app.conforming import Conforming, candidate_of, conforming
from l4sbench.app.prepare import RunOptions
from l4sbench.catalog import Catalog
from l4sbench.cli import main
from l4sbench.errors import InputError
from l4sbench.program import problems
from reports.published.standards import RowOutcome, load_sheet, offered
from reports.published.standards.model import Kind

HEAD = "sheet: s\ndocument: RFC 0\nabout: About.\ntrials: 4\nquick_trials: 2\nrows:\n"
PAIR = "rate: 10mbit, rtt: 10ms, duration: 5s"
CLAIM = "claims: [{measure: ratio_per_flow, at_most: 2, threshold: stated}]"
Make = Callable[..., Conforming]


def row(name: str, matrix: str, more: str = CLAIM, applies: str = "sender") -> str:
    return stated(name, f"matrix: {{{matrix}}}\n{more}", applies)


def stated(name: str, keys: str, applies: str = "queue") -> str:
    """Return a row with other keys in place of matrix and claims."""
    about = f'id: {name}\nsection: "1"\nlevel: MUST\nrequires: It is so.\napplies: {applies}\n'
    return indent(f"{about}{keys}\n", "    ").replace("    id", "  - id", 1)


SENDERS = row("A1", f"{PAIR}, aqm: fifo, flows: {{l4s: {{}}, classic: {{cc: reno}}}}, quick: {{}}") + row(
    "A2",
    f"{PAIR}, flows: {{l4s: {{}}, classic: {{cc: reno}}}}, axes: {{aqm: [fifo, codel]}}",
    CLAIM.replace("at_most", "than: cubic, at_most"),
)
FOUR = row(
    "A3",
    f"{PAIR}, aqm: fifo, topology: dumbbell, flows: {{a: {{}}, b: {{count: 2}}}}",
    f"groups: [a, b]\n{CLAIM}",
)
QUEUES = row("C1", f"{PAIR}, flows: {{l4s: {{cc: prague}}, classic: {{cc: reno}}}}", applies="queue")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(
        stated: str, senders: str = "", queues: str = "", quick: bool = False, **choices: object
    ) -> Conforming:
        file = tmp_path / "s.yml"
        file.write_text(HEAD + stated, encoding="utf-8")
        options = RunOptions(quick=quick, runs=tmp_path / "runs")
        return conforming(load_sheet(str(file)), senders.split(), queues.split(), options, **choices)  # type: ignore[arg-type]

    return build


def cells(found: Conforming) -> list[str]:
    assert found.prepared is not None
    return [cell.slug for cell in found.prepared.matrix.cells]


def test_rows_share_cells_and_have_those_that_they_compare_with(make: Make) -> None:
    found = make(SENDERS + FOUR, "prague cubic")
    assert found.prepared is not None
    assert (found.prepared.matrix.name, found.prepared.matrix.trials.max) == ("s-prague-cubic", 4)
    assert [cell.group_names for cell in found.prepared.matrix.cells].count(("a", "b")) == 2
    assert len(cells(found)) == 6  # fifo and codel with both, and two of A3; A1 and the comparison add none
    by_row = {(case.row.id, case.candidate): case for case in found.cases}
    (alone,) = by_row["A1", "prague"].places
    assert alone.cell in by_row["A2", "prague"].cells
    others = by_row["A2", "prague"].others["cubic"]
    assert [place.values for place in others] == [{"aqm": "fifo"}, {"aqm": "codel"}]
    assert {place.cell for place in others} == {place.cell for place in by_row["A2", "cubic"].places}


def test_a_row_is_a_part_of_the_same_run(make: Make) -> None:
    found = make(SENDERS + FOUR, "prague", rows=["A1"])
    assert found.prepared is not None
    assert [case.row.id for case in found.cases] == ["A1"]
    assert len(found.prepared.matrix.cells) == 1
    assert len(found.prepared.whole.cells) == 5
    with pytest.raises(InputError, match="s has no row A4; choose from A1, A2, A3"):
        make(SENDERS + FOUR, "prague", rows=["A4"])


def test_quick_leaves_out_rows_without_a_variant(make: Make) -> None:
    found = make(SENDERS, "prague", quick=True)
    assert found.left_out == ("A2",)
    assert found.prepared is not None
    assert (found.prepared.matrix.name, found.prepared.matrix.trials.max) == ("s-prague-quick", 2)
    assert len(cells(found)) == 1


def test_what_does_not_apply_has_no_cells(make: Make) -> None:
    found = make(
        SENDERS.replace("applies: sender", "applies: sender\n    l4s_only: true") + QUEUES, "reno", "codel"
    )
    outcomes = {(case.row.id, case.candidate): case.hindrance for case in found.cases}
    assert outcomes["A1", "reno"] == (RowOutcome.NOT_APPLICABLE, "reno does not send ECT(1)")
    assert outcomes["C1", "reno"] == (RowOutcome.NOT_APPLICABLE, "the row is about a queue")
    assert outcomes["C1", "codel"] is None
    assert len(cells(found)) == 1
    assert make(SENDERS, "", "codel").prepared is None


def test_a_candidate_that_a_row_cannot_have_is_not_possible_here(make: Make) -> None:
    found = make(
        row("A1", f"{PAIR}, aqm: fifo, flows: {{l4s: {{}}}}, axes: {{l4s.ecn: ['off']}}"), "prague cubic"
    )
    hindrances = [case.hindrance for case in found.cases]
    assert hindrances[0] is not None
    assert hindrances[0][0] is RowOutcome.NOT_POSSIBLE
    assert hindrances[0][1].startswith("l4s.ecn: prague does not support ECN mode off")
    assert hindrances[1] is None


def test_cells_that_cannot_run_do_not_end_the_others(make: Make) -> None:
    clash = row(
        "A1", f"{PAIR.replace('5s', '2500ms')}, aqm: fifo, traffic.tool: iperf3, flows: {{l4s: {{}}}}"
    )
    found = make(clash + FOUR, "prague")
    hindrances = {case.row.id: case.hindrance for case in found.cases}
    assert hindrances["A1"] is not None
    assert hindrances["A1"][0] is RowOutcome.NOT_POSSIBLE
    assert "iperf3 runs for whole seconds" in hindrances["A1"][1]
    assert hindrances["A3"] is None


def test_a_row_of_settings_is_decided_by_the_catalog(make: Make) -> None:
    found = make(
        stated("C6", "settings: {the target: [target], the coupling: [coupling_factor, coupling]}"),
        queues="dualpi2 codel",
    )
    assert found.prepared is None
    assert [(one.outcome, one.reason) for one in found.judged(None).verdicts] == [
        (RowOutcome.PASS, "target sets the target; coupling_factor sets the coupling"),
        (RowOutcome.FAIL, "no parameter sets the coupling"),
    ]
    with pytest.raises(InputError, match="`settings` is for rows of a queue"):
        make(stated("C6", "settings: {the target: [target]}", "sender"))


def test_a_row_of_statistics_is_decided_by_the_catalog(make: Make) -> None:
    found = make(
        stated("C7", "statistics: {the delay: [delay, delay-c], L4S packets: [pkts-in-l]}"),
        queues="dualpi2 pie fifo fifo-ecn fifo-ecn:form=literal",
    )
    assert found.prepared is None
    assert [(one.outcome, one.reason) for one in found.judged(None).verdicts] == [
        (RowOutcome.PASS, "delay-c has the delay; pkts-in-l has L4S packets"),
        (RowOutcome.FAIL, "no statistic has L4S packets"),
        (RowOutcome.NOT_POSSIBLE, "the catalog does not state the statistics of fifo"),
        *[(RowOutcome.FAIL, "no statistic has the delay and L4S packets")] * 2,
    ]
    with pytest.raises(InputError, match="`statistics` is for rows of a queue"):
        make(stated("C7", "statistics: {the delay: [delay]}", "sender"))
    with pytest.raises(InputError, match="`settings` is for rows without matrix, claims and controls"):
        make(stated("C7", "statistics: {the delay: [delay]}\nsettings: {it: [target]}"))


def test_queues_of_one_kind_share_statistics(make: Make) -> None:
    dropped = stated("C7", "statistics: {dropped at the limit: [drop_overlimit]}")
    for queue, outcome in (
        ("fq-codel-l4s", RowOutcome.PASS),
        ("fifo-ecn", RowOutcome.PASS),
        ("fifo-ecn:form=literal", RowOutcome.FAIL),
    ):
        assert make(dropped, queues=queue).judged(None).verdicts[0].outcome is outcome


def test_controls_take_the_place_of_candidates(make: Make) -> None:
    control = f"{CLAIM}\ncontrols: [{{candidate: bbr1, because: it starves others}}]"
    found = make(SENDERS + row("A4", f"{PAIR}, aqm: fifo, flows: {{l4s: {{}}}}", control), controls=True)
    assert [(case.row.id, case.candidate) for case in found.cases] == [("A4", "bbr1")]
    with pytest.raises(InputError, match="s has no negative controls"):
        make(SENDERS, controls=True)
    with pytest.raises(InputError, match="there is no candidate"):
        make(SENDERS)


def test_candidates_have_parameters() -> None:
    catalog = Catalog.load()
    found = candidate_of("dualpi2:min_qlen_step=2p:target=10ms", Kind.QUEUE, catalog)
    assert found.factors == {"aqm": "dualpi2", "aqm.min_qlen_step": "2p", "aqm.target": "10ms"}
    assert candidate_of("fq_codel", Kind.QUEUE, catalog).factors == {"aqm": "fq-codel"}
    assert candidate_of("cubic:ecn=classic", Kind.SENDER, catalog).factors == {
        "cc": "cubic",
        "ecn": "classic",
    }
    for text, message in (
        ("prage", "did you mean prague"),
        ("prague:falback=on", "did you mean fallback"),
        ("prague:fallback", "'fallback' is not a valid PARAMETER=VALUE"),
        ("prague:fallback=[on]", "is not a valid value of fallback"),
    ):
        with pytest.raises(InputError, match=message):
            candidate_of(text, Kind.SENDER, catalog)


def test_a_wrong_value_of_a_candidate_is_bad_input_whatever_the_row(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, text, message in (
        ("--cc", "prague:fallback=maybe", 'fallback: expected one of off, on, detect, not "maybe"'),
        ("--cc", "prague:rtt_target=10", "but 10 has no unit; did you mean 10ms?"),
        ("--cc", "prague:ecn=off", "prague does not support ECN mode off; choose from accecn"),
        ("--aqm", "dualpi2:step_thresh=1", "but 1 has no unit; did you mean 1ms?"),
    ):
        assert main(["conform", "rfc9331", option, text, "--row", "A7"]) == 2
        found = capsys.readouterr()
        assert (found.out, text in found.err, message in found.err) == ("", True, True)
    mine = tmp_path / "mine.yml"
    mine.write_text("candidate: mine\nflow: {send: paced, rate: 10}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yml: rate: expected a rate such as 100mbit, but 10 has no"):
        make(SENDERS, str(mine))


def test_a_sender_of_one_s_own_is_a_file(make: Make, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yml"
    mine.write_text("candidate: mine\nflow: {send: paced, rate: 1mbit, codepoint: ect1}\n", encoding="utf-8")
    found = make(SENDERS, str(mine))
    assert [case.candidate for case in found.cases] == ["mine", "mine"]
    assert cells(found)[0].startswith("fifo_1bdp_10mbit_10ms_reno_paced")


def test_a_file_may_name_what_the_catalog_has(make: Make, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yml"
    mine.write_text("candidate: mine\nflow: {cc: prague, initial_window: 10p}\n", encoding="utf-8")
    only_l4s = SENDERS.replace("applies: sender", "applies: sender\n    l4s_only: true")
    assert [case.hindrance for case in make(only_l4s, str(mine)).cases] == [None, None]
    mine.write_text("candidate: mine\nflow: {cc: cubic}\n", encoding="utf-8")
    assert all(case.hindrance is not None for case in make(only_l4s, str(mine)).cases)
    mine.write_text("candidate: mine\nflow: {send: quinn, cc: cubic}\n", encoding="utf-8")
    quinn = make(SENDERS, str(mine))  # measured by its packets
    assert quinn.prepared is not None
    assert [case.hindrance for case in quinn.cases] == [None, None]
    own = {place.cell for case in quinn.cases for place in case.places}
    assert {cell.capture for cell in quinn.prepared.matrix.cells if cell.id in own} == {"headers"}


@pytest.mark.parametrize("name", offered())
@pytest.mark.parametrize("quick", [False, True])
def test_every_row_of_a_sheet_has_cells(name: str, quick: bool, tmp_path: Path) -> None:
    sheet = load_sheet(name)
    options = RunOptions(quick=quick, runs=tmp_path)
    found = conforming(sheet, ["prague"], ["dualpi2"], options)
    measured = {case.row.id for case in found.cases if case.cells}
    assert measured == {row.id for row in sheet.measured} - set(found.left_out)
    if any(row.controls for row in sheet.rows):
        assert all(case.cells for case in conforming(sheet, [], [], options, controls=True).cases)


def test_sheets_are_for_every_sender_and_queue(tmp_path: Path) -> None:
    catalog = Catalog.load([])
    options = RunOptions(quick=True, runs=tmp_path)
    for name, senders, queues in (
        ("rfc9331", list(catalog.congestion_controls), []),
        ("rfc9332", [], list(catalog.queues)),
    ):
        found = conforming(load_sheet(name), senders, queues, options)
        assert found.prepared is not None
        assert {case.candidate for case in found.cases if case.cells} == {*senders, *queues}
        assert [one for cell in found.prepared.matrix.cells for one in problems(cell, catalog)] == []


def test_bad_input_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (["rfc9331"], "there is no candidate"),
        (["rfc9933", "--cc", "prague"], "no sheet is called rfc9933"),
        (["rfc9331", "--cc", "prague", "--row", "Z9"], "rfc9331 has no row Z9"),
        (["rfc9331", "--cc", "prague", "--controls"], "--controls takes the candidates of the sheet"),
    ):
        assert main(["conform", *words]) == 2
        assert message in capsys.readouterr().err


def test_junit_xml_is_written_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit = tmp_path / "of" / "j.xml"
    words = ["conform", "rfc9331", "--aqm", "dualpi2", "--row", "B5", "--dir", str(tmp_path / "runs")]
    assert main([*words, "--junit", str(junit)]) == 1
    assert JUnitXml.fromstring(junit.read_bytes()).failures == 1
    assert "JUnit XML: " in capsys.readouterr().err


def test_a_candidate_that_no_row_is_about_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conform", "rfc9332", "--cc", "prague", "--dir", str(tmp_path)]) == 0
    assert (
        "warning: no row applies to prague (the row is about a queue); they are about queues (--aqm)"
        in capsys.readouterr().err
    )
    words = ["conform", "rfc9331", "--aqm", "dualpi2", "--row", "B5", "--dir", str(tmp_path)]
    assert main(words) == 1
    assert "no row applies" not in capsys.readouterr().err
