# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Code that a catalog from outside brings: `plan` never runs it, and `run` only with consent."""

import shutil
from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.app.prepare import prepare
from l4sbench.catalog import Catalog
from l4sbench.catalog.outside import entries_with_code, keep_catalog, settle
from l4sbench.cli import main
from l4sbench.disk import assets
from l4sbench.errors import InputError
from l4sbench.store import Run

ENTRIES = Path(__file__).parents[3] / "lab" / "entries"

MATRIX = """\
matrix: theirs
topology: line6
rate: 10mbit
rtt: 10ms
duration: 4s
trials: 1
catalog: [entries]
aqm: [AQM]
flows:
  l4s:     {cc: mine}
  classic: {cc: reno, ecn: classic}
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A matrix that somebody sent, with a catalog beside it whose Kbuild runs a command."""
    shutil.copytree(ENTRIES, tmp_path / "entries")
    for kbuild in (tmp_path / "entries").glob("*/Kbuild"):
        kbuild.write_text(f"{kbuild.read_text()}$(shell touch {tmp_path}/executed)\n")
    matrix = tmp_path / "theirs.yaml"
    matrix.write_text(MATRIX.replace("[AQM]", "fifo"))
    return matrix


def test_plan_builds_nothing_and_names_the_code(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(theirs)]) == 0
    shown = capsys.readouterr()
    module = tmp_path / "entries" / "mine" / "module.yml"
    assert f"{module}: mine: carries code that was not trusted yet: Kbuild, tcp_mine.c; look at" in shown.err
    assert "then run with --trust (l4sbench docs security)" in shown.err
    assert "sch_mine" not in shown.err  # no cell uses it
    assert "1 cell, 1 trial (1 new)" in shown.out
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("command", [["run"], ["run", "--detach"], ["plan", "--export", "by-hand"]])
def test_nothing_that_builds_goes_on_without_consent(
    theirs: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, str(theirs)]) == 2
    assert "mine: carries code that was not trusted yet" in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "by-hand").exists()


def test_consent_is_remembered_until_the_code_changes(theirs: Path, tmp_path: Path) -> None:
    assert prepare(theirs, [], api.RunOptions()).settled.untrusted
    assert not prepare(theirs, [], api.RunOptions(trust=True)).settled.untrusted
    settled = prepare(theirs, [], api.RunOptions()).settled
    assert not settled.untrusted
    assert settled.modules["tcp_mine"].is_relative_to(tmp_path / "state")
    assert (
        settled.catalog.congestion_control("mine").module
        == settled.catalog.congestion_controls["mine"].module
    )
    with (tmp_path / "entries" / "mine" / "tcp_mine.c").open("a") as file:
        file.write("/* changed */\n")
    assert prepare(theirs, [], api.RunOptions()).settled.untrusted
    # nobody was asked about the queue
    theirs.write_text(MATRIX.replace("[AQM]", "mine-q"))
    assert len(prepare(theirs, [], api.RunOptions()).settled.untrusted) == 2


def test_an_export_takes_the_trusted_files_and_no_others(theirs: Path, tmp_path: Path) -> None:
    (tmp_path / "entries" / "mine" / "dkms.conf").write_text('PACKAGE_VERSION="1"\nPRE_BUILD="evil.sh"\n')
    (tmp_path / "entries" / "mine" / "evil.sh").write_text("touch /executed\n")
    assert main(["plan", str(theirs), "--export", "by-hand", "--trust"]) == 0
    copied = sorted(path.name for path in (tmp_path / "by-hand" / "modules" / "tcp_mine").iterdir())
    assert copied == ["Kbuild", "dkms.conf", "module.yml", "tcp_mine.c"]


def test_a_run_keeps_what_is_needed_and_follows_no_links(theirs: Path, tmp_path: Path) -> None:
    entries = tmp_path / "entries"
    (tmp_path / "secret").write_text("a private key")
    (entries / "mine" / "notes.txt").symlink_to(tmp_path / "secret")
    run = tmp_path / "run"
    run.mkdir()
    keep_catalog(run, Catalog.load([entries]))
    kept = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    assert kept == [
        *("catalog/mine-q/Kbuild", "catalog/mine-q/module.yml", "catalog/mine-q/sch_mine.c"),
        *("catalog/mine/Kbuild", "catalog/mine/module.yml", "catalog/mine/tcp_mine.c"),
    ]
    assert entries_with_code(kept) == ("mine", "mine-q")
    assert entries_with_code(["matrix.yaml", "catalog/codel-slow/module.yml", "Kbuild"]) == ()
    (entries / "mine" / "linked.h").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="is a link"):
        keep_catalog(run, Catalog.load([entries]))


def test_consent_holds_for_the_copy_in_a_run_and_only_for_it(theirs: Path, tmp_path: Path) -> None:
    prepare(theirs, [], api.RunOptions(trust=True))
    run = Run.create(tmp_path / "runs", "theirs", theirs.read_bytes(), 1, {}).path  # as in an unpacked bundle
    keep_catalog(run, api.load_matrix(theirs).catalog)
    assert not prepare(run / "matrix.yaml", [], api.RunOptions()).settled.untrusted
    with (run / "catalog" / "mine" / "Kbuild").open("a") as file:
        file.write("$(shell id)\n")
    assert prepare(run / "matrix.yaml", [], api.RunOptions()).settled.untrusted
    # what is kept of a run is not lost when more is added
    fifo = tmp_path / "more" / "my-fifo" / "module.yml"
    fifo.parent.mkdir(parents=True)
    fifo.write_text(
        (assets.folder("kernels") / "fifo" / "module.yml").read_text().replace("name: fifo", "name: my-fifo")
    )
    keep_catalog(run, Catalog.load([run / "catalog", tmp_path / "more"]))
    assert (run / "catalog" / "mine" / "tcp_mine.c").exists()
    assert (run / "catalog" / "my-fifo" / "module.yml").exists()


def test_a_bundle_names_the_entries_with_code(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "theirs" / "20260102T030405Z"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    assert main(["bundle", str(run), "-o", "without.tar.gz"]) == 0
    keep_catalog(run, Catalog.load([tmp_path / "entries"]))
    assert main(["bundle", str(run), "-o", "with.tar.gz"]) == 0
    assert main(["bundle", "--check", "without.tar.gz"]) == 0
    assert "carries code" not in capsys.readouterr().err
    said = "it carries code, of mine, mine-q; a run uses it only with --trust (l4sbench docs security)\n"
    assert main(["bundle", "--check", "with.tar.gz"]) == 0
    assert capsys.readouterr().err == said
    assert main(["bundle", "--unpack", "with.tar.gz", "--dir", "other"]) == 0
    assert capsys.readouterr().err == said


def test_a_path_through_the_projects_folder_does_not_make_code_ours(tmp_path: Path) -> None:
    shutil.copytree(ENTRIES, tmp_path / "entries")
    kernels = assets.folder("kernels")
    through = kernels / Path(*[".."] * (len(kernels.parts) - 1)) / (tmp_path / "entries").relative_to("/")
    catalog = Catalog.load([through])
    used = [catalog.congestion_control("mine"), catalog.congestion_control("prague")]
    assert len(settle(catalog, used, consent=False).untrusted) == 1
