# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""kernels/lab/patches/upstream fits the kernel that the lab is made from, and that kernel's own rules."""

import re
import subprocess
from pathlib import Path

import pytest

from l4sbench.disk import assets
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab import source as sources
from l4sbench.testbeds.virtual.lab.cache import Cache
from tests.patience import PATIENCE_S, ran

pytestmark = [pytest.mark.lab, pytest.mark.long]

PATCHES = sorted((assets.folder("kernels") / "lab" / "patches" / "upstream").glob("*.patch"))
RULES = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")


@pytest.fixture(scope="module")
def tree(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those files of the cached kernel source that the patches change, and the script that judges patches."""
    known = sources.cached(Cache.open(lab.kernel.parents[2]))
    if known is None:
        pytest.skip("the cache has no kernel source")
    tree = tmp_path_factory.mktemp("linux")
    touched = re.findall(r"^--- a/(\S+)", "".join(path.read_text() for path in PATCHES), re.MULTILINE)
    wanted = [f"*/{name}" for name in (*sorted(set(touched)), *(f"scripts/{rule}" for rule in RULES))]
    subprocess.run(
        ["tar", "-xf", known.path, "-C", tree, "--strip-components=1", "--wildcards", *wanted],
        env={"XZ_OPT": "-T0", "PATH": "/usr/bin:/bin"},
        check=True,
        timeout=PATIENCE_S,
    )
    return tree


def test_the_patches_apply_in_order(tree: Path) -> None:
    for patch in PATCHES:
        strict = ["patch", "-p1", "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch"]
        done = ran([*strict, "-i", patch], cwd=tree)
        assert (done.returncode, "offset" in done.stdout) == (0, False), (patch.name, done.stdout)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.name)
def test_checkpatch_has_no_remark_but_that_it_is_not_signed(tree: Path, patch: Path) -> None:
    judged = ran(
        ["perl", tree / "scripts" / "checkpatch.pl", "--strict", "--no-tree", "--terse", patch], cwd=tree
    )
    remarks = [line for line in judged.stdout.splitlines() if re.search(r"(ERROR|WARNING|CHECK): ", line)]
    # it looks for commits in the history of Linux, which no tarball has
    expected = ("Missing Signed-off-by:", "Unknown commit id")
    assert [line for line in remarks if not any(part in line for part in expected)] == []
    assert "Missing Signed-off-by:" in judged.stdout
