# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`lab bisect` finds a wrong commit of ours in CoDel, in a kernel tree with a history of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import BuildOptions, Lab, build
from l4sbench.testbeds.virtual.lab import source as sources
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.kernel import unpack
from tests.lab.caches import copy_lab
from tests.patience import ran

pytestmark = [pytest.mark.lab, pytest.mark.long]

ROOT = Path(__file__).parents[2]
CODEL = "include/net/codel_impl.h"
RIGHT = "rec_inv_sqrt << REC_INV_SQRT_SHIFT)"
WRONG = "rec_inv_sqrt << REC_INV_SQRT_SHIFT) + 16 * interval"
MATRIX = """\
matrix: small
rate: 20mbit
rtt: 20ms
duration: 8s
trials: 6
rule: pam25
aqm: codel
buffer_bdp: 8
flows:
  l4s: {cc: prague}
  classic: {cc: cubic, ecn: classic}
"""


def git(tree: Path, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null")
    return ran(["git", "-C", str(tree), *own, *words], limit_s=3600, check=True)


def change(tree: Path, file: str, old: str, new: str, subject: str) -> str:
    path = tree / file
    text = path.read_text()
    assert text.count(old) >= 1, (file, old)
    path.write_text(text.replace(old, new, 1))
    git(tree, "commit", "-qam", subject)
    return git(tree, "rev-parse", "HEAD").stdout.strip()


@pytest.fixture
def history(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str, str, str]:
    """A tree with its good, its wrong and its last commit, and a cache of the test's own."""
    known = sources.cached(Cache.open(lab.kernel.parents[2]))
    if known is None:
        pytest.skip("the cache has no kernel source")
    tree, cache = tmp_path / "linux", tmp_path / "cache" / "l4sbench"
    tree.mkdir()
    unpack(Commands.logging_to(tmp_path / "unpack.log", {}), known, tree)
    git(tree, "init", "-q")
    git(tree, "add", "-Af")  # Debian ignores all files
    git(tree, "commit", "-qm", "Linux")
    good = git(tree, "rev-parse", "HEAD").stdout.strip()
    red, seen = "net/sched/sch_red.c", "Codel - The Controlled-Delay Active Queue Management algorithm"
    change(tree, red, "Random Early Detection queue", "Random Early Detection queue, ours", "red: a comment")
    change(tree, CODEL, seen, f"{seen}, ours", "codel: a comment")
    wrong = change(tree, CODEL, RIGHT, WRONG, "codel: simplify the control law")
    change(tree, CODEL, f"{seen}, ours", seen, "codel: revert the comment")
    change(tree, red, "queue, ours", "queue", "red: revert the comment")
    copy_lab(lab, cache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tree, good, wrong, git(tree, "rev-parse", "HEAD").stdout.strip()


def test_bisection_finds_the_wrong_commit(history: tuple[Path, str, str, str], tmp_path: Path) -> None:
    tree, good, wrong, last = history
    matrix = tmp_path / "small.yaml"
    matrix.write_text(MATRIX)
    git(tree, "checkout", "-q", good)
    build(BuildOptions(kernel_tree=tree, name="bisect", keep_tree=True))
    base = api.run(matrix, runs=tmp_path / "runs", lab="bisect")
    assert base.result.exit_code == 0
    git(tree, "bisect", "start", last, good)
    step = [sys.executable, "-m", "l4sbench", "lab", "bisect", str(base.path), "--kernel-tree", "."]
    ended = ran(["git", "bisect", "run", *step], cwd=tree, limit_s=3600)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    assert re.search(rf"^{wrong} is the first '?bad'? commit", said, re.MULTILINE), said
    assert "bad: 1 of 1 cells got worse" in said
    assert "good: none of 1 cells got worse" in said

    # a commit that does not build is left out, and nothing else ends with a code that means bad
    (tree / CODEL).write_text("#error\n")
    broken = ran(step, cwd=tree, limit_s=3600)
    assert broken.returncode == 125, broken.stderr
    assert "skip: this kernel does not build" in broken.stdout
    for words in (
        ["--kernel-tree", "/nowhere"],
        ["--kernel-tree", "/"],
        ["--kernel-tree", ".", "aqm=nothing"],
    ):
        odd = ran([*step[:6], *words], cwd=tree)
        assert odd.returncode == 255, odd.stderr

    # what was compiled step by step is what is compiled at once
    git(tree, "checkout", "-qf", good)
    kept = build(BuildOptions(kernel_tree=tree, name="bisect", keep_tree=True))
    assert kept.digests.kernel == Lab.locate(name="bisect").digests.kernel
    assert kept.kernel.stat().st_size > 1_000_000
