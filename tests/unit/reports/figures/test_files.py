# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Figures as files, and the command that writes them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import l4sbench
from l4sbench import tables as schemas
from l4sbench.cli import main
from l4sbench.errors import InputError
from reports.figures import figures, formats, goodput_map, javascript, save, sheets, write
from reports.figures.files import INDEX
from reports.figures.save import with_lengths
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.unit.reports.conftest import Make

BEGINNINGS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF-"}


def run_of(tables: RunTables) -> Path:
    return tables.folder.parent


@pytest.mark.long
def test_every_figure_in_every_format(real: RunTables, tmp_path: Path) -> None:
    decision = decide(real, load_rule("pam25"))
    forms = ("svg", "png", "pdf")
    announced: list[str] = []
    written = write(figures(real, decision), tmp_path / "out", forms, lambda one: announced.append(one.name))
    names = [one.name for one in written]
    assert announced == names
    assert len(set(names)) == len(names)
    assert any(name.startswith("goodput_") for name in names)
    assert any(name.startswith("delay_") for name in names)
    assert sum(name.startswith("series_") for name in names) == real.trials.height
    for one in written:
        assert [path.suffix for path in one.files] == [f".{form}" for form in forms]
        for path in one.files:
            assert path.read_bytes().startswith(BEGINNINGS[path.suffix.removeprefix(".")])
            assert re.fullmatch(r"[A-Za-z0-9.+_-]+", path.name)
    page = (tmp_path / "out" / INDEX).read_text()
    for one in written:
        assert f'href="{one.files[0].name}"' in page
        assert one.caption.replace("'", "&#x27;") in page
    assert not list((tmp_path / "out").glob(".*"))


def test_pages_load_nothing(make: Make, tmp_path: Path) -> None:
    decision = decide(make([{"aqm": "fifo", "l4s": [50], "classic": [40]}]), load_rule("pam25"))
    (sheet,) = sheets(decision)
    chart = goodput_map(sheet, decision.rule)
    spec = json.loads(save(chart, tmp_path / "map.json").read_text())
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/v6")
    page = save(chart, tmp_path / "map.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert re.findall(r"<(?:script[^>]+src|link[^>]+href)=", page) == []
    for name in ("vegaEmbed", "vegaLite", "vega"):
        assert f"window.{name}" in javascript()


def test_formats() -> None:
    assert formats("svg, PDF,svg") == ("svg", "pdf")
    with pytest.raises(InputError, match="did you mean png"):
        formats("pgn")
    with pytest.raises(InputError, match="no format"):
        formats(",")


def test_the_command(real: RunTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(run_of(real))
    argv = [
        "report",
        run,
        "--figures",
        str(tmp_path / "f"),
        "--series",
        "none",
        "--json",
        "--all",
        "--no-title",
    ]
    assert main(argv) == 0
    printed = capsys.readouterr()
    listed = json.loads(printed.out)
    assert {entry["name"].split("_")[0] for entry in listed} >= {"goodput", "delay"}
    assert all(Path(file).is_file() for entry in listed for file in entry["files"])
    index = (tmp_path / "f" / INDEX).read_text(encoding="utf-8")
    name = f"{Path(run).parent.name}/{Path(run).name}"
    assert f"<code>l4sbench report {name} --figures --all --series none --no-title</code>" in index
    contents, drawn = (
        re.findall(pattern, index) for pattern in (r'href="#([^"]+)"', r'<figure id="([^"]+)"')
    )
    assert sorted(contents) == sorted(drawn)
    begins, *lines = printed.err.splitlines()
    assert re.match(r"drawing figures of \d+ cells into ", begins)
    assert len(lines) >= len(listed), "a line per figure, when it is drawn"


def test_a_filter_behind_figures_is_no_folder(
    real: RunTables, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(real)
    monkeypatch.chdir(run)
    # no cell of the captured trials is in the matrix: the error is that nothing matches
    assert main(["report", str(run), "--figures", "aqm=fifo"]) == 2
    assert "no trial of a cell that matches all filters" in capsys.readouterr().err
    assert not list(run.glob("aqm*"))


def test_nothing_to_show(real: RunTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(run_of(real), run)
    assert main(["report", str(run), "--figures", "--format", "bmp"]) == 2
    assert "figures cannot be written as bmp" in capsys.readouterr().err
    (run / "tables" / "trials.parquet").unlink()
    shutil.rmtree(run / "cells")  # otherwise report collects them
    assert main(["report", str(run), "--figures"]) == 2
    assert "has no tables" in capsys.readouterr().err


def test_a_run_without_a_valid_trial(make: Make, tmp_path: Path) -> None:
    cells = [
        {"aqm": "fifo", "l4s.count": count, "status": ["invalid"], "buffer_bdp": 1.0} for count in (1, 5)
    ]
    tables = make(cells)
    empty = schemas.empty("sockets")
    schemas.write("sockets", [empty.lazy()], tables.folder / "sockets.parquet")
    skipped: list[str] = []
    shown = figures(tables, decide(tables, load_rule("pam25")), on_skipped=skipped.append)
    written = write(shown, tmp_path / "out")
    assert {one.name.split("_")[0] for one in written} >= {"goodput", "delay", "trials"}
    assert any("no distribution" in why for why in skipped)
    assert any("no valid trial" in why for why in skipped)


def run_at(tables: RunTables, path: Path, shift_mbps: float) -> Path:
    """A copy of a run whose L4S flows got more by so much."""
    shutil.copytree(run_of(tables), path)
    flows = pl.read_parquet(path / "tables" / "flows.parquet")
    more = pl.when(pl.col("group") == "l4s").then(pl.col("goodput_mbps") + shift_mbps)
    changed = flows.with_columns(more.otherwise(pl.col("goodput_mbps")).alias("goodput_mbps"))
    schemas.write("flows", [schemas.conform("flows", changed).lazy()], path / "tables" / "flows.parquet")
    return path


def test_several_runs_on_one_plot(
    real: RunTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = run_at(real, tmp_path / "old" / "20260102T030405Z", 0.0)
    new = run_at(real, tmp_path / "new" / "20260102T030406Z", 1.0)
    out = tmp_path / "out"
    argv = ["report", str(new), "--all", "--figures", str(out), "--beside", str(old), "--format", "svg,json"]
    assert main(argv) == 0
    assert capsys.readouterr().out == f"{out / 'index.html'}\n"
    drawn = sorted(path.stem for path in out.glob("*.json"))
    assert drawn
    assert all(name.startswith("runs_") for name in drawn)
    shares: dict[str, dict[str, float]] = {}
    for name in drawn:
        for rows in json.loads((out / f"{name}.json").read_text())["datasets"].values():
            for row in (row for row in rows if "percent" in row):
                shares.setdefault(row["cell"], {})[row["run"]] = row["percent"]
    rates = dict(real.trials.select("cell", "rate_mbps").iter_rows())
    assert shares.keys() == set(rates)
    for cell, share in shares.items():
        assert share["new"] - share["old"] == pytest.approx(100 / rates[cell])
    image = (out / f"{drawn[0]}.svg").read_text()
    assert ">old<" in image
    assert ">new<" in image
    again = l4sbench.figures(new, every=True, beside=[old])
    assert sorted(again) == drawn


def test_runs_that_cannot_be_put_on_one_plot(
    real: RunTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_at(real, tmp_path / "old" / "20260102T030405Z", 0.0)
    assert main(["report", str(run), "--all", "--figures", "--beside", str(run)]) == 2
    assert "a run cannot be drawn beside itself" in capsys.readouterr().err
    assert main(["report", str(run), "--beside", str(run)]) == 2
    assert "--beside is for figures" in capsys.readouterr().err
    assert main(["report", str(run), "--width", "3in"]) == 2
    assert "--width and --no-title are for figures" in capsys.readouterr().err
    assert main(["report", str(run), "--by", "rtt"]) == 2
    assert "--by is for the figures of a run" in capsys.readouterr().err
    assert main(["report", str(run), "--figures", "--beside", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err


GENERIC = ("sans-serif", "serif", "monospace")


def test_texts_of_images_name_a_generic_family(real: RunTables, tmp_path: Path) -> None:
    """Where none of the named fonts is installed, a viewer takes its own one, and keeps the length."""
    decision = decide(real, load_rule("pam25"))
    for one in write(figures(real, decision), tmp_path / "out"):
        image = one.files[0].read_text()
        families = re.findall(r'font-family="([^"]*)"', image)
        assert families, one.name
        for family in families:
            assert family.rpartition(",")[2].strip() in GENERIC, family
        assert re.findall(r"<text(?![^>]*textLength)[^>]*>[^<]", image) == [], "every text says its length"
        assert re.findall(r"<tspan(?![^>]*textLength)[^>]*>[^<]", image) == []
        assert "@font-face" not in image
        assert "@import" not in image


def test_lengths_are_those_of_the_font_that_texts_are_placed_by() -> None:
    font = 'font-family="Liberation Sans, sans-serif" font-size="100px"'
    image = with_lengths(f"<svg><text {font}>ii</text><text {font}>&lt;W</text></svg>")
    lengths = [float(length) for length in re.findall(r'textLength="([^"]+)"', image)]
    assert lengths == pytest.approx([2 * 22.2, 58.4 + 94.4], abs=0.5), "hundredths of an em"
    assert ">&lt;W</text>" in image
