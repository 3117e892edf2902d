# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A congestion control or queue of one's own is one folder outside, C source included: no other file changes.

The state that it reports is in the tables of the run.
"""

import shutil
from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.errors import InputError
from l4sbench.testbeds.virtual.lab import Lab

pytestmark = pytest.mark.lab

ENTRIES = Path(__file__).with_name("entries")

MATRIX = """\
matrix: mine
topology: line6
rate: 10mbit
rtt: 10ms
duration: 4s
trials: 1
catalog: [entries]
aqm: mine-q
flows:
  l4s:     {cc: mine}
  classic: {cc: reno, ecn: classic}
"""


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.copytree(ENTRIES, tmp_path / "entries")
    matrix = tmp_path / "mine.yaml"
    matrix.write_text(MATRIX, encoding="utf-8")
    return matrix


def test_plan_executes_no_kbuild_with_consent_or_without(lab: Lab, matrix: Path, tmp_path: Path) -> None:
    for kbuild in (tmp_path / "entries").glob("*/Kbuild"):
        kbuild.write_text(f"{kbuild.read_text()}$(shell touch {tmp_path}/executed)\n")
    before = api.plan_of(matrix, options=api.RunOptions(runs=tmp_path / "runs"))
    assert before.plan.to_run == 1
    assert [problem.path for problem in before.untrusted] == ["mine-q", "mine"]
    after = api.plan_of(matrix, options=api.RunOptions(runs=tmp_path / "runs", trust=True))
    assert (after.untrusted, after.problems) == ((), ())
    assert after.unbuilt == ("sch_mine", "tcp_mine")
    assert not (tmp_path / "executed").exists()


def test_modules_from_outside_are_built_run_and_report(lab: Lab, matrix: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    options = api.RunOptions(runs=runs)
    assert api.plan_of(matrix, options=options).plan.to_run == 1
    with pytest.raises(InputError, match="carries code that was not trusted yet"):
        api.run(matrix, runs=runs)
    states: list[str] = []
    ended = api.run(matrix, runs=runs, trust=True, on_state=states.append)
    assert states == ["trusted from now on: the code of mine-q, mine"]
    assert ended.result.ok == 1
    run = api.load(ended)
    assert set(run.flows["cc"]) == {"mine", "reno"}

    last = {row["group"]: row for row in run.sockets.filter(side="sender").iter_rows(named=True)}
    mine = last["l4s"]
    assert mine["mine_phase"] in {"open", "recovering"}
    assert mine["mine_most_cwnd_packets"] >= mine["cwnd_packets"] > 1
    # ACKs are for one segment or two
    assert 0.4 * mine["delivered_packets"] < mine["mine_acks"] <= mine["delivered_packets"]
    assert last["classic"]["mine_acks"] is None
    # what l4sbench's own modules report is there as well, and comes first
    names = run.sockets.columns
    assert names.index("prague_mode") < names.index("mine_acks")

    queue = list(run.queues.filter(kind="mine").iter_rows(named=True))[-1]
    delivered_ce = last["classic"]["delivered_ce_packets"] or 0
    assert queue["marks_packets"] > 0
    assert queue["mine_q_longest_packets"] <= 60
    assert delivered_ce == 0 or queue["marks_packets"] >= delivered_ce / 2
    assert api.plan_of(matrix, options=options).plan.to_run == 0
