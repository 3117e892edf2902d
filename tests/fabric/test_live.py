# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""FABRIC itself. Needs an account that fablib is configured for, and a variable that enables it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fabric.trial import check_trial
from tests.patience import ran

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not os.environ.get("L4SBENCH_LIVE_FABRIC"),
        reason="reserves machines on FABRIC: needs an account, and L4SBENCH_LIVE_FABRIC=1",
    ),
]


@pytest.fixture(autouse=True)
def home() -> None:
    """The user's own home, where fablib is configured."""


def l4sbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ran(
        [sys.executable, "-m", "l4sbench", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        limit_s=3600,
    )


SMALL = ("--cores", "2", "--ram-gb", "8", "--disk-gb", "10", "--hours", "3")


def test_reserve_reach_renew_and_give_back() -> None:
    name = f"l4sbench-smoke-{int(time.time())}"
    try:
        up = l4sbench("slice", "up", name, *SMALL)
        assert up.returncode == 0, up.stderr
        ansible = [str(Path(sys.executable).with_name("ansible")), "-i", up.stdout.strip(), "nodes"]
        reached = ran([*ansible, "-m", "wait_for_connection", "-a", "timeout=600"])
        assert reached.stdout.count("SUCCESS") == 6, reached.stdout + reached.stderr
        renewed = l4sbench("slice", "renew", name, "--hours", "5")
        assert renewed.returncode == 0, renewed.stderr
        assert "shortens" not in renewed.stderr
        assert json.loads(l4sbench("slice", "status", name, "--json").stdout)["state"] == "StableOK"
    finally:
        assert l4sbench("slice", "down", name).returncode == 0


def test_a_trial_on_the_kernel_of_its_cell(tmp_path: Path) -> None:
    """Machines that were just made restart into a kernel with DualPI2, build Prague, and run a trial."""
    name = f"l4sbench-trial-{int(time.time())}"
    try:
        up = l4sbench("slice", "up", name, *SMALL)
        assert up.returncode == 0, up.stderr
        trials = check_trial(l4sbench, tmp_path, name, "100mbit")
        assert trials["status"].to_list() == ["ok"], trials["reasons"].to_list()
    finally:
        assert l4sbench("slice", "down", name).returncode == 0
