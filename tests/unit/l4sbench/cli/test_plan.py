# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`plan` lists what is not tried again, and how to have it run."""

import sys
from pathlib import Path

import pytest

from l4sbench.cli import main
from l4sbench.cli.plan import warn_of
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import plan
from l4sbench.store import StoreView, TrialFolder
from tests.unit.l4sbench import small


@pytest.mark.parametrize(
    ("trials", "note"),
    [
        (1, "1 trial per cell has no confidence interval, so that no verdict will be sure"),
        (2, "2 trials per cell have a wide confidence interval, so that hardly any verdict will be sure"),
        (3, None),
    ],
)
def test_too_few_trials_to_be_sure_are_noted(
    trials: int, note: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "quickstart", "--trials", str(trials)]) == 0
    shown = capsys.readouterr().err
    assert ("will be sure" in shown) is (note is not None)
    assert note is None or f"note: {note}; 3 or more can be, and --sure adds trials" in shown
    assert main(["plan", "segsize26", "--trials", "1"]) == 0
    assert "will be sure" not in capsys.readouterr().err, "it has no verdicts"


@pytest.mark.parametrize("name", ["mine", "mine.yml", "Mine.yaml", "./mine"])
def test_a_matrix_in_the_folder_is_suggested(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("matrix: mine\n", encoding="utf-8")
    assert main(["plan", name]) == 2
    assert capsys.readouterr().err == f"error: there is no matrix {name}; did you mean mine.yaml?\n"
    assert main(["plan", "missing/mine"]) == 2
    assert "there is no matrix missing/mine; `l4sbench list matrices`" in capsys.readouterr().err


def test_what_queues_hold_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["topology: line6", "rate: 2mbit", "rtt: 20ms", "duration: 5s", "trials: 3", "rule: l4sbench1"]
    lines += ["flows: {l4s: {cc: prague}, classic: {cc: cubic}}"]
    lines += [
        "axes: {queue: [{aqm: fifo, buffer_bdp: 1}, {aqm: fifo, buffer_bdp: 4}, {aqm: codel}, {aqm: pie}, "
    ]
    lines += ["  {aqm: fq-codel, aqm.limit: default}]}"]
    Path("mine.yaml").write_text("\n".join(["matrix: mine", *lines]), encoding="utf-8")
    assert main(["plan", "mine.yaml"]) == 0
    held = "fifo limit 5 kB to 20 kB; codel, pie limit 4 packets; fq-codel limit 10240 packets"
    assert f"queues: {held}\n" in capsys.readouterr().out


@pytest.mark.parametrize("trials", ["2", "{min: 3, max: 10, until: decided}"])
def test_filters_may_choose_baselines_alone(
    trials: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = small.matrix(tmp_path, trials=trials, extra="baselines: solo-and-same\n")
    assert main(["plan", str(wanted.path), "l4s.cc=cubic", "aqm=fifo"]) == 0
    printed = capsys.readouterr().out
    assert "\n0 cells and 2 baselines, " in printed
    assert "\nqueues: fifo limit 125 kB to 500 kB\n" in printed


def test_what_is_unusual_in_a_matrix_of_ours_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A study is repeated as it was; in one's own file the same is most likely a mistake."""
    note = "note: 22 cells of pam25-cubic are unusual on purpose, and "
    note += "`l4sbench plan pam25-cubic --cells` says how"
    assert main(["plan", "pam25-cubic"]) == 0
    assert capsys.readouterr().err.splitlines()[:1] == [note]
    assert main(["plan", "pam25-cubic", "--cells"]) == 0
    assert capsys.readouterr().err.count("warning: ") == 7
    own = tmp_path / "own.yaml"
    own.write_bytes((Path(__file__).parents[4] / "matrices" / "pam25-cubic.yaml").read_bytes())
    assert main(["plan", str(own)]) == 0
    assert capsys.readouterr().err.count("warning: ") == 7


def test_what_hosts_cannot_do_is_refused_before_they_are_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither Ansible nor an inventory is needed; what Linux can do is no problem."""
    monkeypatch.setitem(sys.modules, "ansible", None)
    lines = ["matrix: mine", "topology: line6", "rate: 10mbit", "rtt: 10s", "duration: 5s", "rule: none"]
    lines += ["aqm: fifo", "flows: {l4s: {cc: prague}}", "path.jitter: 3s", "path.ecn: bleach"]
    lines += ["path.loss: 1%", "path.loss_burst: 4p", "path.reverse_rate: 1mbit"]
    own = Path("mine.yaml")
    own.write_text("\n".join(lines), encoding="utf-8")
    for where in ("ssh:hosts.yml", "fabric"):
        assert main(["plan", "mine.yaml", "--on", where]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith(
            "mine.yaml:9:14: path.jitter: 3s is more than netem can do, 2.147483647s; "
            "make it smaller, or use --on virtual"
        )
    assert main(["plan", "mine.yaml"]) == 0
    own.write_text("\n".join(lines).replace("jitter: 3s", "jitter: 1s"), encoding="utf-8")
    Path("hosts.yml").write_text("all: {hosts: {}}", encoding="utf-8")
    capsys.readouterr()
    assert main(["plan", "mine.yaml", "--on", "ssh:hosts.yml"]) == 0
    assert "path." not in capsys.readouterr().err


def test_a_queue_may_be_spelled_as_in_linux(capsys: pytest.CaptureFixture[str]) -> None:
    """The cells are the same, whatever the spelling; filters and `exclude` know it, too."""
    printed: list[str] = []
    for name in ("fq-codel", "fq_codel"):
        lines = [
            "topology: line6",
            "rate: 10mbit",
            "rtt: 10ms",
            "duration: 5s",
            "trials: 3",
            "rule: l4sbench1",
        ]
        lines += [
            "flows: {l4s: {cc: prague}, classic: {cc: cubic}}",
            f"axes: {{aqm: [fifo, {name}, {name}-l4s]}}",
        ]
        lines += [f"exclude: [{{aqm: {name}-*}}]"]
        Path("mine.yaml").write_text("\n".join(["matrix: mine", *lines]), encoding="utf-8")
        assert main(["plan", "mine.yaml", "--cells", f"aqm={name}"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "\nfq-codel_1bdp_10mbit_10ms_cubic_prague-" in printed[0]


def test_trials_that_are_not_tried_again_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = small.matrix(tmp_path)
    tries = tuple(TrialFolder(1, "aa", "failed", number) for number in (1, 2, 3))
    planned = plan(
        wanted, StoreView({wanted.cells[0].id: tries}), None, small.TRAITS, Costs(small.TRAITS.cost)
    )
    warn_of(planned)
    shown = capsys.readouterr().err
    assert "1 trial failed 3 times and will not be tried again; --retry failed tries again" in shown
