# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The session in examples/sessions/fabric.md, run again in a place like FABRIC."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fabric.account import ROOT
from tests.fabric.place import require_nodes

pytestmark = [pytest.mark.lab, pytest.mark.long]


@pytest.fixture(autouse=True)
def home() -> None:
    """Commands have a home of their own; the lab is in the user's cache."""


def test_the_session_prints_what_its_page_shows() -> None:
    require_nodes()
    argv = [sys.executable, "tools/transcripts.py", "--check", "examples/sessions/fabric.md"]
    checked = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3000)
    assert checked.returncode == 0, checked.stderr
