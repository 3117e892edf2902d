# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Senders from their folders to cells, programs, verdicts and the copies in a run directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from l4sbench.app.finding import load_matrix
from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.app.rules import find_rule
from l4sbench.catalog import Catalog
from l4sbench.catalog.outside import entries_with_code, keep_catalog
from l4sbench.disk import assets
from l4sbench.errors import InputError
from l4sbench.facts.cell import Cell
from l4sbench.facts.traits import Identity, TestbedTraits
from l4sbench.matrix import Matrix
from l4sbench.planning.inputs import TrialInputs
from l4sbench.program import problems, programs
from l4sbench.program.trial import draw_conditions
from l4sbench.topology import topology
from tests.stacks import own_sender

LAB = TestbedTraits(default_traffic="lean", wires=True)
MATRIX = """\
matrix: m
rate: 10mbit
rtt: 20ms
duration: 10s
trials: 1
aqm: codel
capture: headers
flows:
  l4s: {send: quinn, cc: bbr}
  classic: {cc: cubic}
"""
SCALABLE = '{scalable: {label: scalable, about: "It halves by alpha.", reacts: [ect1]}}'


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "XDG_STATE_HOME"))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The folder of a sender of the user's own."""
    files = {"mine.c": "int main(void) { return 0; }\n"}
    return own_sender(tmp_path, files, codepoints="[ect1, ect0]", ccs=SCALABLE)


def write(folder: Path, **changes: str) -> Path:
    text = MATRIX
    for old, new in changes.items():
        text = text.replace(f"{old}:", f"{new}:" if new else "#", 1)
    path = folder / "m.yaml"
    path.write_text(text)
    return path


def with_sender(folder: Path, send: str) -> Path:
    path = folder / "m.yaml"
    path.write_text(MATRIX.replace("send: quinn, cc: bbr", f"send: {send}"))
    return path


def test_every_sender_that_ships_is_complete() -> None:
    senders = Catalog.load().senders
    folders = sorted(path.name for path in assets.folder("senders").iterdir())
    assert list(senders) == folders
    for sender in senders.values():
        files = sender.code.files
        locks = {"cargo": "Cargo.lock", "go": "go.sum", "cc": "sender.yml"}
        assert locks[sender.stated.build] in files
        programs = [name for name in files if name.endswith((".rs", ".go", ".c"))]
        # those that are in no registry have the algorithm, feedback and pacing as well; s2n-quic has Prague
        most = {"scream": 950, "udp-prague": 450, "s2n-quic": 680}.get(sender.name, 330)
        assert sum(files[name].count(b"\n") for name in programs) < most
        assert not sender.is_outside


def test_a_cell_names_the_congestion_control_with_its_sender(tmp_path: Path) -> None:
    (cell,) = Matrix.load(write(tmp_path)).cells
    assert cell.get("l4s.send") == "quinn"
    assert cell.get("l4s.cc") == "quinn-bbr"
    assert cell.get("l4s.codepoint") == "ect0"
    assert cell.id == "codel_1bdp_10mbit_20ms_cubic_quinn-bbr-2595dc3b53"
    assert Cell.from_json(cell.to_json()) == cell


def test_codepoints_of_a_congestion_control_go_before_those_of_its_sender(tmp_path: Path) -> None:
    (prague,) = Matrix.load(with_sender(tmp_path, "s2n-quic, cc: prague")).cells
    (cubic,) = Matrix.load(with_sender(tmp_path, "s2n-quic, cc: cubic")).cells
    assert (prague.get("l4s.codepoint"), cubic.get("l4s.codepoint")) == ("ect1", "ect0")
    sender = Catalog.load().sender("s2n-quic")
    assert {name: one.l4s for name, one in sender.controls.items()} == {
        "s2n-quic-cubic": False,
        "s2n-quic-bbr": False,
        "s2n-quic-prague": True,
    }
    wrong = with_sender(tmp_path, "s2n-quic, cc: prague, codepoint: ect0")
    with pytest.raises(InputError, match="s2n-quic with prague does not offer ect0; choose from ect1"):
        Matrix.load(wrong)


def test_a_full_name_and_a_default_are_the_same_cell(tmp_path: Path) -> None:
    (short,) = Matrix.load(with_sender(tmp_path, "quinn, cc: cubic")).cells
    (full,) = Matrix.load(with_sender(tmp_path, "quinn, cc: quinn-cubic")).cells
    (default,) = Matrix.load(with_sender(tmp_path, "quinn")).cells
    assert short.identity == full.identity == default.identity
    assert short.get("l4s.cc") == "quinn-cubic"


def test_commands_follow_the_contract(tmp_path: Path) -> None:
    matrix = Matrix.load(write(tmp_path))
    (cell,) = matrix.cells
    assert problems(cell, matrix.catalog) == ()
    of_nodes = programs(cell, topology("line6"), matrix.catalog, draw_conditions(cell, 7, LAB))
    handle = matrix.catalog.sender("quinn").program.handle
    (run,) = (run for node in of_nodes.values() for run in node.flows if run.flow == "l4s-0")
    (server,) = (one for node in of_nodes.values() for one in node.servers if one.id == "l4s-0")
    assert " ".join(run.argv) == (
        f"%exec/{handle} send --address 10.0.5.100 --port 5001 --seconds {run.seconds:g} "
        "--cc bbr --codepoint ect0 --json %folder/flow-l4s-0.sender.json "
        "--qlog %folder/flow-l4s-0.sender.sqlog"
    )
    assert " ".join(server.argv) == (
        f"%exec/{handle} receive --address 10.0.5.100 --port 5001 --json %folder/flow-l4s-0.receiver.json"
    )
    assert run.cc == run.ecn == ""


def test_only_senders_that_write_a_qlog_are_asked_for_one(tmp_path: Path) -> None:
    matrix = Matrix.load(with_sender(tmp_path, "pion"))
    (cell,) = matrix.cells
    of_nodes = programs(cell, topology("line6"), matrix.catalog, draw_conditions(cell, 7, LAB))
    (run,) = (run for node in of_nodes.values() for run in node.flows if run.flow == "l4s-0")
    assert run.argv[-2:] == ("--json", "%folder/flow-l4s-0.sender.json")


def test_packets_must_be_kept(tmp_path: Path) -> None:
    matrix = Matrix.load(write(tmp_path, capture=""))
    (problem,) = problems(matrix.cells[0], matrix.catalog)
    assert problem.message == "a sender is measured by packets, and this cell keeps none"


def test_rules_compare_senders_with_bulk(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(f"{path.read_text()}baselines: solo\n")
    matrix = load_matrix(path)
    rule = find_rule(matrix)
    assert rule is not None
    assert (rule.l4s, rule.classic) == ("l4s", "classic")
    alone = {cell.group_names for cell in matrix.cells if len(cell.group_names) == 1}
    assert alone == {("l4s",), ("classic",)}  # baselines, from which harm is computed


def test_sources_are_among_a_trial_s_inputs(tmp_path: Path, own: Path) -> None:
    path = with_sender(tmp_path, "./mine")

    def inputs() -> tuple[str, str]:
        matrix = Matrix.load(path)
        identity = Identity(testbed="virtual", kernel_release="7.3")
        (digest,) = TrialInputs(matrix.catalog, 1, identity, LAB).digests(matrix.cells[0], [1])
        return matrix.cells[0].id, digest

    before = inputs()
    (own / "mine.c").write_text("int main(void) { return 1; }\n")
    (own / ".hidden").write_text("no part of it")
    after = inputs()
    assert after[0] == before[0]
    assert after[1] != before[1]
    (own / ".hidden").write_text("still not")
    assert inputs() == after


def test_a_folder_of_one_s_own_needs_consent(tmp_path: Path, own: Path) -> None:
    path = with_sender(tmp_path, "./mine")
    options = RunOptions(runs=tmp_path / "runs")
    (problem,) = prepare(path, [], options).settled.untrusted
    assert str(problem) == (
        f"{own}/sender.yml: mine: carries code that was not trusted yet: mine.c, sender.yml; "
        f"look at {own}, then run with --trust (l4sbench docs security)"
    )
    trusting = RunOptions(runs=tmp_path / "runs", trust=True)
    trusted = prepare(path, [], trusting).matrix.catalog.sender("mine")
    assert trusted.folder.is_relative_to(tmp_path / "XDG_STATE_HOME")
    assert prepare(path, [], options).settled.untrusted == ()
    (own / "mine.c").write_text("int main(void) { return 1; }\n")
    assert len(prepare(path, [], options).settled.untrusted) == 1


def test_a_run_directory_keeps_the_folder(tmp_path: Path, own: Path) -> None:
    path = with_sender(tmp_path, "./mine")
    matrix = Matrix.load(path)
    run = tmp_path / "run"
    run.mkdir()
    keep_catalog(run, matrix.catalog)
    (run / "matrix.yaml").write_text(path.read_text())
    (run / "manifest.json").write_text("{}")
    shutil.rmtree(own)
    again = load_matrix(run / "matrix.yaml")
    assert again.catalog.sender("mine").digest == matrix.catalog.sender("mine").digest
    assert [cell.id for cell in again.cells] == [cell.id for cell in matrix.cells]
    files = [file.relative_to(run).as_posix() for file in run.rglob("*") if file.is_file()]
    assert entries_with_code(files) == ("mine",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other", "folder other has the sender mine; both need the same name; choose another name"),
        ("nowhere", "nowhere/sender.yml"),
    ],
)
def test_a_folder_must_have_its_sender(tmp_path: Path, own: Path, name: str, message: str) -> None:
    if name == "other":
        own.rename(tmp_path / name)
    with pytest.raises(InputError) as raised:
        Matrix.load(with_sender(tmp_path, f"./{name}"))
    assert message in str(raised.value)


def test_links_in_a_folder_are_refused(tmp_path: Path, own: Path) -> None:
    (own / "passwd.c").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="is a link, and code from outside must not have any"):
        prepare(with_sender(tmp_path, "./mine"), [], RunOptions(runs=tmp_path / "runs"))


def test_an_l4s_sender_counts_as_one(own: Path) -> None:
    (control,) = Catalog.load([own]).sender("mine").controls.values()
    assert (control.name, control.own, control.label, control.l4s) == (
        "mine-scalable",
        "scalable",
        "Mine scalable",
        True,
    )
