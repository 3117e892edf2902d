# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The examples of docs/notebook.md work."""

import re
from pathlib import Path

import polars as pl
import pytest

import l4sbench
from l4sbench.testbeds.virtual.lab import Lab

PAGE = Path(__file__).parents[2] / "docs" / "notebook.md"

pytestmark = pytest.mark.lab


def test_every_block_runs_in_order(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 11
    names: dict[str, object] = {}
    shown = []
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
        shown.append(capsys.readouterr().out)
    assert shown[0].startswith("classic-starved True all ")
    assert shown[1].endswith("4 trials are ok\n")
    assert len(re.findall(r" against CUBIC, .*: .*, at worst \d+ %", shown[2])) == 4
    assert shown[3].startswith("8 trials to run, about ")
    assert "<Decision by rule pam25: " in shown[3]
    goodput, delays = names["goodput"], names["delays"]
    assert isinstance(goodput, pl.DataFrame)
    assert goodput.height == 8  # two queues, two kinds of ECN, two groups
    assert goodput.select(pl.col("goodput_mbps").is_between(5, 95).all()).item()
    assert isinstance(delays, pl.DataFrame)
    assert delays.height > 100
    assert re.search(r"^dualpi2 +classic +\d", shown[6], re.MULTILINE)
    assert shown[7].startswith("Goodput of the L4S flows")
    assert (tmp_path / "goodput.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (tmp_path / "goodput.pdf").is_file()
    assert shown[9] == "False 2\n"
    assert shown[10].splitlines()[-1] == "['ok', 'ok']"


def test_a_second_run_in_one_process_runs_nothing_and_decides_the_same(lab: Lab, tmp_path: Path) -> None:
    choices = ("quickstart", "aqm=fifo", "buffer_bdp=1", "classic.ecn=off")
    first = l4sbench.run(*choices, trials=1, runs=tmp_path)
    again = l4sbench.run(*choices, trials=1, runs=tmp_path)
    assert (first.result.ok, again.result.ok, again.result.left) == (1, 0, 0)
    assert again.path == first.path.resolve()
    assert first.decision is not None
    assert again.decision is not None
    verdicts = [(verdict.word, verdict.trials) for verdict in first.decision.verdicts]
    assert verdicts
    assert [(verdict.word, verdict.trials) for verdict in again.decision.verdicts] == verdicts
    other = l4sbench.run(*choices, trials=1, runs=tmp_path, new=True)
    assert other.path != first.path
