# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""tools/check_p4.py: it compiles where it can, else it says why not.

No package index has a p4c with the back end for Tofino, so these tests run a stand-in: a program that writes
the files and words that p4c's source does (driver/barefoot.py, p4c-barefoot.cpp, mau/table_summary.cpp), each
only under the options that make p4c write them. The last test runs a real compiler where there is one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.patience import ran

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "check_p4.py"

TABLES = (
    {"direction": "ingress", "match_attributes": {"stage_tables": [{"stage_number": 4}]}},
    {"direction": "ingress", "stage_tables": [{"stage_number": 1}]},
    {"direction": "egress", "stage_tables": [{"stage_number": 6}]},
)
CRASH = "Internal compiler error. Please submit a bug report with your code."
NO_BFAS = "bfas: command not found"
BOTH = (
    "tofino: egress: 7 of 12 stages; estimate: at least 6\n"
    "tofino: ingress: 5 of 12 stages; estimate: at least 5\n"
    "tofino2: egress: 7 of 20 stages; estimate: at least 6\n"
    "tofino2: ingress: 5 of 20 stages; estimate: at least 5\n"
)


@dataclass(frozen=True)
class Compiler:
    """A compiler as these tests need it.

    Attributes:
        targets: What `--target-help` prints.
        assembler: There is one, which writes the tables of context.json.
        attempts: Stages of ingress and egress, by attempt to place tables.
        code: Exit code.
        stderr: What it prints there.
        fails_for: The only target that it fails for; None for all.
    """

    targets: str = "tofino-tna tofino2-t2na"
    assembler: bool = True
    attempts: tuple[tuple[int, int], ...] = ((13, 7), (5, 7))
    code: int = 0
    stderr: str = ""
    fails_for: str | None = None


STANDIN = """#!{python}
import json, sys
from pathlib import Path
made = json.loads({values!r})
arguments = sys.argv[1:]
if arguments == ["--target-help"]:
    print(made["targets"])
    sys.exit(0)
target, arch, folder = (arguments[arguments.index(name) + 1] for name in ("--target", "--arch", "-o"))
assert (target, arch) in (("tofino", "tna"), ("tofino2", "t2na")), arguments
assert Path(arguments[-1]).name == "ncf.p4", arguments
logs = Path(folder) / "pipe" / "logs"
logs.mkdir(parents=True, exist_ok=True)
context = logs.parent / "context.json"
context.write_text(json.dumps({{"tables": []}}))  # the compiler proper writes this, even if it fails
if made["fails_for"] in (None, target) and (made["code"] or made["stderr"]):
    print(made["stderr"], file=sys.stderr)
    if made["code"]:
        sys.exit(made["code"])
if "-g" in arguments:
    with (logs / "table_summary.log").open("w") as log:
        for number, (ingress, egress) in enumerate(made["attempts"], 1):
            print(f"Table allocation done {{number}} time(s), state = INITIAL", file=log)
            print(f"Number of stages in table allocation: {{max(ingress, egress)}}", file=log)
            print(f"  Number of stages for ingress table allocation: {{ingress}}", file=log)
            print(f"  Number of stages for egress table allocation: {{egress}}", file=log)
if "-S" not in arguments:
    if not made["assembler"]:
        print({missing!r}, file=sys.stderr)
        sys.exit(100)
    context.write_text(json.dumps({{"tables": {tables!r}}}))
"""


def check(path: Path, compiler: Compiler | None) -> subprocess.CompletedProcess[str]:
    """Run the tool with a stand-in of the compiler, or with none."""
    if compiler is not None:
        script = path / "p4c"
        script.write_text(
            STANDIN.format(
                python=sys.executable,
                values=json.dumps(asdict(compiler)),
                tables=list(TABLES),
                missing=NO_BFAS,
            ),
            encoding="utf-8",
        )
        script.chmod(0o755)
        if (preprocessor := shutil.which("cpp")) is None:
            pytest.skip("no C preprocessor (package cpp)")
        (path / "cpp").symlink_to(preprocessor)
    return ran([sys.executable, str(TOOL)], env={**os.environ, "PATH": str(path), "PYTHONPATH": str(ROOT)})


def test_without_a_compiler_the_reason_is_printed(tmp_path: Path) -> None:
    done = check(tmp_path, None)
    assert (done.returncode, done.stdout) == (77, "")
    assert done.stderr == "not tried: no bf-p4c or p4c on PATH\n"


def test_a_compiler_for_other_targets_is_none(tmp_path: Path) -> None:
    done = check(tmp_path, Compiler(targets="bmv2 tofino2x"))
    assert done.returncode == 77
    assert done.stderr == (
        f"not tried: {tmp_path / 'p4c'}: no target tofino (p4c is built with ENABLE_TOFINO for it)\n"
    )


def test_stages_of_both_chips_are_printed(tmp_path: Path) -> None:
    done = check(tmp_path, Compiler())
    assert (done.returncode, done.stdout, done.stderr) == (0, BOTH, "")


def test_without_an_assembler_stages_are_those_of_the_last_placement(tmp_path: Path) -> None:
    done = check(tmp_path, Compiler(assembler=False))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == BOTH.replace("stages;", "stages (placed, not assembled: this p4c has no bfas);")


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        (Compiler(code=1, stderr="ncf.p4(3): error: no"), "exit code 1: ncf.p4(3): error: no"),
        (Compiler(code=4, stderr=CRASH), f"exit code 4: {CRASH}"),
        (Compiler(code=4, stderr=CRASH, assembler=False), f"exit code 4: {CRASH}"),
        (Compiler(code=1, stderr="warning: no assembler"), "exit code 1: warning: no assembler"),
        (Compiler(code=100), "exit code 100"),
        (Compiler(stderr="ncf.p4(3): [--Werror=x] error: no"), "it reports an error: ncf.p4(3)"),
        (Compiler(stderr=CRASH), f"it reports an error: {CRASH}"),
        (Compiler(assembler=False, attempts=()), "it reports no stages, neither in context.json nor in"),
        (Compiler(assembler=False, attempts=((0, 0),)), "it reports no stages"),
        (Compiler(assembler=False, attempts=((21, 3),)), "ingress takes 21 stages; tofino has 12"),
    ],
)
def test_failures_fail_for_both_chips(tmp_path: Path, compiler: Compiler, reason: str) -> None:
    done = check(tmp_path, compiler)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"tofino: {tmp_path / 'p4c'}: {reason}" in done.stderr
    assert f"tofino2: {tmp_path / 'p4c'}: " in done.stderr


@pytest.mark.parametrize("target", ["tofino", "tofino2"])
def test_one_chip_that_fails_is_enough(tmp_path: Path, target: str) -> None:
    done = check(tmp_path, Compiler(code=1, stderr="error: no", fails_for=target))
    assert done.returncode == 1
    assert done.stderr == f"{target}: {tmp_path / 'p4c'}: exit code 1: error: no\n"
    assert done.stdout == "".join(
        line for line in BOTH.splitlines(keepends=True) if not line.startswith(f"{target}:")
    )


def test_more_stages_than_one_chip_has_fail_for_that_one(tmp_path: Path) -> None:
    done = check(tmp_path, Compiler(assembler=False, attempts=((14, 3),)))
    assert done.returncode == 1
    assert done.stderr == f"tofino: {tmp_path / 'p4c'}: ingress takes 14 stages; tofino has 12\n"
    assert "tofino2: ingress: 14 of 20 stages" in done.stdout


def test_fewer_stages_than_estimated_show_that_the_estimate_is_wrong(tmp_path: Path) -> None:
    done = check(tmp_path, Compiler(assembler=False, attempts=((5, 4),)))
    assert done.returncode == 0
    assert (
        "egress: 4 of 12 stages (placed, not assembled: this p4c has no bfas); estimate: at least 6, which"
        in (done.stdout)
    )


@pytest.mark.long
def test_a_real_compiler_takes_the_program() -> None:
    done = ran([sys.executable, str(TOOL)], env={**os.environ, "PYTHONPATH": str(ROOT)}, limit_s=7200)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
