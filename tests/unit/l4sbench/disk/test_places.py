# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Where state is kept."""

from pathlib import Path

import pytest

from l4sbench.disk.places import state_folder


def test_on_the_hub_state_is_below_the_folder_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    usual = tmp_path / ".local" / "state" / "l4sbench"
    (tmp_path / "work").mkdir()
    assert state_folder() == usual
    monkeypatch.setenv("JUPYTERHUB_USER", "tester")
    assert state_folder() == tmp_path / "work" / ".l4sbench"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    assert state_folder() == tmp_path / "own" / "l4sbench"
    # a Hub that keeps something else
    monkeypatch.delenv("XDG_STATE_HOME")
    (tmp_path / "work").rmdir()
    assert state_folder() == usual
