# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`send: exec` from a matrix to programs, digests and the guest's script."""

from __future__ import annotations

import platform
import shlex
from pathlib import Path

import pytest

from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.catalog import Catalog
from l4sbench.catalog.outside import keep_catalog, kept_executables
from l4sbench.errors import InputError
from l4sbench.facts.traits import Identity, TestbedTraits
from l4sbench.matrix import Matrix
from l4sbench.planning.inputs import TrialInputs, executables_used, needs
from l4sbench.program import problems, programs
from l4sbench.program.trial import draw_conditions
from l4sbench.testbeds.ssh.trialvars import executable_variables
from l4sbench.testbeds.virtual.script import guest_script
from l4sbench.topology import topology
from tests.unit.l4sbench.elf import program

LAB = TestbedTraits(default_traffic="lean", wires=True)
HOSTS = TestbedTraits(default_traffic="iperf3")
SENDER = "./bin/own send --to {address} --port {port} -t {seconds} --dev {interface} --ecn={ecn} --out={json}"
MATRIX = """\
matrix: m
rate: 10mbit
rtt: 20ms
duration: 10s
trials: 1
rule: none
aqm: codel
capture: headers
flows:
  own: {{send: exec, count: 2, exec_sender: {sender}, {more}}}
  classic: {{cc: cubic}}
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def write(folder: Path, sender: str = SENDER, more: str = "codepoint: ect1", **changes: str) -> Path:
    text = MATRIX.format(sender=f'"{sender}"', more=more)
    for old, new in changes.items():
        text = text.replace(f"{old}:", f"{new}:" if new else "#", 1)
    path = folder / "m.yaml"
    path.write_text(text)
    return path


def made(path: Path, traits: TestbedTraits = LAB) -> dict[str, list[str]]:
    """Return the arguments of every program by its flow and end."""
    matrix = Matrix.load(path)
    (cell,) = matrix.cells
    of_nodes = programs(cell, topology("line6"), matrix.catalog, draw_conditions(cell, 7, traits))
    found: dict[str, list[str]] = {}
    for node in of_nodes.values():
        found |= {f"{run.flow} sender": [*run.argv, run.output] for run in node.flows}
        found |= {f"{server.id} receiver": [*server.argv, server.output] for server in node.servers}
    return found


def test_placeholders_are_filled_in(tmp_path: Path) -> None:
    own = program(tmp_path / "bin" / "own")
    receiver = "./bin/own receive {port} {flow} {index} {codepoint} {json}"
    more = f"codepoint: ect1, exec_receiver: '{receiver}'"
    found = made(write(tmp_path, more=more))
    handle = Matrix.load(tmp_path / "m.yaml").catalog.executable("own").handle
    assert own.name == "own"
    assert shlex.join(found["own-1 sender"]) == shlex.join(
        [
            *(f"%exec/{handle}", "send", "--to", "10.0.5.100", "--port", "5002", "-t", "10"),
            *("--dev", "@net-tx", "--ecn=1", "--out=%folder/flow-own-1.sender.json"),
            "flow-own-1.sender.txt",
        ]
    )
    assert found["own-1 receiver"] == [
        *(f"%exec/{handle}", "receive", "5002", "own-1", "1", "ect1", "%folder/flow-own-1.receiver.json"),
        "flow-own-1.receiver.txt",
    ]
    assert found["classic-0 sender"][0] == "lab-traffic"
    assert made(tmp_path / "m.yaml", HOSTS)["own-1 sender"] == found["own-1 sender"]


def test_the_guest_gets_words_not_shell_text(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "own")
    path = write(tmp_path, sender="./bin/own '$(touch x)' ; {interface} {json}")
    matrix = Matrix.load(path)
    (cell,) = matrix.cells
    shape = topology("line6")
    script = guest_script(programs(cell, shape, matrix.catalog, draw_conditions(cell, 7, LAB)), shape)
    (line,) = (line for line in script.text.splitlines() if "own-0.sender.json" in line)
    handle = matrix.catalog.executable("own").handle
    assert line.split("\t")[5:] == [
        f"/trial/.programs/{handle}",
        *("$(touch x)", ";", "net-tx", "/trial/tx-l4s/flow-own-0.sender.json"),
    ]


def test_a_path_is_relative_to_its_file_and_cells_have_the_name(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "own")
    write(tmp_path)
    below = tmp_path / "below"
    below.mkdir()
    (below / "more.yaml").write_text("matrix: more\nextends: ../m.yaml\n")
    (cell,) = Matrix.load(tmp_path / "m.yaml").cells
    more = Matrix.load(below / "more.yaml")
    assert more.cells[0].id == cell.id
    assert str(cell.factors["own.exec_sender"]).startswith("own send --to {address}")
    assert "_2xown_" in f"{cell.id}_"
    # the source for the run directory states where it is from there
    assert b"../bin/own send" in more.source


@pytest.mark.parametrize(
    ("sender", "more", "change", "message"),
    [
        ("./gone x", "codepoint: ect1", {}, "file ./gone not found; compile it first"),
        ("own x", "codepoint: ect1", {}, "there is no program own; write its path: ./own"),
        ("./bin/own {oops}", "codepoint: ect1", {}, "{{oops}} is not a valid placeholder"),
        ("./script x", "codepoint: ect1", {}, "{folder}/script is a script for /bin/sh"),
    ],
)
def test_matrices_that_do_not_load(
    tmp_path: Path, sender: str, more: str, change: dict[str, str], message: str
) -> None:
    program(tmp_path / "bin" / "own")
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "script").chmod(0o755)
    with pytest.raises(InputError) as error:
        Matrix.load(write(tmp_path, sender, more, **change))
    assert message.format(folder=tmp_path) in str(error.value)
    assert f"{tmp_path}/m.yaml:10:" in str(error.value)


def test_two_programs_of_one_name_are_refused(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "own")
    program(tmp_path / "other" / "own")
    path = write(tmp_path, more="codepoint: ect1, exec_receiver: ./other/own")
    with pytest.raises(InputError, match=f"own is already the name of {tmp_path}/bin/own"):
        Matrix.load(path)


@pytest.mark.parametrize(
    ("more", "change", "message"),
    [
        (
            "codepoint: ect1",
            {"capture": ""},
            "own.send: send: exec is measured by packets, and this cell keeps none; write capture: headers",
        ),
        (
            "start: 0s",
            {},
            "own.exec_sender: has {ecn} or {codepoint}, and the group states no codepoint; write own.codep",
        ),
        (
            "codepoint: ect1, exec_receiver: './bin/own --log {qlog}'",
            {},
            "own.exec_receiver: has {qlog}, and only the sender's qlog is read; write it in exec_sender",
        ),
        ("codepoint: ect1, bytes: 1MB", {}, "own.bytes: does not apply to own.send: exec"),
    ],
)
def test_cells_that_cannot_run(tmp_path: Path, more: str, change: dict[str, str], message: str) -> None:
    program(tmp_path / "bin" / "own")
    matrix = Matrix.load(write(tmp_path, more=more, **change))
    found = [str(problem) for cell in matrix.cells for problem in problems(cell, matrix.catalog)]
    assert [text for text in found if text.startswith(message)], found


def test_the_digest_of_the_program_is_part_of_the_trial_s_inputs(tmp_path: Path) -> None:
    own = program(tmp_path / "bin" / "own")
    path = write(tmp_path)

    def digest() -> str:
        matrix = Matrix.load(path)
        inputs = TrialInputs(matrix.catalog, 1, Identity("virtual", "7.3"), LAB)
        return inputs.digests(matrix.cells[0], [1])[0]

    first = digest()
    assert digest() == first
    program(own, text=b"\x90\xc3")
    assert digest() != first


def test_it_runs_only_with_consent_for_exactly_these_bytes(tmp_path: Path) -> None:
    own = program(tmp_path / "bin" / "own")
    path = write(tmp_path)
    (problem,) = prepare(path, [], RunOptions(runs=tmp_path)).settled.untrusted
    assert str(problem) == (
        f"{own}: own: is a program that was not trusted yet; "
        f"run with --trust to run {own} here and on hosts (l4sbench docs security)"
    )
    trusted = prepare(path, [], RunOptions(runs=tmp_path, trust=True))
    assert trusted.settled.consented == ("own",)
    again = prepare(path, [], RunOptions(runs=tmp_path))
    assert not again.settled.untrusted
    kept = again.matrix.catalog.executable("own")
    assert kept.file.is_relative_to(tmp_path / "state")
    assert kept.file.read_bytes() == own.read_bytes()
    assert kept.file.stat().st_mode & 0o777 == 0o700
    kept.file.write_bytes(b"spoilt")
    assert prepare(path, [], RunOptions(runs=tmp_path)).settled.untrusted
    program(own, text=b"\x90\xc3")
    assert prepare(path, [], RunOptions(runs=tmp_path)).settled.untrusted


def test_a_run_directory_keeps_the_program(tmp_path: Path) -> None:
    own = program(tmp_path / "bin" / "own")
    matrix = Matrix.load(write(tmp_path))
    run = tmp_path / "run"
    run.mkdir()
    keep_catalog(run, matrix.catalog)
    own.unlink()
    (kept,) = kept_executables(run)
    assert (kept.name, kept.digest) == ("own", matrix.catalog.executable("own").digest)
    with_copy = Matrix.load(tmp_path / "m.yaml", Catalog.load().with_executables([kept]))
    assert [cell.id for cell in with_copy.cells] == [cell.id for cell in matrix.cells]


def test_needs_and_what_hosts_are_given(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "own", platform.machine() if platform.machine() == "aarch64" else "x86_64")
    matrix = Matrix.load(write(tmp_path))
    assert needs(matrix.catalog, matrix.cells, HOSTS).executables == {"own"}
    assert needs(matrix.catalog, matrix.cells, HOSTS).traffic == {"exec", "iperf3"}
    assert executables_used(matrix.cells) == {"own"}
    (one,) = executable_variables(matrix.cells, matrix.catalog)
    assert one == {"file": str(tmp_path / "bin" / "own"), "name": matrix.catalog.executable("own").handle}


def test_rules_do_not_compare_what_programs_send(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "own")
    path = write(tmp_path)
    text = path.read_text().replace("rule: none", "rule: l4sbench1\nroles: {l4s: own, classic: classic}")
    path.write_text(text)
    with pytest.raises(InputError, match="compares what two groups get that send bulk, but own sends exec"):
        prepare(path, [], RunOptions(runs=tmp_path))
