# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The sessions in docs/ are what their commands print."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "transcripts.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transcripts", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["transcripts"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.lab
@pytest.mark.parametrize("path", ["docs/tutorial.md", "examples/sessions/student.md"])
@pytest.mark.long
def test_a_session_prints_what_its_page_shows(path: str, lab: Lab) -> None:
    page = ROOT / path
    kernel = re.escape(lab.kernel_release.removesuffix("-l4sbench"))
    if not re.search(rf"Linux\s+{kernel}\b", page.read_text(encoding="utf-8")):
        pytest.skip(f"{page.name} has the output of another kernel than {lab.kernel_release}")
    argv = [sys.executable, str(TOOL), "--check", str(page)]
    checked = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600)
    assert checked.returncode == 0, checked.stderr


PAGE = """\
# A session

```console
$ echo one; echo two >&2
old
$ cat > file <<'END'
> a $HOME
> END
$ cat file; exit 3
$ printf '[1/2, 3 s left] ok a trial 1: 1.4 s\\n[2/2] invalid b trial 1: 2 s\\n    why\\n'
```

Text.

<!-- varies -->
```console
$ date +%N
1
```
"""


def test_outputs_are_written_below_their_commands(tool: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, str(TOOL), *options, str(page)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    different = run("--check")
    assert different.returncode == 1
    assert "-old" in different.stderr
    assert page.read_text(encoding="utf-8") == PAGE
    assert run().returncode == 0
    text = page.read_text(encoding="utf-8")
    assert "$ echo one; echo two >&2\none\ntwo\n$ cat > file <<'END'\n> a $HOME\n> END\n$ cat" in text
    assert "$ cat file; exit 3\na $HOME\n(exit code 3)\n$ printf" in text
    assert "\n[2/2] invalid b trial 1: 2 s\n    why\n```\n\nText.\n\n<!-- varies -->\n```console\n" in text
    assert run("--check").returncode == 0  # although the last command prints something else


def test_times_may_differ_and_nothing_else_may(tool: ModuleType) -> None:
    def lines(output: str) -> list[str]:
        found: list[str] = tool.comparable(tool.Step("run", output, 0, varies=False))
        return found

    first = "2 trials of 2 cells to run, 2 at once, 11 to 19 s\nrun:    runs/x/20260102T030405Z"
    busy = "; the machine is busy (load 12 on 2 cores); no trial was measured here yet"
    again = (
        f"2 trials of 2 cells to run, one after another, 62 s to 3 min{busy}\nrun:    runs/x/20260102T030406Z"
    )
    assert lines(first) == lines(again)
    assert lines(first) != lines(first.replace("2 cells", "3 cells"))
    assert lines("54.7 % (54.7 v 40.7 Mbit/s)") != lines("54.8 % (54.8 v 40.7 Mbit/s)")
