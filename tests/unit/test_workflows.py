# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Workflows run what contributors run: every step exists, and those of `check.yml` pass in a fresh clone."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.patience import PATIENCE_S, ran

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

pytestmark = pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="needs a git checkout")


def jobs(name: str) -> dict[str, Any]:
    """The jobs of a workflow file."""
    found: dict[str, Any] = YAML(typ="safe").load((WORKFLOWS / name).read_text(encoding="utf-8"))["jobs"]
    return found


def commands(name: str) -> list[list[str]]:
    """Every `run:` step of a workflow, one list of arguments per command."""
    steps = [step["run"] for job in jobs(name).values() for step in job["steps"] if "run" in step]
    return [shlex.split(command) for step in steps for command in step.split(" && ")]


def pythons() -> list[str]:
    """The versions of Python that `check.yml` runs under."""
    versions: list[str] = jobs("check.yml")["check"]["strategy"]["matrix"]["python"]
    return versions


def run(
    argv: list[str], cwd: Path = ROOT, timeout_s: float = PATIENCE_S, **env: str
) -> subprocess.CompletedProcess[str]:
    return ran(argv, cwd=cwd, env=os.environ | env, limit_s=timeout_s)


@pytest.mark.parametrize("name", sorted(path.name for path in WORKFLOWS.glob("*.yml")))
def test_every_step_runs_a_target_or_a_script_of_ours(name: str) -> None:
    assert commands(name)
    for program, *rest in commands(name):
        if program == "apt-get":  # what the container itself lacks
            continue
        # a dry run fails on a target that does not exist, a syntax check on a script that does not
        tried = ["make", "--dry-run", *rest] if program == "make" else ["sh", "-n", program]
        done = run(tried)
        assert done.returncode == 0, done.stderr
        assert program == "make" or os.access(ROOT / program, os.X_OK)


@pytest.mark.parametrize("name", sorted(path.name for path in WORKFLOWS.glob("*.yml")))
def test_what_others_publish_is_named_by_its_content(name: str) -> None:
    """A tag can move; a commit and a digest cannot."""
    for job in jobs(name).values():
        for step in job["steps"]:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step.get("uses", f"a@{'0' * 40}"))
        assert re.fullmatch(r"[\w.:/-]+@sha256:[0-9a-f]{64}", job.get("container", f"a@sha256:{'0' * 64}"))


def test_check_runs_the_checks_and_the_unit_tests() -> None:
    assert commands("check.yml")[-1] == ["make", "check"]
    dry = run(["make", "--dry-run", "check"]).stdout
    for part in ("ruff check", "mypy", "lint-imports", "tools/actionlint.sh", "reuse lint", "tests/unit"):
        assert part in dry


def test_check_covers_every_python_that_the_project_claims() -> None:
    claimed = [
        name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", name)
    ]
    assert pythons() == claimed
    assert PROJECT["requires-python"] == f">={pythons()[0]}"
    assert jobs("check.yml")["check"]["env"]["PYTHON"] == "python${{ matrix.python }}"


def test_actionlint_accepts_the_workflows_and_rejects_a_broken_one(tmp_path: Path) -> None:
    linted = run(["tools/actionlint.sh"], timeout_s=PATIENCE_S)
    if "skipped" in linted.stderr:
        pytest.skip(linted.stderr.strip())
    assert linted.returncode == 0, linted.stdout
    broken = tmp_path / "broken.yml"
    broken.write_text(
        "on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{runs: make}]}}\n", encoding="utf-8"
    )
    assert "runs" in run(["tools/actionlint.sh", str(broken)], timeout_s=PATIENCE_S).stdout


@pytest.mark.long
@pytest.mark.parametrize("version", pythons())
def test_check_passes_in_a_fresh_clone(version: str, tmp_path: Path) -> None:
    python = shutil.which(f"python{version}")
    if python is None or run([python, "-c", "import ensurepip, venv"]).returncode:
        pytest.skip(f"python{version} is not installed")
    clone = tmp_path / "clone"
    assert run(["git", "clone", "--quiet", str(ROOT), str(clone)]).returncode == 0
    for argv in commands("check.yml"):
        done = run(argv, clone, 2700, PYTHON=python)
        assert done.returncode == 0, f"{argv}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert f"python{version}" in {path.name for path in (clone / ".venv" / "lib").iterdir()}
