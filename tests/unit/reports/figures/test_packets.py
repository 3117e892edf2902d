# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Packets of a captured trial, drawn one by one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.assemble import collect
from l4sbench.app.captures import StoredCaptures
from l4sbench.catalog import Catalog
from l4sbench.cli import main
from l4sbench.errors import InputError
from l4sbench.store import Run
from reports.figures import Figure, figures, specification
from reports.figures import write as write_figures
from reports.figures.packets import thinned
from reports.result.load import RunTables, load
from reports.result.measured import measure
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.captured import captured_trial
from tests.unit.reports.figures.conftest import MATRIX


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one trial with captures, which tests only read."""
    run = Run.create(tmp_path_factory.mktemp("packets") / "runs", "captured", MATRIX, 1, {})
    captured_trial("captured-dualpi2").store(run)
    collect(run, Catalog.load())
    return run.path


def drawn(path: Path) -> tuple[dict[str, Figure], list[str]]:
    """Return the figures of packets by the beginning of their names, and what was not drawn."""
    tables, skipped = load(path), list[str]()
    decision = decide(tables, load_rule("pam25"))
    found = figures(tables, decision, on_skipped=skipped.append, captures=StoredCaptures(path))
    of_packets = {figure.name.partition("_")[0]: figure for figure in found if figure.sources}
    return of_packets, [why for why in skipped if why.startswith(("sojourn_", "sequence_"))]


def panels(figure: Figure) -> list[dict[str, list[Mapping[str, Any]]]]:
    """Return the rows of each panel by kind."""
    spec = specification(figure.chart)
    found = []
    for panel in spec["vconcat"]:
        layers = [layer["data"] for layer in panel["layer"]]
        rows = [data["values"] if "values" in data else spec["datasets"][data["name"]] for data in layers]
        found.append({own[0]["kind"]: own for own in rows})
    return found


def test_packets_are_those_of_the_table(stored: Path) -> None:
    of_packets, skipped = drawn(stored)
    assert skipped == []
    assert set(of_packets) == {"sojourn", "sequence"}
    in_time = pl.col("t_ms") <= 3000
    packets = load(stored).scan("packets").filter(in_time).collect()
    for group, sojourn, sequence in zip(
        ("l4s", "classic"), panels(of_packets["sojourn"]), panels(of_packets["sequence"]), strict=True
    ):
        own = packets.filter(pl.col("group") == group)
        passed = own.filter(~pl.col("lost") & ~pl.col("marked") & pl.col("sojourn_ms").is_not_null())
        assert [row["value"] for row in sojourn["passed"]] == pytest.approx(passed["sojourn_ms"].to_list())
        for shown in (sojourn, sequence):
            assert len(shown["dropped"]) == own["lost"].sum() > 10
            assert len(shown.get("CE-marked", [])) == own["marked"].sum()
        highest = max(row["value"] for row in sojourn["passed"])
        assert {row["value"] > highest for row in sojourn["dropped"]} == {True}
        assert len(sequence["sent again"]) == own["retransmit"].sum() > 10
        assert len(sequence["sent"]) == own.height - own["retransmit"].sum()


def test_captures_are_named_and_linked(stored: Path, tmp_path: Path) -> None:
    of_packets, _ = drawn(stored)
    for figure in of_packets.values():
        assert [path.name for path in figure.sources] == ["net-mid.pcap.gz", "net-rx.pcap.gz"]
        title = specification(figure.chart)["title"]["subtitle"]
        place = "".join(line for line in title if line.endswith("/"))
        assert {stored / place / path.name for path in figure.sources} == set(figure.sources)
    write_figures(iter(of_packets.values()), tmp_path / "figures")
    index = (tmp_path / "figures" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]*\.pcap\.gz)"', index)
    found = {(tmp_path / "figures" / unquote(link)).resolve() for link in links}
    assert found == {path.resolve() for figure in of_packets.values() for path in figure.sources}


def test_sojourns_outlive_the_captures(stored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(stored, tmp_path / "run")
    for path in run.glob("cells/*/*/raw/router/*.pcap.gz"):
        path.unlink()
    of_packets, skipped = drawn(run)
    assert of_packets == {}  # none that names captures
    assert [re.sub("_.*?: ", ": ", why) for why in skipped] == [
        f"sequence: trial 1 of {load(run).trials['cell'][0]} has no captures any more"
    ]
    names = [
        figure.name
        for figure in figures(load(run), decide(load(run), load_rule("pam25")), captures=StoredCaptures(run))
    ]
    assert [name.partition("_")[0] for name in names[-2:]] == ["series", "sojourn"]


def test_a_damaged_capture_is_named(stored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(stored, tmp_path / "run")
    (damaged,) = run.glob("cells/*/*/raw/router/net-rx.pcap.gz")
    damaged.write_bytes(damaged.read_bytes()[:100])
    of_packets, (why,) = drawn(run)
    assert set(of_packets) == {"sojourn"}
    assert re.search(r"^sequence_.*: trial 1 of .*: net-rx\.pcap\.gz: ", why)


def test_flows_whose_sockets_nobody_samples_have_a_panel(tmp_path: Path) -> None:
    """Short connections of `send: requests` are in no time series."""
    run = Run.create(tmp_path / "runs", "captured", MATRIX, 1, {})
    captured_trial("captured-sends").store(run)
    collect(run, Catalog.load())
    tables = load(run.path)
    found = figures(tables, measure(tables), captures=StoredCaptures(run.path))
    of_packets = {figure.name.partition("_")[0]: figure for figure in found if figure.sources}
    groups = {
        name: {panel["title"]["text"].partition(":")[0] for panel in specification(figure.chart)["vconcat"]}
        for name, figure in of_packets.items()
    }
    assert groups["sojourn"] == {"l4s", "mice", "udp", "flood"}
    assert groups["sequence"] == {"l4s", "mice"}  # others are not TCP, or have no payload


def test_a_span_shows_its_packets_and_nothing_else(stored: Path) -> None:
    tables = load(stored)
    decision = decide(tables, load_rule("pam25"))
    found = list(figures(tables, decision, captures=StoredCaptures(stored), span_s=(1.0, 1.5)))
    assert [figure.name.partition("_")[0] for figure in found] == ["sojourn", "sequence"]
    assert {figure.name.rpartition("_")[2] for figure in found} == {"1-1.5s"}
    packets = tables.scan("packets").filter(pl.col("t_ms").is_between(1000, 1500)).collect()
    for group, panel in zip(("l4s", "classic"), panels(found[1]), strict=True):
        own = packets.filter((pl.col("group") == group) & ~pl.col("retransmit"))
        assert [row["t_s"] * 1000 for row in panel["sent"]] == pytest.approx(own["t_ms"].to_list(), abs=0.01)
        bottoms = [row["value"] for rows in panel.values() for row in rows]
        spec = specification(found[1].chart)["vconcat"][0 if group == "l4s" else 1]["layer"][0]
        low, high = spec["encoding"]["y"]["scale"]["domain"]
        assert low < min(bottoms) <= max(bottoms) < high


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ("2s", '2s is not a valid span of time: expected a duration such as 10ms, not ""; such as 2s-2.5s'),
        ("2s-1s", "2s-1s is not a valid span of time: its end is not after its begin"),
    ],
)
def test_what_is_no_span(stored: Path, span: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(stored), "--all", "--rule", "pam25", "--figures", "--span", span]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == f"error: {message}"


def test_a_span_of_a_run_without_captures(real: RunTables) -> None:
    decision = decide(real, load_rule("pam25"))
    with pytest.raises(InputError, match="no trial of these cells has captures"):
        list(figures(real, decision, captures=StoredCaptures(real.folder.parent), span_s=(1.0, 2.0)))


def test_captures_are_not_read_through_links(stored: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(stored, tmp_path / "run")
    (ended, *_) = Run.open(copy).ended()
    folder = ended.raw / "router"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    message = f"trial {ended.trial} of {ended.cell.id}: router is not a regular file"
    for read in (StoredCaptures(copy).files, StoredCaptures(copy).sequences):
        with pytest.raises(InputError) as caught:
            read(ended.cell.id, ended.trial)
        assert str(caught.value) == message


@given(st.integers(0, 5000), st.integers(1, 300))
def test_thinned_packets_are_spread_and_the_same_each_time(count: int, most: int) -> None:
    packets = pl.DataFrame({"n": range(count)}, schema={"n": pl.Int64})
    shown, step = thinned(packets, most)
    assert shown.equals(thinned(packets, most)[0])
    assert shown.height == count // step <= most
    assert (shown["n"] // step).to_list() == list(range(shown.height))  # one of each block
    assert step == 1 or step <= count / most + 1


def test_a_pattern_as_long_as_a_block_is_not_lost() -> None:
    packets = pl.DataFrame({"first": [place % 8 == 0 for place in range(8000)]})
    shown, step = thinned(packets, 1000)
    assert step == 8
    assert shown["first"].mean() == pytest.approx(1 / 8, abs=0.01)
