# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The files of a page: whole, equal for equal runs, and safe whatever the tables hold."""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from markupsafe import Markup

from l4sbench import tables as schema
from l4sbench.errors import InputError
from l4sbench.store.files import DiskFull
from reports.page import Heading, Section, beside_published, write
from reports.page.model import questions
from reports.page.page import render
from reports.page.series import scripts
from reports.published import compare
from reports.result.load import RunTables, load
from reports.result.regret import regret
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.browser import runs
from tests.unit.reports import conftest as rows

HEADING = Heading("small", "about")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> RunTables:
    return runs.make(tmp_path_factory.mktemp("small"), runs.small())


@pytest.fixture(scope="module")
def tiny(small: RunTables) -> RunTables:
    """Four of its cells, for what writes series again and again."""
    return load(small.folder, frozenset(small.trials["cell"].unique().sort()[:4]))


def page(tables: RunTables, folder: Path, **rest: Any) -> Path:
    return write(tables, decide(tables, load_rule("pam25")), HEADING, folder, **rest)


def text_of(tables: RunTables, *panels: Section) -> str:
    """The page alone, which needs no series."""
    return render(tables, decide(tables, load_rule("pam25")), HEADING, panels=panels)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def embedded(page: Path | str) -> dict[str, Any]:
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', text, re.DOTALL)
    assert found
    plain: dict[str, Any] = json.loads(found[1])
    return plain


def test_equal_tables_give_equal_files(tiny: RunTables, tmp_path: Path) -> None:
    page(tiny, tmp_path / "a")
    page(load(tiny.folder, tiny.cells), tmp_path / "b")
    page(load(tiny.folder, tiny.cells), tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    names = set(files(tmp_path / "a"))
    assert len(names) == 1 + 4 + 1 + 1
    assert {name.split("/")[0] for name in names} == {"index.html", "data"}


def test_nothing_is_fetched_from_elsewhere(small: RunTables) -> None:
    text = text_of(small)
    assert re.findall(r'(?:src|href|action)="(?!#|data:)[^"]*"', text) == []
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_what_is_embedded(small: RunTables) -> None:
    data = embedded(text_of(small))
    assert len(data["cells"]) == 24
    assert sum(len(cell["trials"]) for cell in data["cells"]) == small.trials.height
    assert len(data["programs"]) == 9, "of six nodes in two captured trials, three ran the same in both"
    cell = next(cell for cell in data["cells"] if cell["factors"]["aqm"] == "dualpi2")
    assert cell["rerun"].startswith("l4sbench run matrix.yaml ")
    trial = dict(zip(data["trial_columns"], cell["trials"][0], strict=True))
    assert [node for node, *_ in trial["programs"]] == sorted(node for node, *_ in trial["programs"])
    readings = "\x1e".join(data["hosts"][place] for _, place, *_ in trial["hosts"])
    assert "qdisc\x1fnet-mid 8004:\x1fnetem delay {" in readings, "in the manner of tc"
    seeds = {number for _, _, *numbers in trial["hosts"] for number in numbers}
    assert readings.count(" seed \x1d") >= 2
    assert all(re.fullmatch("[0-9]{9,}", seed) for seed in seeds), "as text, so that no digit is lost"


def test_what_is_not_known_of_a_group_is_not_zero(make: Callable[[Any], RunTables]) -> None:
    """A flow with few bytes was over before the warm-up was, and only TCP counts what it sends again."""
    tables = make([{"aqm": "fifo", "l4s": [60], "classic": [30]}])
    flows = [
        row | ({"goodput_mbps": None} if row["group"] == "classic" else {"retransmits_packets": 3})
        for row in tables.flows.to_dicts()
    ]
    for name, own in (("flows", flows), ("programs", []), ("hosts", [])):
        rows.write(tables.folder, name, own)
    data = embedded(text_of(load(tables.folder)))
    (trial,) = (dict(zip(data["trial_columns"], row, strict=False)) for row in data["cells"][0]["trials"])
    groups = [dict(zip(data["group_columns"], row, strict=True)) for row in trial["groups"]]
    assert {group["group"]: group["goodput_mbps"] for group in groups} == {"l4s": 60, "classic": None}
    assert {group["group"]: group["retransmits_packets"] for group in groups} == {"l4s": 3, "classic": None}


def test_beside_published_results(make: Callable[[Any], RunTables]) -> None:
    published = {"l4s.fallback": "on", "classic.ecn": "classic", "aqm": "dualpi2"}
    cells = [
        published | {"buffer_bdp": b, "l4s": [43.7], "classic": [50.0]} for b in (0.5, 1.0, 2.0, 4.0, 8.0)
    ]
    tables = make(cells)
    comparison = compare(tables, "anrw24")
    body = beside_published(comparison).body
    assert f"{comparison.errors.mean_absolute:.1f} % of the link's rate" in body.unescape()
    assert "Erratum: " in body
    assert "L4STeam/linux" in body
    assert "<b>differs</b>" in body
    assert all(f'href="#cell/{cell}"' in body for cell in tables.trials["cell"])


def test_the_top_is_a_word_then_the_table_then_what_opens(small: RunTables) -> None:
    decision = decide(small, load_rule("pam25"))
    text = render(small, decision, HEADING, costs=regret(decision))
    before, after = text.split('<table class="decision"')[0], text.split('<table class="decision"')[1]
    assert re.search(
        r'<p class="answer a-no"><b class="head">.*Not everywhere</b> <span>ok in \d of \d', before
    )
    for words in ("This says nothing about short", "Expected regret of switching to Prague", "Behind "):
        assert words not in before
        assert words in after
    opens = re.findall(r"<summary><b>(.*?)</b>", after)
    assert opens[:4] == ["Why", "Expected regret", "Limits", "Basis"]


def shown_bars(text: str, kind: str = "") -> list[list[tuple[str, float, float]]]:
    """Every bar of the decision table: what it has, from where, and how long."""
    table = text.split('<table class="decision"')[1].split("</table>", maxsplit=1)[0]
    found = re.findall(rf'<span class="bar {kind}" aria-hidden="true">(.*?)</span>', table)
    part = r'<i class="([^"]+)" style="left:([\d.]+)%(?:;width:([\d.]+)%)?"></i>'
    return [[(name, float(at), float(w or 0)) for name, at, w in re.findall(part, bar)] for bar in found]


def without_programs(tables: RunTables) -> RunTables:
    for table in ("programs", "hosts"):
        schema.write(table, [schema.empty(table).lazy()], tables.folder / f"{table}.parquet")
    return tables


def test_bars_of_goodput_meet_with_intervals_and_limits(make: Callable[[Any], RunTables]) -> None:
    tables = without_programs(make([{"aqm": "fifo", "l4s": [60.0, 64.0, 62.0], "classic": [33.0] * 3}]))
    text = render(tables, decide(tables, load_rule("l4sbench1")), HEADING)
    (bar,) = shown_bars(text)
    assert bar[:2] == [("fill l4s", 0.0, 62.0), ("fill classic", 67.0, 33.0)]
    assert ("limit l4s", 25.0, 0.0) in bar
    assert ("limit classic", 75.0, 0.0) in bar
    ((_, low, width),) = (own for own in bar if own[0] == "interval l4s")
    assert low < 60
    assert low + width / 2 == pytest.approx(62, abs=0.01)
    tables = without_programs(make([{"aqm": "fifo", "l4s": [62.0], "classic": [33.0]}]))
    (bar,) = shown_bars(render(tables, decide(tables, load_rule("pam25")), HEADING))
    assert [own for own in bar if "fill" not in own[0]] == [
        ("limit l4s", 20.0, 0.0),
        ("limit l4s", 80.0, 0.0),
    ]


def test_bars_of_a_group_alone_are_parts_of_the_link(make: Callable[[Any], RunTables]) -> None:
    no_classic = dict.fromkeys(("classic.cc", "classic.ecn", "classic.count"))
    beside = {"aqm": "fifo", "l4s": [40.0, 40.0], "classic": [40.0, 40.0]}
    tables = make([beside, {"aqm": "fifo", "l4s": [80.0, 80.0], "classic": [0.0, 0.0], **no_classic}])
    (bar,) = shown_bars(render(without_programs(tables), decide(tables, load_rule("l4sbench1")), HEADING))
    assert ("fill l4s", 0.0, 40.0) in bar
    assert ("limit l4s", 20.0, 0.0) in bar, "a quarter of what it gets alone"


def test_bars_of_delay_have_one_scale(make: Callable[[Any], RunTables]) -> None:
    cells = [
        {"aqm": "fifo", "l4s": [45.0], "classic": [50.0], "delay": 20.0},
        {"aqm": "fq-codel", "buffer_bdp": 1.0, "l4s": [45.0], "classic": [50.0], "delay": 4.0},
        {"aqm": "fq-codel", "buffer_bdp": 4.0, "l4s": [46.0], "classic": [50.0], "delay": 5.0},
        {"aqm": "dualpi2", "status": ["failed"]},
    ]
    tables = without_programs(make(cells))
    text = render(tables, decide(tables, load_rule("pam25")), HEADING)
    fills = [[own for own in bar if "fill" in own[0]] for bar in shown_bars(text, "lanes")]
    assert fills == [
        [("fill l4s", 0.0, 100.0), ("fill classic", 0.0, 35.0)],
        [("fill l4s", 0.0, 25.0), ("fill classic", 0.0, 35.0)],  # of its slowest cell
    ]
    assert ("limit l4s", 5.0, 0.0) in shown_bars(text, "lanes")[0], "1 ms"
    assert "no delay known" in text


def test_a_rule_that_looks_at_intervals(small: RunTables) -> None:
    decision = decide(small, load_rule("l4sbench1"))
    text = render(small, decision, HEADING)
    assert "by the 95 % confidence interval of the mean over seeds" in text
    assert text.count('<span class="word">undecided</span>') == sum(
        verdict.word == "undecided" for verdict in decision.verdicts
    )
    doubtful = [cell for verdict in decision.verdicts for cell in verdict.cells if cell.word == "undecided"]
    assert doubtful
    cells = {cell["id"]: cell for cell in embedded(text)["cells"]}
    for cell in doubtful:
        assert re.match(r"(Prague|CUBIC) may get .* Mbit/s, limit 2\.5|1 trial$", cells[cell.id]["unsure"])
        sides = cells[cell.id]["sides"]
        assert [side["limits"] for side in sides] == [[[25, "2.5"]]] * 2, "in percent, and in Mbit/s of 10"
        assert any(side["keeps"][1] < 25 <= side["keeps"][2] for side in sides)


def test_a_page_shows_how_sure_its_verdicts_are(make: Callable[[Any], RunTables]) -> None:
    cells = [
        {"aqm": "fifo", "l4s": [45.0], "classic": [50.0]},
        {"aqm": "codel", "l4s": [21.0, 45.0, 40.0], "classic": [50.0] * 3},
        {"aqm": "dualpi2", "l4s": [45.0, 45.1, 45.2], "classic": [50.0] * 3},
    ]
    tables = make(cells)
    for table in ("programs", "hosts"):
        schema.write(table, [schema.empty(table).lazy()], tables.folder / f"{table}.parquet")
    text = text_of(tables)
    shown = re.findall(r'<span class="word">(.*?)</span><span class="doubt">(.*?)</span>', text)
    doubt = "Prague may get 4 to 67 % of the link, limit 20"
    assert shown == [("ok", ", unsure (1 trial)"), ("ok", f", unsure: {doubt} (3 trials)"), ("ok", "")]
    assert re.findall(r'<td role="gridcell" class="w-ok( unsure)?"', text) == [" unsure", " unsure", ""]
    assert re.findall(r'<span class="small of-share why">[?] (.*?)</span>', text) == [
        "1 trial",
        doubt,
    ]
    assert "<code>l4sbench run matrix.yaml --sure</code>" in text
    assert [cell["unsure"] for cell in embedded(text)["cells"]] == ["1 trial", doubt, ""]
    assert "Prague 35.3 % (4 to 67), limits 20 and 80\nCUBIC 50.0 % (50 to 50)" in text, (
        "for who points there"
    )


@pytest.mark.parametrize(("rule", "said"), [("pam25", "unsure"), ("l4sbench1", "undecided")])
def test_the_legend_has_only_what_the_rule_can_say(small: RunTables, rule: str, said: str) -> None:
    text = render(small, decide(small, load_rule(rule)), HEADING)
    legend = text.split('<dl class="legend"')[1].split("</dl>")[0]
    listed = [word for word in ("unsure", "undecided") if f"{word}</dt>" in legend]
    assert listed == [said]


def test_baselines_are_cells_of_the_page(make: Callable[[Any], RunTables]) -> None:
    no_classic = dict.fromkeys(("classic.cc", "classic.ecn", "classic.count"))
    beside = {"aqm": "fifo", "l4s": [40.0, 41.0], "classic": [50.0, 52.0]}
    tables = make([beside, {"aqm": "fifo", "l4s": [95.0, 95.2], "classic": [0.0, 0.0], **no_classic}])
    for table in ("programs", "hosts"):
        schema.write(table, [schema.empty(table).lazy()], tables.folder / f"{table}.parquet")
    text = render(tables, decide(tables, load_rule("l4sbench1")), HEADING)
    inside, outside = embedded(text)["cells"]
    assert inside["l4s"]["harm"][0] == pytest.approx(57.4, abs=0.1)
    assert "entry" not in outside
    assert len(outside["trials"]) == 2


def test_baselines_say_who_runs_there_and_what_it_gets(make: Callable[[Any], RunTables]) -> None:
    about = {"classic.cc": None, "classic.ecn": None, "classic.count": None}
    third = {"l4s.cc": None, "l4s.ecn": None, "l4s.count": None, "mice.cc": "cubic", "mice.count": 1}
    cells = [
        {"aqm": "codel", "l4s": [80.0], "classic": [10.0]},
        {"aqm": "codel", "l4s": [94.0, 95.0], **about},
        {"aqm": "codel", "l4s": [47.0], "classic": [48.0], "l4s.cc": "cubic", "l4s.ecn": "off"},
        {"aqm": "fifo", "status": ["failed"], **about},
        {"aqm": "codel", "status": ["ok", "ok", "invalid"], **about, **third},
    ]
    tables = make(cells)
    for table in ("programs", "hosts"):
        schema.write(table, [schema.empty(table).lazy()], tables.folder / f"{table}.parquet")
    found = {cell["id"]: cell for cell in embedded(text_of(tables))["cells"]}
    alone, same, failed, mice = (found[f"cell-000{number}"] for number in (1, 2, 3, 4))
    assert (alone["label"], alone["company"]) == ("CoDel (+ECN), 1 BDP", "Prague, ECN accecn, alone")
    assert (alone["l4s"]["goodput"], alone["valid"], "classic" in alone) == ([94.5, None, None], 2, False)
    assert same["company"] == "CUBIC, ECN off beside CUBIC, ECN off"
    assert (failed["valid"], failed["left_out"], "l4s" in failed) == (0, 1, False)
    assert (mice["company"], mice["valid"], mice["left_out"]) == ("CUBIC, alone", 2, 1)


def test_what_stands_across_a_heat_map(make: Callable[[Any], RunTables]) -> None:
    def heats(*factors: dict[str, Any]) -> list[tuple[tuple[str, ...], list[str]]]:
        cells = [{"aqm": "fifo", "l4s": [40.0], "classic": [50.0]} | own for own in factors]
        (question,) = questions(decide(make(cells), load_rule("pam25")))
        found = [entry.heat for entry in question.entries]
        assert all(len(row) == len(heat.columns) for heat in found for _, row in heat.lines())
        return [(tuple(map(str, heat.columns)), list(map(str, heat.rows))) for heat in found]

    assert heats({}) == [(("1 BDP",), ["FIFO"])]
    assert heats({"rtt_ms": 20.0}, {"rtt_ms": 5.0}) == [(("rtt 5 ms", "rtt 20 ms"), ["FIFO"])]
    both = [{"rtt_ms": rtt, "buffer_bdp": buffer} for rtt in (5.0, 20.0) for buffer in (0.5, 8.0)]
    assert heats(*both) == [(("0.5 BDP", "8 BDP"), ["FIFO, rtt 5 ms", "FIFO, rtt 20 ms"])]
    assert heats({"rtt_ms": 5.0}, {"rtt_ms": 20.0, "classic.ecn": "classic"}) == [
        (("1 BDP",), ["FIFO, rtt 5 ms"]),
        (("1 BDP",), ["FIFO, rtt 20 ms"]),
    ]


def test_a_page_and_its_series_belong_together(
    tiny: RunTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = page(tiny, tmp_path)
    before = files(tmp_path)
    assert tiny.cells
    fewer = frozenset(sorted(tiny.cells)[:2])

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr("reports.page.writing.write_whole", no_room)
        with pytest.raises(DiskFull):
            page(load(tiny.folder, fewer), tmp_path)
    after = files(tmp_path)
    assert before.items() <= after.items(), "the old page still has all it names"
    page(load(tiny.folder, fewer), tmp_path)
    assert (tmp_path / embedded(path)["series"]).is_dir()
    assert len(files(tmp_path)) == 1 + 2 + 1 + 1, "what the old page named is gone"


def test_a_cell_that_is_no_file_name(small: RunTables, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "tables"
    shutil.copytree(small.folder, folder)
    first = small.trials["cell"][0]
    for table in schema.OF_TRIALS:
        frame = pl.read_parquet(folder / f"{table}.parquet")
        frame = frame.with_columns(pl.col("cell").replace({first: "../../../escaped"}))
        schema.write(table, [schema.conform(table, frame).lazy()], folder / f"{table}.parquet")
    with pytest.raises(InputError, match="is not a valid cell id"):
        page(load(tmp_path / "run"), tmp_path / "report")
    assert not list(tmp_path.rglob("escaped*"))
    assert not (tmp_path / "report" / "index.html").exists()


def test_panels(small: RunTables) -> None:
    text = text_of(small, Section("against", "Beside <others>", Markup("<p>as <b>printed</b></p>")))
    assert '<h2 id="against-title">Beside &lt;others&gt;</h2>' in text
    assert "<p>as <b>printed</b></p>" in text


def test_scripts_of_series(small: RunTables) -> None:
    found = dict(scripts(small))
    assert len(found) == 24 + 1
    last = found.pop("specifications").removeprefix("l4sbenchSpecifications(").removesuffix(");\n")
    known = json.loads(last)
    assert len(known["specs"]) == 2, "one per kind of trial that was captured, not one per trial"
    assert set(known["configs"]) == {"light", "dark"}
    ended: dict[str, int] = {}
    for cell, script in found.items():
        trials = json.loads(script.removeprefix(f'l4sbenchSeries("{cell}",').removesuffix(");\n"))
        ended[cell] = len(trials)
        series = trials["1"]
        flows = series["flows"]
        rows = len(flows["t_s"])
        assert rows == len(flows["goodput_mbps"]) == len(flows["srtt_ms"]) == sum(n for _, n in flows["flow"])
        assert [flow for flow, _ in flows["flow"]] == ["classic-0", "l4s-0"]
        named = {panel.get("name", "goodput") for panel in known["specs"][series["spec"]]["vconcat"]}
        assert {"goodput", "srtt_ms", "delay_ms", "ce_percent", "cwnd_packets", "state0"} == named
    valid = small.trials.filter(pl.col("status") == "ok").group_by("cell").len()
    assert ended == dict(valid.iter_rows())


def test_series_are_made_once(tiny: RunTables, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "tables"
    shutil.copytree(tiny.folder, folder)
    first = embedded(page(load(folder.parent, tiny.cells), tmp_path / "report"))["series"]
    made = (tmp_path / "report" / first).stat()
    again = embedded(page(load(folder.parent, tiny.cells), tmp_path / "report"))["series"]
    assert again == first
    assert (tmp_path / "report" / again).stat() == made
    frame = pl.read_parquet(folder / "sockets.parquet").with_columns(pl.col("srtt_ms") + 1)
    schema.write("sockets", [schema.conform("sockets", frame).lazy()], folder / "sockets.parquet")
    assert embedded(page(load(folder.parent, tiny.cells), tmp_path / "report"))["series"] != first


def test_colours_are_steps_of_scales(make: Callable[[Any], RunTables]) -> None:
    cells = [
        {"aqm": "fifo", "buffer_bdp": buffer, "delay": delay, "l4s": [got], "classic": [100 - got]}
        for buffer, delay, got in ((1.0, 0.3, 10), (2.0, 1.0, 50), (4.0, 4.9, 56), (8.0, 31.0, 100))
    ]
    cells.append({"aqm": "fifo", "buffer_bdp": 16.0, "status": ["invalid"]})
    tables = make(cells)
    for name in ("programs", "hosts"):
        schema.write(name, [schema.empty(name).lazy()], tables.folder / f"{name}.parquet")
    found = re.findall(r'<td role="gridcell" class="t(\w+) d(\w+)', text_of(tables))
    assert found == [("1", "0"), ("5", "1"), ("6", "2"), ("10", "6"), ("x", "x")]
