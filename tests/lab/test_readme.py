# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""README.md shows what `make demo` prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("lab")
def test_the_table_is_that_of_a_run(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "l4sbench", "run", "matrices/quickstart.yaml", "--dir", str(tmp_path)]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600)
    assert ran.returncode == 0, ran.stderr
    run = tmp_path / "quickstart" / "latest"
    (build,) = json.loads((run / "report" / "decision.json").read_text(encoding="utf-8"))["kernels"]
    kernel = re.escape(build.removesuffix("-l4sbench"))
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    if not re.search(rf"Linux\s+{kernel} in the lab", page):
        pytest.skip(f"README.md has the table of another kernel than {build}")
    argv = [sys.executable, "tools/readme_table.py", "--check", str(run)]
    checked = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert checked.returncode == 0, checked.stderr


def test_another_table_is_noticed_and_replaced(tmp_path: Path) -> None:
    report = tmp_path / "run" / "report"
    report.mkdir(parents=True)
    text = "# Table\n\n## Is it?\n\nYes: ok in 1 of 1 entry.\n\nMore.\n\n| a |\n| --- |\n| b |\n\n| c |\n"
    (report / "decision.md").write_text(text, encoding="utf-8")
    tree = tmp_path / "tree"
    (tree / "tools").mkdir(parents=True)
    (tree / "tools" / "readme_table.py").write_bytes((ROOT / "tools" / "readme_table.py").read_bytes())
    page = tree / "README.md"
    page.write_bytes((ROOT / "README.md").read_bytes())

    def tool(*options: str) -> int:
        argv = [sys.executable, "tools/readme_table.py", *options, str(tmp_path / "run")]
        return subprocess.run(argv, cwd=tree, capture_output=True, check=False, timeout=PATIENCE_S).returncode

    assert tool("--check") == 1
    assert tool() == 0
    assert tool("--check") == 0
    assert "**Is it?** Yes: ok in 1 of 1 entry.\n\n| a |\n| --- |\n| b |\n<!-- end" in page.read_text(
        encoding="utf-8"
    )
