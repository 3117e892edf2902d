# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A bundle is all that another machine needs: to report from, and to run again."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from l4sbench.cli import main
from l4sbench.matrix import Matrix
from l4sbench.testbeds.virtual.lab import Lab

PAGE = Path(__file__).parents[2] / "docs" / "add-a-thing.md"

MATRIX = """
matrix: mine
catalog: [queues]
topology: line6
rate: 4mbit
rtt: 20ms
duration: 10s
trials: 1
flows:
  l4s: {cc: prague}
  classic: {cc: cubic, ecn: classic}
axes:
  aqm: [codel-slow, fifo]
"""

pytestmark = pytest.mark.lab


def test_run_bundle_unpack_report_and_run_again(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "queues/codel-slow").mkdir(parents=True)
    page = PAGE.read_text(encoding="utf-8")
    entry, *_ = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (here / "queues/codel-slow/module.yml").write_text(entry, encoding="utf-8")
    (here / "mine.yaml").write_text(MATRIX, encoding="utf-8")
    monkeypatch.chdir(here)
    load, parsed = Matrix.load, list[Path]()

    def counting(path: Path, *args: Any, **kwargs: Any) -> Matrix:
        parsed.append(path)
        return load(path, *args, **kwargs)

    monkeypatch.setattr(Matrix, "load", counting)
    assert main(["run", "mine.yaml"]) == 0
    assert parsed == [Path("mine.yaml")], "a run parses its matrix once"
    table = capsys.readouterr().out
    assert "CoDel for low rates" in table
    assert main(["bundle", "mine", "-o", str(tmp_path / "mine.tar.gz")]) == 0
    flows = (here / "runs/mine/latest/tables/flows.parquet").read_bytes()

    shutil.rmtree(here / "queues")
    there.mkdir()
    monkeypatch.chdir(there)
    assert main(["bundle", "--check", str(tmp_path / "mine.tar.gz")]) == 0
    assert main(["bundle", "--unpack", str(tmp_path / "mine.tar.gz")]) == 0
    capsys.readouterr()
    assert main(["report", "mine"]) == 0
    assert capsys.readouterr().out == table

    again = ["runs/mine/latest/matrix.yaml"]
    assert main(["plan", *again, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trials_to_run"] == 0
    (lost,) = (there / "runs/mine/latest/cells").glob("codel-slow*")
    shutil.rmtree(lost)
    assert main(["run", *again]) == 0
    assert "1 ok" in capsys.readouterr().err
    assert (there / "runs/mine/latest/tables/flows.parquet").read_bytes() == flows
