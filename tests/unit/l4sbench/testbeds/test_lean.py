# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""lab-traffic for hosts: compiled once, handed to the playbooks, and exported."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from l4sbench.cli import main
from l4sbench.errors import TestbedError
from l4sbench.testbeds.ssh.lean import compiled, source_digest
from tests.patience import PATIENCE_S

MATRIX = """\
matrix: mine
rate: 10mbit
rtt: 10ms
duration: 2s
aqm: fifo
rule: none
flows:
  bulk: {cc: cubic}
"""
MICE = "  mice: {send: requests, cc: cubic, period: 1s, size: 50B}\n"


def test_it_is_compiled_once_and_needs_nothing_of_the_host(tmp_path: Path) -> None:
    program = compiled(tmp_path / "cache")
    assert source_digest()[:16] in program.name
    ended = subprocess.run([program], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.stderr.startswith("lab-traffic: usage:")
    assert b"/ld-linux" not in program.read_bytes()  # no interpreter: static
    changed_s = program.stat().st_mtime_ns
    assert compiled(tmp_path / "cache") == program
    assert program.stat().st_mtime_ns == changed_s
    assert [path.name for path in program.parent.iterdir()] == [program.name]


def test_without_a_compiler_the_error_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestbedError, match="lab-traffic cannot be compiled for the hosts: make") as caught:
        compiled(tmp_path / "cache")
    assert "apt install make gcc libc6-dev" in str(caught.value.hint)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("groups", ["", MICE])
def test_an_export_has_it_where_cells_need_it(tmp_path: Path, groups: str) -> None:
    matrix = tmp_path / "mine.yaml"
    matrix.write_text(MATRIX + groups)
    folder = tmp_path / "by-hand"
    assert main(["plan", str(matrix), "--export", str(folder)]) == 0
    given = json.loads((folder / "playbooks" / "group_vars" / "all.yml").read_text())
    assert ("l4sbench_lean" in given) == bool(groups)
    assert (folder / "bin" / "lab-traffic").is_file() == bool(groups)
