# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs that are damaged, are read by several at once, or cannot be written."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import fromstring

import polars as pl
import pytest

from l4sbench import tables
from l4sbench.cli import main
from l4sbench.errors import InputError
from l4sbench.store import Run
from tests.captured import as_matrix, captured_trial
from tests.patience import PATIENCE_S

ROOT: Final = Path(__file__).parents[3]
META: Final = {"l4sbench.format": str(tables.FORMAT)}


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of captured trials with its tables and its report."""
    names = ("lean-dualpi2", "captured-dualpi2")
    source, (lean, captured) = as_matrix("mine", *map(captured_trial, names))
    run = Run.create(tmp_path_factory.mktemp("whole"), "mine", source, 1, {})
    for number in (1, 2):
        lean.store(run, number)
    captured.store(run)
    assert main(["collect", str(run.path)]) == 0
    assert main(["report", str(run.path)]) == 0
    return run.path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of the run, to damage."""
    return shutil.copytree(whole, tmp_path / "mine" / whole.name, symlinks=True)


def table(run: Path, name: str) -> Path:
    return run / "tables" / f"{name}.parquet"


def rewrite(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        meta = META | {"l4sbench.table": path.stem}
        change(pl.read_parquet(path)).write_parquet(path, metadata=meta)

    return damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Damage the data and leave the metadata, so that the damage shows only when values are read."""
    data = bytearray(path.read_bytes())
    data[8 : len(data) // 3] = bytes(len(data) // 3 - 8)
    path.write_bytes(bytes(data))


def huge_metadata(path: Path) -> None:
    meta = META | {"l4sbench.table": path.stem, "more": "x" * (17 << 20)}
    pl.read_parquet(path).write_parquet(path, metadata=meta)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("damaged")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def other_table(path: Path) -> None:
    shutil.copy(path.with_name("hosts.parquet"), path)


DAMAGES: Final[dict[str, Callable[[Path], None]]] = {
    "removed": Path.unlink,
    "empty": empty,
    "folder": folder,
    "text": text,
    "cut": cut,
    "flipped": flip,
    "huge metadata": huge_metadata,
    "other table": other_table,
    "no format": lambda path: pl.read_parquet(path).write_parquet(path),
    "long format": lambda path: pl.read_parquet(path).write_parquet(
        path, metadata={"l4sbench.format": "1" * 5000}
    ),
    "no columns": rewrite(lambda frame: frame.select("cell", "trial")),
    "nulls": rewrite(lambda frame: frame.with_columns(pl.lit(None, pl.String).alias("cell"))),
    "other type": rewrite(lambda frame: frame.with_columns(pl.lit(True).alias("trial"))),
    "text for numbers": rewrite(lambda frame: frame.with_columns(pl.selectors.float().cast(pl.String))),
    "strange cells": rewrite(lambda frame: frame.with_columns(pl.lit("../../x").alias("cell"))),
}


@pytest.mark.parametrize("words", [("compare", "RUN", "RUN"), ("bundle", "RUN", "-o", "OUT")])
def test_trials_that_ended_since_count(
    words: Sequence[str], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table(run, "trials").read_bytes()
    table(run, "trials").unlink()  # as if the tables had never been written to the end
    places = {"RUN": str(run), "OUT": str(tmp_path / "mine.tar.gz")}
    assert main([places.get(word, word) for word in words]) == 0
    assert capsys.readouterr().err.count("collected 3 trials that the tables did not have") == 1
    assert table(run, "trials").read_bytes() == before


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["trials", "flows"])
def test_a_damaged_table_is_named_and_mended(
    name: str, damage: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table(run, name).read_bytes()
    DAMAGES[damage](table(run, name))
    code = main(["report", str(run), "--json"])
    if (name, damage) == ("trials", "removed"):  # as if the tables had never been written to the end
        assert code == 0
        assert "collected 3 trials that the tables did not have" in capsys.readouterr().err
        assert table(run, name).read_bytes() == before
        return
    assert code == 2
    shown = capsys.readouterr().err
    assert f"{name}.parquet" in shown or f"{run} has no tables" in shown
    assert f"l4sbench collect --full {run}" in shown
    if damage != "folder":
        assert main(["collect", "--full", str(run)]) == 0
        assert table(run, name).read_bytes() == before


@pytest.mark.parametrize("name", ["catalog", "programs", "sockets", "verdicts"])
def test_other_tables_too(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cut if name in ("catalog", "programs") else other_table)(table(run, name))
    code = main(["report", str(run)])
    shown = capsys.readouterr().err
    assert code == (0 if name == "verdicts" else 2), shown
    assert code == 0 or f"{name}.parquet" in shown
    assert main(["collect", "--full", str(run)]) in (0, 1)
    assert main(["report", str(run)]) == 0


def test_trials_are_not_added_to_damaged_tables(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder,) = run.glob("cells/*/2-*")
    elsewhere = folder.rename(run.parent / folder.name)
    assert main(["collect", str(run)]) == 0
    elsewhere.rename(folder)
    before = table(run, "flows").read_bytes()
    cut(table(run, "sockets"))
    capsys.readouterr()
    assert main(["report", str(run)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        f"error: {table(run, 'sockets')} is not a table of l4sbench, or is damaged; "
        f"`l4sbench collect --full {run}` writes the tables again\n"
    )
    assert table(run, "flows").read_bytes() == before
    assert main(["collect", "--full", str(run)]) == 0
    assert main(["report", str(run)]) == 0


def test_compare_names_the_damaged_run(whole: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(lambda frame: frame.drop("goodput_mbps"))(table(run, "flows"))
    assert main(["compare", str(whole), str(run)]) == 2
    assert f"{table(run, 'flows')} is damaged: column goodput_mbps is missing" in capsys.readouterr().err


def test_a_bug_is_still_a_bug(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reports.render.documents.entries_csv", lambda _: 1 / 0)
    assert main(["report", str(run)]) == 4


METADATA: Final[tuple[str, ...]] = ("", "[]", "7", "null", "{}", "\0", '{"format": 1}', "[" * 100_000)


@pytest.mark.parametrize(
    "text", [*METADATA, '{"format": 1, "matrix": 5}', '{"format": "x"}', '{"format": 99}']
)
def test_damaged_manifests(text: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "manifest.json").write_text(text)
    assert main(["collect", str(run)]) == 2
    assert "manifest.json" in capsys.readouterr().err


def test_every_command_refuses_a_run_of_a_newer_format(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "manifest.json").write_text('{"format": 99}')
    for command in ("show", "report", "collect", "bundle"):
        assert main([command, str(run)]) == 2
        told = capsys.readouterr().err
        assert "manifest.json has format 99, and this l4sbench (" in told
        assert told.endswith("; install the newer l4sbench that wrote it\n")


def test_a_run_without_a_manifest_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "manifest.json").unlink()
    home = run.parent
    monkeypatch.chdir(home)
    latest = home / "runs" / "mine" / "latest"
    latest.mkdir(parents=True)
    for given, named in ((f"./{run.name}", f"./{run.name}"), ("mine", "runs/mine/latest"), ("", ".")):
        assert main(["report", given]) == 2
        assert capsys.readouterr().err == (
            f"error: {named} has no manifest.json, so it is no run directory\n"
        )
    (latest.parents[1] / "whole" / "latest").mkdir(parents=True)
    (latest.parents[1] / "whole" / "latest" / "manifest.json").touch()
    assert main(["report", "mine"]) == 2
    assert capsys.readouterr().err.endswith(", so it is no run directory; choose from whole\n")


def test_damaged_trials_are_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = min(run.glob("cells/*/*/trial.json"))
    plain = json.loads(path.read_text())
    unread = ("format", "l4sbench", "started", "ended", "cpu_s", "cell_id")
    values: tuple[object, ...] = (None, {}, "x\x1b[31m", -1, True, 1e400)
    changed = [
        json.dumps(damaged)
        for key in plain
        if key not in unread
        for damaged in (plain | {key: value} for value in values)
    ]
    changed += [
        json.dumps({name: plain[name] for name in plain if name != key})
        for key in plain
        if key not in (*unread, "faults")  # older versions wrote no faults
    ]
    for text in (*METADATA, *changed):
        path.write_text(text)
        with pytest.raises(InputError) as raised:
            list(Run.open(run).ended())
        assert str(path.parent) in str(raised.value), text[:200]
    assert main(["collect", "--full", str(run)]) == 2
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_ends_well(seed: int, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(seed)
    name = draw.choice(["trials", "flows", "catalog", "programs", "hosts"])
    path = table(run, name)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[-8:-4], "little")
    for _ in range(draw.choice([1, 3, 20])):  # in the metadata
        data[len(data) - 9 - draw.randrange(size)] = draw.randrange(256)
    path.write_bytes(bytes(data))
    code = main(["report", str(run), "--json"])
    assert code in (0, 2), capsys.readouterr().err
    assert main(["collect", "--full", str(run)]) == 0


def command(*words: str | Path, wrapper: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*wrapper, sys.executable, "-m", "l4sbench", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def content(run: Path) -> dict[str, str]:
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in ("tables", "report")
        for path in sorted((run / folder).rglob("*"))
        if path.is_file()
    }


def test_several_at_the_same_time(whole: Path, run: Path) -> None:
    shutil.rmtree(run / "report")
    words = ("report", "report", "collect", "report")
    processes = [command(word, run) for word in words]
    for process in processes:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, (out, err)
    assert content(run) == content(whole)
    assert not [path for path in run.rglob("*") if path.name.endswith(".partial")]


MOUNT: Final = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


@pytest.fixture
def read_only(run: Path) -> Iterator[list[str]]:
    """The command that runs another one for which the run directory is read-only.

    Modes do that for a user, and for root, who ignores modes, a mount that only this command sees.
    """
    folders = [path for path in (run, *run.rglob("*")) if path.is_dir()]
    if os.geteuid() == 0:
        wrapper = ["unshare", "--mount", "sh", "-c", MOUNT, str(run)]
        if subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode:
            pytest.skip("this root may not mount")
        yield wrapper
        return
    for folder in folders:
        folder.chmod(0o555)
    yield []
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.long
def test_what_cannot_be_written_can_be_read(run: Path, read_only: list[str], tmp_path: Path) -> None:
    def ended(*words: str | Path) -> tuple[int, str, str]:
        process = command(*words, wrapper=read_only)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    place = tmp_path / "place"
    place.mkdir()
    before = content(run)
    code, out, err = ended("report", run)
    assert (code, "cannot be written" in err, "-o DIR" in err) == (0, True, True), err
    assert "Is it okay to switch" in out
    code, _, err = ended("report", run, "-o", place / "out")
    assert code == 0, err
    written = hashlib.sha256((place / "out" / "decision.md").read_bytes()).hexdigest()
    assert written == before["report/decision.md"]
    assert (place / "out" / "index.html").is_file()
    for words in (("compare", run, run), ("bundle", run, "-o", place / "run.tar.gz")):
        code, _, err = ended(*words)
        assert code == 0, err
    code, _, err = ended("report", run, "--figures", "--format", "json")
    assert (code, "--figures DIR" in err) == (2, True), err
    code, _, err = ended("report", run, "--figures", place / "figures", "--format", "json")
    assert code == 0, err
    code, _, err = ended("collect", "--full", run)
    assert (code, "-o DIR" in err) == (2, True), err
    code, _, err = ended("collect", "--full", run, "-o", place / "run")
    assert code == 0, err
    assert main(["report", str(place / "run")]) == 0
    assert content(run) == before
    # the page links the files beside it, and the copy has no trials
    elsewhere = content(place / "run")
    assert elsewhere.keys() == before.keys()
    assert {name for name in before if elsewhere[name] != before[name]} <= {"report/index.html"}


def test_a_report_elsewhere_removes_nothing_of_a_user(run: Path, tmp_path: Path) -> None:
    own = tmp_path / "out" / "data" / "mine.csv"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    assert main(["report", str(run), "-o", str(tmp_path / "out")]) == 0
    assert own.read_text() == "mine"
    assert main(["report", str(run), "-o", str(own)]) == 2
    assert main(["collect", str(run), "-o", str(own.parent)]) == 2
    assert own.read_text() == "mine"


@pytest.mark.parametrize(
    "name",
    ["index.html", *(pytest.param(each, marks=pytest.mark.long) for each in ("decision.md", "cells.csv"))],
)
def test_a_report_elsewhere_replaces_its_own_files_only(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    figures = ["report", str(run), "--figures", str(out), "--format", "json", "--series", "none"]
    for words in (["report", str(run), "-o", str(out)], *([figures] if name == "index.html" else [])):
        assert main(words) == 2
        assert f"{out / name} exists, and is not of a report of l4sbench" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(name, "mine")]
    (out / name).rename(out / "notes")
    for _ in range(2):  # its own files are replaced
        assert main(["report", str(run), "-o", str(out)]) == 0
    assert main(figures) == main(figures) == 0
    assert (out / "notes").read_text() == "mine"


def refused_then_replaced(words: list[str], file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that a command leaves a file of somebody else's alone, and replaces its own and an empty one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    assert main(words) == 2
    assert f"{file} exists, and is not " in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in file.parent.iterdir()] == [(file.name, "mine")]
    own = file.parent.parent / "own"
    file.rename(own)
    file.symlink_to(own)
    assert main(words) == 2
    assert f"{file} exists, and is not " in capsys.readouterr().err
    file.unlink()
    file.touch()
    for _ in range(2):
        assert main(words) == 0
        assert file.stat().st_size
        assert not file.is_symlink()
    assert own.read_text() == "mine"


def test_other_outputs_replace_their_own_files_only(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "junit" / "compare.xml"
    refused_then_replaced(["compare", str(run), str(run), "--junit", str(junit)], junit, capsys)
    graph = tmp_path / "graph" / "slice.graphml"
    plan = ["slice", "plan", "x1", "--offline", "--graph", str(graph)]
    refused_then_replaced(plan, graph, capsys)
    assert fromstring(graph.read_text()).tag.endswith("graphml")


@pytest.mark.parametrize("place", [["--flent", "OUT"], ["-o", "OUT", "--flent"]], ids=["flent", "output"])
def test_files_for_flent_replace_their_own_only(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: list[str]
) -> None:
    probe = tmp_path / "probe"
    assert main(["report", str(run), "--flent", str(probe)]) == 0
    name = max(path.name for path in probe.iterdir())
    out = tmp_path / "out"
    file = (out if place[0] == "--flent" else out / "flent") / name
    words = ["report", str(run), *(str(out) if word == "OUT" else word for word in place)]
    refused_then_replaced(words, file, capsys)


def test_claims_beside_a_report_elsewhere(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "mine.yml"
    study.write_text(
        "study: mine\nabout: A claim.\nsource: me\nfactor: l4s.cc\nschemes: [prague]\n"
        "settings: [aqm, capture, rate_mbps, rtt_ms, sample.interval_ms]\nshown: [{measure: goodput_mbps}]\n"
    )
    out = tmp_path / "out"
    words = ["report", str(run), "--claims", str(study), "-o", str(out)]
    refused_then_replaced(words, out / "claims-mine.md", capsys)
