# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""README.md shows what `make demo` prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import PATIENCE_S, ran

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(lab: Lab) -> str:
    """README.md; skip where its table is that of another kernel."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    kernel = re.escape(lab.kernel_release.removesuffix("-l4sbench"))
    if not re.search(rf"Linux\s+{kernel} in the lab", text):
        pytest.skip(f"README.md has the table of another kernel than {lab.kernel_release}")
    return text


def quickstart(folder: Path, *filters: str) -> Path:
    """Run cells of quickstart, and return the run directory."""
    argv = [sys.executable, "-m", "l4sbench", "run", "matrices/quickstart.yaml", *filters]
    ended = ran([*argv, "--dir", str(folder)], cwd=ROOT, limit_s=3600)
    assert ended.returncode == 0, ended.stderr
    return folder / "quickstart" / "latest"


@pytest.mark.long
def test_a_row_is_that_of_a_run(page: str, tmp_path: Path) -> None:
    run = quickstart(tmp_path, "aqm=dualpi2")
    shown = (run / "report" / "decision.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| \*\*Dual queue\*\* .*\n", shown, re.MULTILINE)
    assert row in page


@pytest.mark.long
@pytest.mark.usefixtures("page")
def test_the_table_is_that_of_a_run(tmp_path: Path) -> None:
    run = quickstart(tmp_path)
    argv = [sys.executable, "tools/readme_table.py", "--check", str(run)]
    checked = ran(argv, cwd=ROOT)
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
