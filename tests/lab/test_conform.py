# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Requirements measured in the lab: rows of a sheet that Prague passes, and a sender that must fail."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from junitparser import JUnitXml

from l4sbench.cli import main
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.udp import EXAMPLE, RECEIVE, SEND
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

SHEET = """\
sheet: mine
document: RFC 9331
about: Two of its requirements, on a slow link.
quick_trials: 3
rows:
  - id: A1
    section: "4.1"
    level: MUST
    requires: Packets carry ECT(1).
    applies: sender
    l4s_only: true
    matrix: &beside
      {rate: 10mbit, rtt: 20ms, duration: 8s, warmup: 4s, aqm: codel, buffer_bdp: 8, capture: headers,
       flows: {l4s: {}, classic: {cc: cubic, ecn: classic}}, quick: {}}
    claims: [{measure: ect1_percent, at_least: 100, each_trial: true, threshold: stated}]
  - id: A7
    section: "4.3"
    level: MUST
    requires: Classic flows behind CoDel keep their share.
    applies: sender
    matrix: *beside
    claims: [{measure: ratio_per_flow, at_most: 2, threshold: stated}]
    controls: [{candidate: ./blind.yml, because: it does not react to marks}]
"""
MARKS = "(double)(s->newest.ce - s->seen.ce)"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def verdicts(name: str) -> dict[tuple[str, str], str]:
    (file,) = Path("runs").glob(f"{name}/2*/report/conform-*.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    return {(one["row"], one["candidate"]): one["verdict"] for one in document["verdicts"]}


def test_prague_passes_two_rows(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("--row", "A1", "--row", "A14")
    command = ["conform", "rfc9331", "--cc", "prague", "--quick", *rows, "--junit", "found.xml"]
    assert main(command) == 0
    assert verdicts("rfc9331-prague-quick") == {(row, "prague"): "pass" for row in ("A1", "A14")}
    suites = JUnitXml.fromstring(Path("found.xml").read_bytes())
    assert (suites.tests, suites.failures) == (2, 0)
    capsys.readouterr()
    assert main(command) == 0  # nothing is left to run
    assert "prague: 2 pass" in capsys.readouterr().out
    assert len(list(Path("runs/rfc9331-prague-quick").glob("2*"))) == 1


@pytest.mark.long
def test_a_sender_that_ignores_marks_fails(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (EXAMPLE / "udp-l4s.c").read_text(encoding="utf-8")
    assert MARKS in source
    (tmp_path / "blind.c").write_text(source.replace(MARKS, "0"), encoding="utf-8")
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-O2", "-static", "-o", "blind", "blind.c"], check=True, timeout=PATIENCE_S
    )
    commands = [f"exec_{end}: {text!r}" for end, text in (("sender", SEND), ("receiver", RECEIVE))]
    flow = ", ".join(["send: exec", "codepoint: ect1", *commands]).replace("./udp-l4s", "./blind")
    Path("blind.yml").write_text(f"candidate: blind\nflow: {{{flow}}}\n", encoding="utf-8")
    Path("mine.yml").write_text(SHEET, encoding="utf-8")
    assert main(["conform", "./mine.yml", "--cc", "./blind.yml", "--quick", "--trust"]) == 1
    assert verdicts("mine-blind-quick") == {("A1", "blind"): "pass", ("A7", "blind"): "fail"}
    assert "blind: 1 pass, 1 fail; fails MUST A7" in capsys.readouterr().out
    assert main(["conform", "./mine.yml", "--controls", "--quick", "--trust"]) == 0
    assert "fails, as it must" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("sheet", ["rfc9331", "rfc9743", "l4sops", "responsiveness", "prague-draft"])
def test_negative_controls_fail(lab: Lab, sheet: str) -> None:
    assert main(["conform", sheet, "--controls", "--quick"]) == 0


@pytest.mark.long
def test_the_quick_sheet_of_prague(lab: Lab) -> None:
    assert main(["conform", "rfc9331", "--cc", "prague", "--quick"]) == 1
    found = {row: verdict for (row, _), verdict in verdicts("rfc9331-prague-quick").items()}
    assert [found[row] for row in ("A1", "A2", "A9", "A7")] == ["pass", "pass", "pass", "fail"]
