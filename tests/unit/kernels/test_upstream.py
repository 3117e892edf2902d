# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Patches for the kernel's mailing lists: as mail, and no part of the lab."""

import re
import tomllib
from pathlib import Path

import pytest

from l4sbench.disk import assets
from l4sbench.testbeds.virtual.lab.inputs import Inputs

FOLDER = assets.folder("kernels") / "lab" / "patches" / "upstream"
PATCHES = sorted(FOLDER.glob("*.patch"))
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.name)
def test_a_patch_is_a_mail_that_its_sender_has_yet_to_sign(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head, _, diff = text.partition("\n---\n")
    subject = r"^Subject: \[(RFC )?PATCH[^]]*\] (um|net/sched: sch_dualpi2|tcp): \S"
    assert re.search(subject, head, re.MULTILINE)
    assert "Signed-off-by" not in text
    assert diff.count("\ndiff --git a/") == len(re.findall(r"^--- a/", diff, re.MULTILINE)) > 0
    assert max(map(len, head.partition("\n\n")[2].splitlines())) <= 75


def test_the_readme_lists_each_file() -> None:
    listed = {*(FOLDER / "README.md").read_text(encoding="utf-8").split("`"), "README.md"}
    assert [path.name for path in FOLDER.iterdir() if path.name not in listed] == []
    assert len(PATCHES) == 5


def test_the_lab_is_built_without_them() -> None:
    assert {path.parent for path in Inputs.read().patches} == {FOLDER.parent}


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="looks at a checkout")
def test_they_are_not_in_the_wheel_and_are_under_the_kernels_licence() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert f"/{FOLDER.relative_to(ROOT)}" in wheel["exclude"]
    kernel = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"][-1]
    assert (kernel["path"], kernel["SPDX-License-Identifier"]) == (["kernels/lab/patches/**"], "GPL-2.0-only")
