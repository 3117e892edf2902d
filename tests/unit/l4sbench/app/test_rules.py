# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A matrix's rule and the groups that it compares are found before anything runs, or nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from l4sbench.app.finding import load_matrix
from l4sbench.app.prepare import until_decided
from l4sbench.app.rules import find_rule
from l4sbench.cli import main
from l4sbench.disk import assets
from l4sbench.matrix import Matrix, Trials

HEAD = """\
matrix: mine
topology: line6
rate: 100mbit
rtt: 10ms
duration: 5s
"""
AXES = "axes: {aqm: [fifo, dualpi2]}\n"
TWO = "flows:\n  new: {cc: prague}\n  old: {cc: cubic}\n"
ONE = "flows: {l4s: {cc: prague}}\n"
NO_GROUPS = "compares the flow groups l4s and classic; the matrix has no group"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this user's, no lab, no runs: what fails here fails before any of them is needed."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def write(text: str) -> Path:
    path = Path("mine.yaml")
    path.write_text(HEAD + text + AXES, encoding="utf-8")
    return path


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rule: pam26\n" + TWO, "mine.yaml:6:7: rule: pam26 is not a verdict rule; did you mean pam25?"),
        (
            "rule: pam25\n" + TWO,
            (
                f"mine.yaml:6:7: roles: rule pam25 {NO_GROUPS}s l4s and classic; "
                "write roles: {l4s: new, classic: old}, or rule: none"
            ),
        ),
        (
            "rule: anrw24\n" + TWO.replace("old", "classic"),
            (
                f"mine.yaml:6:7: roles: rule anrw24 {NO_GROUPS} l4s; "
                "write roles: {l4s: new, classic: classic}, or rule: none"
            ),
        ),
        (
            "rule: pam25\n" + ONE,
            (
                f"mine.yaml:6:7: rule: rule pam25 {NO_GROUPS} classic; "
                "write rule: none for a matrix without verdicts"
            ),
        ),
        (
            "rule: pam25\nflows:\n  l4s: {cc: prague}\n  udp: {send: paced, rate: 5mbit, codepoint: ect0}\n",
            (
                f"mine.yaml:6:7: rule: rule pam25 {NO_GROUPS} classic; "
                "write rule: none for a matrix without verdicts"
            ),
        ),
        (
            "flows:\n  l4s: {cc: prague}\n  classic: {send: paced, rate: 5mbit, codepoint: ect0}\n",
            (
                "mine.yaml:1:1: rule: rule l4sbench1 compares what two groups get that send bulk, but "
                "classic sends paced; name others as roles, or write rule: none"
            ),
        ),
        (
            "flows:\n  l4s: {cc: prague}\n  classic: {cc: cubic, start: 4s}\n",
            (
                "mine.yaml:1:1: classic.start: rule l4sbench1 compares what l4s and classic get at the same "
                "time, and they share 1 of 5 s that are measured; make classic.start sooner or duration "
                "longer, or write rule: none"
            ),
        ),
        (
            "rule: pam25\nflows:\n  l4s: {cc: prague, start: 7s}\n  classic: {cc: cubic}\n",
            (
                "mine.yaml:6:7: l4s.start: rule pam25 compares what l4s and classic get at the same time, "
                "and they share 0 of 5 s that are measured; make l4s.start sooner or duration longer, or "
                "write rule: none"
            ),
        ),
        (
            "flows:\n  l4s: {cc: prague}\n  classic: {cc: cubic, lifetime: 3s}\n",
            (
                "mine.yaml:1:1: classic.lifetime: rule l4sbench1 compares what l4s and classic get at the "
                "same time, and they share 3 of 5 s that are measured; make classic.lifetime longer, or "
                "write rule: none"
            ),
        ),
        (
            "flows:\n  l4s: {cc: prague, stop: 3s}\n  classic: {cc: cubic}\n",
            (
                "mine.yaml:1:1: l4s.stop: rule l4sbench1 compares what l4s and classic get at the "
                "same time, and they share 3 of 5 s that are measured; make l4s.stop later, or "
                "write rule: none"
            ),
        ),
        (
            ONE + "trials: {min: 3, max: 10}\n",
            (
                "mine.yaml:7:9: trials: are added until the verdict is decided, and the matrix has no "
                "verdicts; write trials: 10"
            ),
        ),
    ],
)
def test_nothing_runs_by_a_rule_that_cannot_judge(
    command: str, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(write(text))]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"error: {message}\n")
    assert not Path("runs").exists()


def test_without_a_stated_rule_two_groups_need_their_roles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(write(TWO))]) == 2
    assert "write roles: {l4s: new, classic: old}, or rule: none" in capsys.readouterr().err


def test_roles_give_the_rule_the_matrix_s_own_groups() -> None:
    text = TWO + "roles: {l4s: new, classic: old}\nrule: pam25\n"
    assert main(["plan", str(write(text))]) == 0
    rule = find_rule(Matrix.load(write(text)))
    assert rule is not None
    assert (rule.rule, rule.l4s, rule.classic) == ("pam25", "new", "old")
    assert rule.limits_text.startswith("goodput of group new within")


def test_a_role_that_is_not_stated_is_that_of_the_group_of_its_name() -> None:
    rule = find_rule(Matrix.load(write(TWO.replace("old", "classic") + "roles: {l4s: new}\n")))
    assert rule is not None
    assert (rule.l4s, rule.classic) == ("new", "classic")


def test_roles_do_not_change_cells() -> None:
    with_roles = Matrix.load(write(TWO + "roles: {l4s: new, classic: old}\n"))
    without = Matrix.load(write(TWO))
    assert [cell.id for cell in with_roles.cells] == [cell.id for cell in without.cells]


def test_an_extending_matrix_changes_one_role() -> None:
    base = Path("base.yaml")
    base.write_text(HEAD + TWO + AXES + "roles: {l4s: old, classic: old}\n", encoding="utf-8")
    path = Path("child.yaml")
    path.write_text("matrix: child\nextends: base.yaml\nroles: {l4s: new}\n", encoding="utf-8")
    matrix = Matrix.load(path)
    assert matrix.roles == {"l4s": "new", "classic": "old"}
    kept = Path("kept.yaml")
    kept.write_bytes(matrix.source)
    assert Matrix.load(kept).roles == matrix.roles


def test_intervals_decide_unless_a_study_is_reproduced() -> None:
    shipped = {path.stem: find_rule(load_matrix(path)) for path in assets.folder("matrices").glob("*.yaml")}
    rules = {name: rule and rule.rule for name, rule in shipped.items()}
    ours = {name for name, rule in rules.items() if rule == "l4sbench1"}
    quic = {"quic26", "quic26-quiche"}
    atlas = {"atlas", "atlas-bbr", "atlas-ecn", "atlas-step"}
    flows = {"pam25-flows", "pam25-flows-causes"}
    assert ours == {"quickstart", "sure", "ncf26-prague"} | flows | atlas | quic
    without = {
        "segsize26",
        "segsize26-losses",
        "segsize26-flood",
        "segsize26-flood-causes",
        "segsize26-memory",
    }
    without |= {"anrw24-fig1", "anrw24-fig1-vm", "atlas-alone", "overload"}
    without |= {f"stress25-{study}" for study in ("bbr3", "jitter", "loss", "mixes", "mixes-causes", "steps")}
    without |= {f"ncf26-{study}" for study in ("flood", "requests", "slowstart", "staggered", "rtts")}
    without |= {"ncf26-parking", "ncf26-workload", "rfc8867-6.2", "rtc26", "web26"}
    without |= {f"rfc8867-5.{case}" for case in (1, 2, 4, 5, 6)}
    without |= {f"ncf26-{study}" for study in ("variants", "beside", "endhost", "slowstart-near")}
    assert {name for name, rule in rules.items() if rule is None} == without
    by_default = find_rule(load_matrix(write(TWO + "roles: {l4s: new, classic: old}\n")))
    assert by_default is not None
    assert (by_default.rule, by_default.intervals) == ("l4sbench1", "decide")


@pytest.mark.parametrize(
    ("stated", "most", "expected"),
    [
        ("", None, Trials(3, 10, "decided")),
        ("trials: 1\n", None, Trials(3, 10, "decided")),
        ("trials: 5\n", None, Trials(5, 10, "decided")),
        ("trials: 20\n", None, Trials(20, 40, "decided")),
        ("trials: {min: 4, max: 30}\n", None, Trials(4, 30, "decided")),
        ("trials: 3\n", 24, Trials(3, 24, "decided")),
    ],
)
def test_sure_adds_trials_where_they_are_needed(stated: str, most: int | None, expected: Trials) -> None:
    text = stated + TWO + "roles: {l4s: new, classic: old}\n"
    matrix = load_matrix(write(text), change_trials=until_decided(most))
    assert matrix.trials == expected
    kept = Path("kept.yaml")
    kept.write_bytes(matrix.source)
    again = Matrix.load(kept)
    assert (again.trials, again.roles) == (expected, matrix.roles), "the run's copy states the looks"
    assert [cell.id for cell in again.cells] == [cell.id for cell in Matrix.load(write(text)).cells]


@pytest.mark.parametrize("text", [ONE, "rule: none\n" + TWO])
def test_a_matrix_may_do_without_verdicts(text: str) -> None:
    assert main(["plan", str(write(text))]) == 0
    assert find_rule(Matrix.load(write(text))) is None
