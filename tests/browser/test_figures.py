# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The figures of a run and their gallery in a real browser, which takes the fonts that this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from reports.figures import Figure, Paper, figures, width_of, write
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.verdicts import decide

COMMAND = "l4sbench report small/20260102T030405Z --figures"
OUTSIDE = """() => {
  const image = document.documentElement, edge = image.getBoundingClientRect();
  const outside = (text) => {
    const own = text.getBoundingClientRect(), hair = 0.5;
    return own.left < edge.left - hair || own.right > edge.left + image.width.baseVal.value + hair;
  };
  return [...image.querySelectorAll("text")].filter(outside).map((text) => text.textContent);
}"""
TOUCHING = """() => [...document.querySelectorAll(".role-axis-label")].flatMap((axis) => {
  const seen = (text) => text.textContent && text.getAttribute("opacity") !== "0";
  const labels = [...axis.querySelectorAll("text")].filter(seen);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return labels.slice(1).map((label, before) => [labels[before], label])
    .filter(([a, b]) => meet(a.getBoundingClientRect(), b.getBoundingClientRect()))
    .filter(([a]) => !a.getAttribute("transform").includes("rotate"))
    .map(([a, b]) => a.textContent + b.textContent);
})"""


SERIES = 6
"""Time series that are drawn, of 24, which come last and are all of a kind; these have the longest names."""


def drawn(tables: RunTables) -> Iterator[Figure]:
    """Yield the figures of a run, with the first of its time series."""
    series = 0
    for figure in figures(tables, decide(tables, load_rule("l4sbench1"))):
        yield figure
        series += figure.name.startswith("series_")
        if series == SERIES:
            return


@pytest.fixture(scope="module")
def gallery(small: RunTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    assert len(write(drawn(small), folder, ("svg",), command=COMMAND)) > 5 + SERIES
    return folder


@pytest.fixture(scope="module")
def column(small: RunTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same figures at the width of a column."""
    folder = tmp_path_factory.mktemp("column")
    write(drawn(small), folder, ("svg",), paper=Paper(width_of("3.3in")))
    return folder


@pytest.mark.long
@pytest.mark.parametrize("width", ["gallery", "column"])
def test_no_text_leaves_its_figure(width: str, request: pytest.FixtureRequest, browser: Browser) -> None:
    """Vega measures texts in its own font; this machine may have another, and every text must still fit."""
    gallery: Path = request.getfixturevalue(width)
    page = browser.new_page()
    for image in sorted(gallery.glob("*.svg")):
        page.goto(image.as_uri())
        assert page.evaluate(OUTSIDE) == [], image.name
        assert page.evaluate(TOUCHING) == [], image.name
    page.close()


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.long), 390])
def test_the_gallery_fits_its_window_and_names_its_command(
    gallery: Path, browser: Browser, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto((gallery / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert COMMAND in page.inner_text("body")
    links = page.locator("nav a")
    assert links.count() == page.locator("figure").count()
    links.last.click()
    assert page.locator("figure").last.get_attribute("id") == page.url.partition("#")[2]
    page.close()
