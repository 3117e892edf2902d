# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The examples that are programs."""

import shutil
from pathlib import Path

import pytest

from tests.lab.udp import udp_l4s


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no compiler")
def test_a_program_has_the_same_bytes_in_every_folder(tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "another" / "and longer"
    for folder in folders:
        folder.mkdir(parents=True)
    first, second = (udp_l4s(folder).read_bytes() for folder in folders)
    assert first == second
