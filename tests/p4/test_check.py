# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""tools/check_p4.py: it compiles where it can, else it says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]

STANDIN = """#!/bin/sh
case "$1" in --target-help) echo "{target}"; exit 0;; esac
while [ "$1" != -o ]; do shift; done
mkdir -p "$2/pipe"
printf '%s' '{context}' > "$2/pipe/context.json"
echo "{stderr}" >&2
exit {code}
"""
CONTEXT = (
    '{"tables": [{"direction": "ingress", "match_attributes": {"stage_tables": [{"stage_number": 4}]}}, '
    '{"direction": "ingress", "stage_tables": [{"stage_number": 1}]}, '
    '{"direction": "egress", "stage_tables": [{"stage_number": 2}]}]}'
)


def check(path: Path, **parts: str) -> subprocess.CompletedProcess[str]:
    """Run the tool with a stand-in of the compiler, or with none."""
    if parts:
        values = {"target": "tofino", "context": CONTEXT, "stderr": "", "code": "0", **parts}
        compiler = path / "p4c"
        compiler.write_text(STANDIN.format(**values), encoding="utf-8")
        compiler.chmod(0o755)
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "check_p4.py")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PATH": f"{path}:/usr/bin:/bin" if parts else str(path), "PYTHONPATH": str(ROOT)},
    )


def test_without_a_compiler_the_reason_is_printed(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert (done.returncode, done.stdout) == (77, "")
    assert done.stderr == "not tried: no bf-p4c or p4c on PATH\n"


def test_a_compiler_for_other_targets_is_none(tmp_path: Path) -> None:
    done = check(tmp_path, target="bmv2 tofino2x")
    assert done.returncode == 77
    assert done.stderr == (
        f"not tried: {tmp_path / 'p4c'}: no target tofino (p4c is built with ENABLE_TOFINO for it)\n"
    )


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"code": "0"}, 0),
        ({"code": "1", "stderr": "warning: no assembler"}, 0),
        ({"code": "1", "stderr": "ncf.p4(3): error: no"}, 1),
    ],
)
def test_stages_are_printed(tmp_path: Path, parts: dict[str, str], code: int) -> None:
    done = check(tmp_path, **parts)
    assert done.returncode == code
    assert done.stdout == "egress: 3 stages\ningress: 5 stages\n"
    assert parts.get("stderr", "") in done.stderr


def test_a_compiler_that_writes_nothing_fails(tmp_path: Path) -> None:
    compiler = tmp_path / "p4c"
    check(tmp_path, code="0")
    compiler.write_text("#!/bin/sh\necho tofino\necho 'error: broken' >&2\nexit 1\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "check_p4.py")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (1, "error: broken\n")
