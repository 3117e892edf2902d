# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""No command reads or writes through a link in a run directory; the error names the link."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from l4sbench.cli import main
from tests.attack.hostile import make_run

SECRET = "hunter2-of-somebody"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with tables and a report."""
    run = make_run(tmp_path_factory.mktemp("runs")).resolve()
    assert main(["report", str(run)]) == 0
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "base" / "20260102T030405Z", symlinks=True)
    return tmp_path / "base" / "20260102T030405Z"


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


COMMANDS = {
    "report": ("report", "{run}"),
    "report --json": ("report", "{run}", "--json"),
    "figures": ("report", "{run}", "--figures", "--format", "json"),
    "collect": ("collect", "{run}", "--full"),
    "collect -o": ("collect", "{run}", "-o", "{run}/../../out"),
    "bundle": ("bundle", "{run}", "-o", "{run}/../../out.tar.gz"),
    "plan": ("plan", "{run}/matrix.yaml"),
    "show": ("show", "{run}"),
    "run": ("run", "{run}/matrix.yaml"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", ["report", "tables", "report/data", "cells", "cells/*", "cells/*/1-*"])
def test_a_linked_folder_is_refused_and_left_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, place: str
) -> None:
    folder = min(run.glob(place))
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    before = digests(tmp_path / "elsewhere")
    capsys.readouterr()
    assert main([word.format(run=run) for word in COMMANDS[command]]) == 2
    assert f"{folder}: is a link" in capsys.readouterr().err
    assert digests(tmp_path / "elsewhere") == before
    assert not (tmp_path / "out.tar.gz").exists()


@pytest.mark.parametrize("name", ["matrix.yaml", "manifest.json", ".lock", "catalog/x/module.yml"])
def test_a_linked_file_that_is_read_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "secret")
    for words in COMMANDS.values():
        capsys.readouterr()
        code = main([word.format(run=run) for word in words])
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err
        assert (code, f"{run / name}: is a link" in said.err) == (2, True)
    assert (tmp_path / "secret").read_text() == SECRET


def test_links_at_files_of_a_report_are_replaced(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for name in ("report/decision.md", "report/index.html", "cost.json"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(tmp_path / "mine")
    assert main(["report", str(run)]) == 0
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (run / "report" / "index.html").is_symlink()


def test_raw_files_are_not_read_through_links(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder, *_) = run.glob("cells/*/1-*/raw/*/")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert main(["collect", str(run), "--full"]) == 1
    assert f"{folder.name} is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["matrix.yaml", "catalog/queues/mine.yml", "executables/program"])
def test_tables_elsewhere_do_not_wait_for_a_fifo(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """No writer of it comes, so that reading it would not end."""
    (run / place).parent.mkdir(parents=True, exist_ok=True)
    (run / place).unlink(missing_ok=True)
    os.mkfifo(run / place)
    assert main(["collect", str(run), "-o", str(tmp_path / "out")]) == 2
    assert f"{run / place}: cannot be read: it is a FIFO" in capsys.readouterr().err.replace("\n", " ")
