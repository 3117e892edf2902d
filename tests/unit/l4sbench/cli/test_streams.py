# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Streams that are closed, full or ASCII only, and places that cannot be written: a reason, never a bug."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from l4sbench.cli import main
from tests.patience import PATIENCE_S

PLAN = ("plan", "quickstart", "aqm=codel")
FULL = "No space left on device"


def shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in which `l4sbench` is this one."""
    script = f'l4sbench() {{ "$PYTHON" -m l4sbench "$@"; }}\n{command}'
    return subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PYTHON": sys.executable, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("what", ["plan quickstart --json", "--help"])
@pytest.mark.parametrize(("where", "why"), [(">/dev/full", FULL), (">&-", "Bad file descriptor")])
def test_an_answer_that_cannot_be_written(what: str, where: str, why: str) -> None:
    ended = shell(f"l4sbench {what} {where}")
    assert ended.returncode == 3
    assert ended.stderr.endswith(f"error: the answer cannot be written to the standard output: {why}\n")
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_hints_that_cannot_be_written_do_not_matter(where: str) -> None:
    assert shell(f"l4sbench plan quickstart {where}").returncode == 0
    assert shell(f"l4sbench plan nothing {where}").returncode == 2
    assert shell(f"l4sbench run quickstart {where} <&-").returncode == 3


@pytest.mark.parametrize(
    "env",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["stream", "locale"],
)
def test_ascii_terminals(env: dict[str, str], tmp_path: Path) -> None:
    text = (
        "matrix: m\ndescription: ✓ é µ\nrate: 100mbit\nrtt: 10ms\nduration: 3s\naqm: codel\n"
        "flows: {l4s: {cc: prague}, classic: {cc: cubic}}\n"
    )
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    ended = shell("l4sbench plan m.yaml", **env)
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, r"m: + \xe9 u")
    ended = shell("l4sbench plan m.yaml --json", **env)
    assert json.loads(ended.stdout)["matrix"] == "m"
    ended = shell("l4sbench plan m.yaml --export é", **env)
    assert ended.returncode == 0
    assert (tmp_path / "é" / "README.md").is_file()
    (tmp_path / "m.yaml").write_text(f"{text}catalog: é\nextends: ü.yaml\n", encoding="utf-8")
    ended = shell("l4sbench plan m.yaml", **env)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "error: m.yaml:9:10: extends: " in ended.stderr


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("file/below", "file"),
        ("loop/below", "loop"),
        ("x" * 300, "x" * 300),
        ("/proc/nothing", "/proc"),
        ("/dev/full/below", "/dev/full"),
    ],
)
@pytest.mark.parametrize(
    "argv",
    [
        (*PLAN, "--export"),
        ("slice", "plan", "x1", "--offline", "--graph"),
        ("run", "quickstart", "--detach", "--dir"),
    ],
    ids=["export", "graph", "detach"],
)
def test_places_that_cannot_be_written(
    argv: tuple[str, ...], place: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    assert main([*argv, place]) in {2, 3}
    shown = capsys.readouterr().err
    assert re.search(rf"^error: .*{re.escape(named)}", shown, re.MULTILINE)
    assert "Traceback" not in shown
