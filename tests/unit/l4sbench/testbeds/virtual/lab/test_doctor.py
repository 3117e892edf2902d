# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Missing programs are reported before anything is built, with one command that mends all."""

from pathlib import Path

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab import BuildOptions, build, doctor
from l4sbench.testbeds.virtual.lab.doctor import PROGRAMS


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with tar and apt-get only."""
    for name in ("tar", "apt-get"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_one_command_mends_all_that_is_missing(bare_machine: Path) -> None:
    checks = {check.name: check for check in doctor(bare_machine / "cache")}
    missing = {name for name in PROGRAMS if not checks[name].ok}
    assert missing == set(PROGRAMS) - {"tar", "apt-get"}
    (mend,) = {checks[name].mend for name in (*missing, "libc.a")}
    assert mend is not None
    for name in missing:
        assert f" {PROGRAMS[name]}" in mend
    assert mend.endswith(" xz-utils")
    assert "libc6-dev" in mend
    assert {package for check in checks.values() for package in check.packages} == {
        *(PROGRAMS[name] for name in missing),
        "libc6-dev",
    }


def test_build_refuses_with_the_same_command(bare_machine: Path) -> None:
    mend = next(check.mend for check in doctor(bare_machine / "cache") if check.name == "gcc")
    with pytest.raises(TestbedError, match="gcc: not found") as caught:
        build(BuildOptions(cache=bare_machine / "cache"))
    assert mend is not None
    assert mend in (caught.value.hint or "")
    assert not (bare_machine / "cache").exists()


def test_a_cache_where_make_cannot_work_is_told(tmp_path: Path) -> None:
    checks = {check.name: check for check in doctor(tmp_path / "my cache")}
    assert not checks["cache folder"].ok
    assert "blank" in checks["cache folder"].detail
