# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""docs/architecture.svg shows the imports as they are, and they go down."""

import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
DRAWING = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")


def test_the_drawing_is_that_of_the_code() -> None:
    argv = [sys.executable, "tools/architecture.py", "--check"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr or "draw it anew: .venv/bin/python tools/architecture.py"


def test_every_arrow_goes_down() -> None:
    arrows = re.findall(r'd="M\d+ (\d+)L\d+ (\d+)" fill="none"', DRAWING)
    assert len(arrows) > 10
    assert [arrow for arrow in arrows if int(arrow[0]) >= int(arrow[1])] == []
