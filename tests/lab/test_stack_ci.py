# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A stack's own CI: an unchanged sender passes, and a regression planted in it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.udp import EXAMPLE
from tests.patience import ran

pytestmark = [pytest.mark.lab, pytest.mark.long]

ROOT = Path(__file__).parents[2]
CI = ROOT / "examples" / "ci"
REACTS = "s->rate *= 1 - s->alpha / 2;"


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = folder / "l4sbench"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m l4sbench "$@"\n')
    command.chmod(0o755)
    env = {"L4SBENCH": str(command), "XDG_STATE_HOME": str(folder / "state")}
    env["GITHUB_STEP_SUMMARY"] = str(folder / "summary.md")
    return ran([CI / "check.sh", "ci/l4s.yaml", "stack"], cwd=folder, env=os.environ | env)


def test_a_planted_regression_is_found(lab: Lab, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "udp-l4s")
    (tmp_path / "ci").mkdir()
    matrix, _, _ = (CI / "l4s.yaml").read_text().partition("axes:")
    for old, new in {"trials: 4": "trials: 3", "duration: 10s": "duration: 5s", "{}": "{cc: cubic}"}.items():
        assert old in matrix
        matrix = matrix.replace(old, new)
    (tmp_path / "ci" / "l4s.yaml").write_text(f"{matrix}aqm: dualpi2\n")

    first = check(tmp_path)
    assert first.returncode == 0, first.stderr
    assert "kept as the baseline" in first.stdout

    source = tmp_path / "udp-l4s" / "udp-l4s.c"
    own = source.read_text()
    source.write_text(f"{own}/* a change of words */\n")
    same = check(tmp_path)
    assert same.returncode == 0, same.stdout + same.stderr
    assert not (tmp_path / "summary.md").read_text().count("worse than")

    assert REACTS in own
    source.write_text(own.replace(REACTS, "s->rate *= 0.5;"))
    worse = check(tmp_path)
    assert worse.returncode == 1, worse.stdout + worse.stderr
    assert "unfairness_percent" in worse.stdout
    assert 'failures="1"' in (tmp_path / "l4s.xml").read_text()
    assert "unfairness_percent" in (tmp_path / "summary.md").read_text()
