# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Answers from a table of the atlas: what neighbours say, what is not known, what to set instead."""

from __future__ import annotations

import gzip
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import l4sbench
from l4sbench.app.asking import NOT_KNOWN, Atlas
from l4sbench.app.atlas import (
    MEASURED,
    AtlasCell,
    AtlasColumn,
    AtlasInterval,
    AtlasSources,
    read_atlas,
    write_atlas,
)
from l4sbench.catalog import Catalog
from l4sbench.cli import main
from l4sbench.errors import InputError
from tests.patience import PATIENCE_S

CATALOG = Catalog.load()
SOURCES = AtlasSources(CATALOG)
SAME = "f2a4675df32d"
"""A wire that kept departure times of packets, which no queue of the atlas reads."""
FQ = AtlasColumn("fq-codel", None, "prague", "cubic", "off")
FIFO = AtlasColumn("fifo", None, "prague", "cubic", "off")
RATES, RTTS, BUFFERS = (10.0, 100.0), (10.0, 100.0), (1.0, 2.0)


def row(column: AtlasColumn, rate_mbps: float, rtt_ms: float, buffer_bdp: float, verdict: str) -> AtlasCell:
    return AtlasCell(
        matrix="atlas",
        cell=f"{column.aqm}_{buffer_bdp:g}bdp_{rate_mbps:g}mbit_{rtt_ms:g}ms",
        column=column,
        rate_mbps=rate_mbps,
        rtt_ms=rtt_ms,
        buffer_bdp=buffer_bdp,
        buffer_to_bdp=8.0 if buffer_bdp == 2 else buffer_bdp,
        duration_s=rtt_ms,
        warmup_s=5.0,
        trials=3 if verdict else 0,
        verdict=verdict,
        sure=True,
        l4s_percent=AtlasInterval(45.0, 40.0, 50.0) if verdict else None,
        classic_percent=AtlasInterval(50.0) if verdict else None,
        l4s_each_percent=(43.0, 45.0, 47.0) if verdict else (),
        classic_each_percent=(51.0, 50.0, 49.0) if verdict else (),
        made_by="abc" if verdict else "",
        sources=SOURCES.of(column) if verdict else "",
        wire=SOURCES.wire if verdict else "",
    )


def plane(column: AtlasColumn, verdict: str = "ok") -> Iterator[AtlasCell]:
    for rate in RATES:
        for rtt in RTTS:
            for size in BUFFERS:
                yield row(column, rate, rtt, size, verdict)


def atlas_of(*cells: AtlasCell) -> Atlas:
    columns = {
        column: [one for one in cells if one.column == column]
        for column in dict.fromkeys(one.column for one in cells)
    }
    return Atlas(columns, CATALOG)


def atlas(*cells: AtlasCell) -> Atlas:
    """Return an atlas of FQ-CoDel, ok everywhere but for the cells that are given."""
    rows = {one.cell: one for one in (*plane(FQ), *cells)}
    return atlas_of(*rows.values())


def test_neighbours_that_agree_give_the_verdict_and_its_certainty() -> None:
    found = atlas().ask("aqm=fq-codel", "rate=50mbit", "rtt=20ms", "buffer_bdp=1")
    assert (found.word, found.sure, found.old) == ("ok", True, False)
    assert found.why == "all 4 neighbouring cells agree (12 trials)"
    assert [(one.rate_mbps, one.rtt_ms) for one in found.neighbours[:1]] == [(100.0, 10.0)]
    assert found.distance == pytest.approx(4)


def test_a_question_on_a_cell_has_no_other_neighbour() -> None:
    found = atlas().ask("aqm=fq-codel", "rate=10mbit", "rtt=10ms")
    assert (found.word, found.distance, len(found.neighbours)) == ("ok", 1.0, 1)
    assert found.why == "the cell was measured (3 trials)"


def test_values_that_the_table_has_are_offered_with_their_unit() -> None:
    two = replace(FIFO, aqm="dualpi2", min_qlen_step=2)
    with pytest.raises(InputError, match="the atlas has no min_qlen_step 1p behind dualpi2; choose from 2p"):
        atlas_of(*plane(two)).ask("dualpi2", "10mbit", "10ms", "min_qlen_step=1p")


def test_the_largest_buffer_of_a_point_stands_for_larger_ones() -> None:
    large = row(FIFO, 10, 10, 8, "")
    found = atlas_of(*plane(FQ), *plane(FIFO), large).ask("aqm=fifo", "rate=100mbit", "rtt=10ms", "buffer=8")
    assert (found.word, found.distance) == ("ok", 1.0)


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        ("l4s-starved", "4 neighbouring cells disagree: l4s-starved, ok"),
        ("invalid", "neighbouring cells that are invalid: 1 of 4"),
        ("", "neighbouring cells that are not run yet: 1 of 4"),
    ],
)
def test_neighbours_that_do_not_agree_are_not_known(verdict: str, why: str) -> None:
    found = atlas(row(FQ, 100, 10, 1, verdict)).ask("aqm=fq-codel", "rate=50mbit", "rtt=20ms")
    assert (found.word, found.why) == (NOT_KNOWN, why)


def test_a_quarter_of_the_neighbours_may_be_undecided() -> None:
    one, other = row(FQ, 100, 10, 1, "undecided"), row(FQ, 10, 10, 1, "undecided")
    found = atlas(one).ask("aqm=fq-codel", "rate=50mbit", "rtt=20ms")
    assert (found.word, found.sure) == ("ok", False)
    assert found.why == "3 of 4 neighbouring cells agree, the others are undecided (12 trials)"
    found = atlas(one, other).ask("aqm=fq-codel", "rate=50mbit", "rtt=20ms")
    assert (found.word, found.why) == (NOT_KNOWN, "neighbouring cells that are undecided: 2 of 4")


def test_a_question_outside_of_the_plane_is_not_known() -> None:
    found = atlas().ask("aqm=fq-codel", "rate=2gbit", "rtt=20ms")
    assert (found.word, found.why) == (NOT_KNOWN, "rate 2000 Mbit/s is outside of 10 to 100 Mbit/s")


def test_a_question_beside_a_cell_that_the_atlas_leaves_out_is_not_known() -> None:
    table = atlas_of(*(one for one in plane(FQ) if (one.rate_mbps, one.rtt_ms) != (10, 10)))
    found = table.ask("aqm=fq-codel", "rate=50mbit", "rtt=20ms")
    assert (found.word, len(found.neighbours)) == (NOT_KNOWN, 3)
    assert found.why == "neighbouring cells whose buffer holds less than two packets: 1 of 4"
    assert found.distance == pytest.approx(4)
    nothing = table.ask("aqm=fq-codel", "rate=10mbit", "rtt=10ms")
    assert (nothing.word, nothing.neighbours) == (NOT_KNOWN, ())
    assert nothing.why.startswith("no buffer of this size near this point holds two packets")


def test_cells_of_another_kernel_are_old() -> None:
    other = AtlasCell(**{**vars(row(FQ, 10, 10, 1, "ok")), "sources": "another"})
    assert atlas(other).ask("aqm=fq-codel", "rate=10mbit", "rtt=10ms").old


@pytest.mark.parametrize(
    ("wire", "old"), [("", True), (SOURCES.wire, False), ("another", True), (SAME, False)]
)
def test_cells_of_another_wire_are_old(wire: str, old: bool) -> None:
    other = AtlasCell(**{**vars(row(FQ, 10, 10, 1, "ok")), "wire": wire})
    assert atlas(other).ask("aqm=fq-codel", "rate=10mbit", "rtt=10ms").old == old


def test_the_smallest_change_comes_first_what_to_set_instead() -> None:
    starved = [row(FIFO, rate, rtt, 1, "l4s-starved") for rate in RATES for rtt in RTTS]
    table = atlas(*plane(FIFO), *starved)
    found = table.ask("aqm=fifo", "rate=50mbit", "rtt=20ms")
    assert (found.word, str(found.instead)) == ("l4s-starved", "buffer_bdp=2")
    everywhere = atlas(*plane(FIFO, "l4s-starved")).ask("aqm=fifo", "rate=50mbit", "rtt=20ms")
    assert str(everywhere.instead) == "aqm=fq-codel"
    assert atlas().ask("aqm=fq-codel", "rate=50mbit", "rtt=20ms").instead is None


def test_another_queue_is_not_given_the_parameter_of_this_one() -> None:
    step = AtlasColumn("dualpi2", 2, "prague", "cubic", "off")
    other = replace(step, min_qlen_step=None)
    starved = [*plane(FQ), *plane(step, "l4s-starved"), *plane(other, "l4s-starved")]
    words = ("dualpi2", "50mbit", "20ms", "min_qlen_step=2p")
    assert str(atlas_of(*starved).ask(*words).instead) == "aqm=fq-codel"
    table = atlas_of(*plane(step, "l4s-starved"), *plane(other))
    assert str(table.ask(*words).instead) == "aqm.min_qlen_step=default"


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ("ok", "the table was right"),
        ("l4s-starved", "the table was wrong: it has ok"),
        ("undecided", "the lab leaves it open; the table has ok"),
        ("invalid", "the lab leaves it open; the table has ok"),
    ],
)
def test_only_a_verdict_shows_that_an_answer_was_wrong(measured: str, said: str) -> None:
    assert atlas().ask("aqm=fq-codel", "rate=50mbit", "rtt=20ms").compared(measured) == said
    outside = atlas().ask("aqm=fq-codel", "rate=2gbit", "rtt=20ms")
    assert outside.compared(measured) == "the table did not know"


NOT_VALID = {
    "rate=50mbit": "the question states no aqm, no rtt; for example `l4sbench ask aqm=fq-codel rate=50mbit",
    "aqm=fq-codel rate=50 rtt=20ms": 'expected a rate such as 100mbit, not "50"; add a unit: bit, kbit, mbit',
    "aqm=fq-codel rtts=1ms": "'rtts' is not a valid key of a question; did you mean rtt?",
    "fq-codel 1mbit 1ms buffer=-1": "'-1' is not a valid buffer_bdp; write a number such as 2",
    "fq-codel swiftly": "'swiftly' is not a word of a question; leave it out",
    "aqm=cake rate=10mbit rtt=10ms": "the atlas has no queue cake; choose from fq-codel",
    "fq-codel 10mbit 10ms against=reno": "the atlas has no competitor reno behind fq-codel; choose from",
}


@pytest.mark.parametrize(("question", "message"), NOT_VALID.items())
def test_questions_that_are_not_valid_are_errors(question: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        atlas().ask(*question.split())
    assert str(error.value).startswith(message)


def test_ecn_of_the_competitor_changes_nothing_behind_a_queue_that_drops() -> None:
    with pytest.raises(InputError, match="leave it out: fifo marks nothing, so ECN changes nothing"):
        atlas_of(*plane(AtlasColumn("fifo", None, "prague", "cubic", "off"))).ask(
            "fifo", "50mbit", "20ms", "ecn=classic"
        )


def test_a_table_is_read_as_it_was_written_and_equal_rows_make_equal_files(tmp_path: Path) -> None:
    cells = atlas(row(FQ, 10, 10, 1, "")).cells
    for name in ("a.csv.gz", "b.csv.gz"):
        write_atlas(cells, tmp_path / name)
    assert read_atlas(tmp_path / "a.csv.gz") == cells
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert l4sbench.ask("fq-codel", "100mbit", "10ms", atlas=tmp_path / "a.csv.gz").word == "ok"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no gzip", id="no gzip"),
        pytest.param(gzip.compress(b"a,b\n1,2\n"), id="other columns"),
        pytest.param(gzip.compress(b"\xff"), id="no text"),
    ],
)
def test_a_damaged_table_is_an_error(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "atlas.csv.gz"
    file.write_bytes(content)
    if content:
        with pytest.raises(InputError, match="is not a valid table of the atlas"):
            read_atlas(file)
    else:
        with pytest.raises(InputError, match="is a table of the atlas without cells"):
            Atlas.load(file)


def test_damage_of_a_row_is_an_error_of_the_questions_that_need_it(tmp_path: Path) -> None:
    file = tmp_path / "atlas.csv.gz"
    write_atlas((*plane(FQ), *plane(FIFO)), file)
    content = gzip.decompress(file.read_bytes())
    file.write_bytes(
        gzip.compress(content.replace(b"fifo,,prague,cubic,off,10,", b"fifo,,prague,cubic,off,ten,", 1))
    )
    assert Atlas.load(file).ask("fq-codel", "10mbit", "10ms").word == "ok"
    with pytest.raises(InputError, match=r"atlas\.csv\.gz is not a valid table of the atlas"):
        Atlas.load(file).ask("fifo", "10mbit", "10ms")


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        ("rate_mbps", "nan", "'nan' is not a finite number"),
        ("rtt_ms", "0", "a rate, a round-trip time or a buffer is not above zero"),
        ("buffer_bdp", "0", "a rate, a round-trip time or a buffer is not above zero"),
        ("l4s_percent", "inf", "'inf' is not a finite number"),
        ("l4s_low_percent", "99", "the interval of l4s_percent ends below its start"),
        ("verdict", "fine", "'fine' is not a verdict"),
    ],
)
def test_values_that_no_cell_has_are_damage(column: str, text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "atlas.csv.gz"
    record = {**row(FQ, 10, 10, 1, "ok").as_record(), column: text}
    file.write_bytes(gzip.compress("\n".join(map(",".join, (record, record.values()))).encode()))
    with pytest.raises(InputError) as error:
        Atlas.load(file).page()
    assert str(error.value).endswith(f"is not a valid table of the atlas: {message}")


def test_the_table_that_ships_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "aqm=codel", "rate=50mbit", "rtt=20ms", "buffer_bdp=2", "against=cubic"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "codel, 2 BDP, 50mbit, 20ms: prague against cubic"
    assert lines[2] == "set this instead: aqm=fq"
    assert lines[-4:] == [
        "% of the link's rate, and smoothed RTT minus base RTT: means over trials [95 % confidence interval]",
        "codel is CoDel (+ECN): CoDel on one queue; it marks an ECN-capable packet where it drops another.",
        f"fq is FQ (+ECN): {CATALOG.queue('fq').about}",
        "`l4sbench explain fq` has its parameters",
    ]


@pytest.mark.parametrize(
    ("typed", "ended", "prompts"),
    [
        (b"FQ-CoDel\n50 Mbit/s\n20 ms\n\n\n", (0, "fq-codel, 1 BDP, 50mbit"), 5),
        (b"FQ-CoDel\n\x04", (130, ""), 2),
    ],
    ids=["answers", "end"],
)
def test_a_terminal_is_asked_until_its_input_ends(typed: bytes, ended: tuple[int, str], prompts: int) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "l4sbench", "ask"],
        env={**os.environ, "TERM": "dumb"},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    os.write(ours, typed)
    out, shown = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert (process.returncode, out.partition(", 20ms")[0]) == ended, shown
    assert shown.count(": ") == prompts


def test_the_whole_atlas_is_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "atlas.html"
    assert main(["ask", "--page", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    page = file.read_text(encoding="utf-8")
    assert "Is it okay to switch to L4S?" in page
    assert "each flow surely keeps half of a fair share, which is a quarter of the link's rate" in page
    assert main(["ask", "--page", str(file), "aqm=fq-codel"]) == 2
    assert "--page shows the whole atlas and takes no question" in capsys.readouterr().err


def test_the_map_counts_the_cells_of_each_family_that_are_of_now() -> None:
    bbr, step = replace(FIFO, classic="bbr1"), replace(FQ, classic_ecn="classic")
    own = [*plane(FIFO, "l4s-starved"), *plane(bbr), *plane(step), replace(next(plane(bbr)), wire="old")]
    image = atlas_of(*plane(FQ), *own).map("svg").decode()
    assert "24 cells, 72 trials, rule l4sbench1: 16 ok, 8 l4s-starved" in image
    assert "Fair queuing against CUBIC" in image
    assert "Single queue (drop) against BBRv1" in image
    assert image.count(">2/2<") == 8
    assert image.count(">\u25bc0/2<") == 4


def test_harm_is_what_the_competitor_lacks_of_its_goodput_alone() -> None:
    lone = AtlasColumn("fifo", None, "", "cubic", "off")
    alone = replace(row(lone, 10, 10, 1, MEASURED), classic_percent=AtlasInterval(95.0, 90.0, 100.0))
    beside = replace(row(FIFO, 10, 10, 1, "ok"), classic_percent=AtlasInterval(38.0, 36.0, 40.0))
    table = Atlas({}, CATALOG, alone={lone: [alone]})
    harm = table.harm(beside)
    assert harm is not None
    assert (harm.mean, harm.low, harm.high) == pytest.approx((60.0, 100 * 50 / 90, 64.0))
    assert table.harm(replace(beside, rtt_ms=100.0)) is None
    assert Atlas({}, CATALOG, alone={lone: [replace(alone, wire="old")]}).harm(beside) is None
    once = replace(beside, classic_percent=AtlasInterval(95.0))
    assert table.harm(once) == AtlasInterval(0.0)


def test_the_map_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "atlas.SVG"
    assert main(["ask", "--map", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    assert "Where is it okay to switch?" in file.read_text(encoding="utf-8")
    assert main(["ask", "--map", str(file), "aqm=fq-codel"]) == 2
    assert "--map shows the whole atlas and takes no question" in capsys.readouterr().err
    assert main(["ask", "--map", "atlas.gif"]) == 2
    assert "atlas.gif does not end like an image; choose from .svg, .png, .pdf" in capsys.readouterr().err


def test_the_page_says_at_a_cell_what_to_set_instead() -> None:
    asked = atlas(*plane(FIFO, "l4s-starved"))
    assert '"instead":["aqm=fq-codel"]' in asked.page()
