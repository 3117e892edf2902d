# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Figures at the width of a column: as wide as was asked for, in fonts that can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from l4sbench.errors import InputError
from reports.figures import Paper, figures, fitted, goodput_map, sheets, specification, width_of, write
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.unit.reports.conftest import Make

LEAST_PX = 7.5
"""Fonts of this size have 5.6 pt."""


@pytest.mark.parametrize(("text", "width"), [("3.3in", 316.8), ("25.4mm", None), ("8.4 cm", 317.48)])
def test_widths_are_lengths(text: str, width: float | None) -> None:
    if width is None:
        with pytest.raises(InputError, match=r"figures cannot be 25\.4mm wide"):
            width_of(text)
    else:
        assert width_of(text) == pytest.approx(width, abs=0.01)


def test_what_is_no_width() -> None:
    with pytest.raises(InputError, match=r"such as 3\.3in"):
        width_of("3.3")


@pytest.mark.long
def test_every_figure_has_the_width_and_readable_fonts(make: Make, tmp_path: Path) -> None:
    cells = [
        {"aqm": aqm, "buffer_bdp": bdp, "classic.ecn": ecn, "l4s": [50, 52], "classic": [40, 41]}
        for aqm in ("fifo", "codel", "dualpi2")
        for bdp in (0.5, 1.0, 2.0, 4.0)
        for ecn in ("off", "classic")
    ]
    tables = make(cells)
    width_px = width_of("3.3in")
    shown = figures(tables, decide(tables, load_rule("pam25")), "none")
    written = write(shown, tmp_path, ("svg", "pdf"), paper=Paper(width_px))
    assert len(written) >= 6
    for one in written:
        image, page = (file.read_bytes() for file in one.files)
        size = re.search(rb'width="([\d.]+)" height="[\d.]+" viewBox="0 0 ([\d.]+)', image)
        assert size
        assert float(size[1]) == pytest.approx(width_px, abs=0.01), one.name
        scale = float(size[1]) / float(size[2])
        fonts = {float(px) for px in re.findall(rb'font-size="([\d.]+)px"', image)}
        assert min(fonts) * scale >= LEAST_PX or one.name.startswith("published-"), one.name
        box = re.search(rb"MediaBox \[0 0 ([\d.]+)", page)
        assert box
        assert float(box[1]) == pytest.approx(3.3 * 72, abs=0.1), one.name


def test_maps_that_have_no_room_beside_each_other_are_below(published: Decision) -> None:
    (sheet,) = sheets(published)
    spec = specification(goodput_map(sheet, published.rule))
    narrow = fitted(spec, Paper(width_of("3.3in")))
    lines = [[view for view in line["hconcat"] if view["width"] > 20] for line in narrow["vconcat"]]
    assert [len(line) for line in lines] == [1] * len(sheet.grid.panels)
    for (plot,) in lines:
        (upright,) = [part["encoding"]["y"] for part in plot["layer"] if "axis" in part["encoding"]["y"]]
        assert upright["axis"]["labelExpr"], "every line names its queues"


def test_a_title_can_be_left_to_the_caption(published: Decision) -> None:
    (sheet,) = sheets(published)
    spec = specification(goodput_map(sheet, published.rule))
    assert "title" not in fitted(spec, Paper(titled=False))
    assert fitted(spec, Paper()) == spec
