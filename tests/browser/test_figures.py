# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The figures of a run and their gallery in a real browser, which takes the fonts that this machine has."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from reports.figures import figures, write
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.verdicts import decide

COMMAND = "l4sbench report small/20260102T030405Z --figures"
OUTSIDE = """() => {
  const image = document.documentElement, edge = image.getBoundingClientRect();
  return [...image.querySelectorAll("text")]
    .filter((text) => text.getBoundingClientRect().right > edge.left + image.width.baseVal.value)
    .map((text) => text.textContent);
}"""


@pytest.fixture(scope="module")
def gallery(small: RunTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    shown = figures(small, decide(small, load_rule("l4sbench1")), trials="none")
    assert len(write(shown, folder, ("svg",), command=COMMAND)) > 5
    return folder


def test_no_text_leaves_its_figure(gallery: Path, browser: Browser) -> None:
    """Vega measures texts in its own font; this machine may have another, and a subtitle must still fit."""
    page = browser.new_page()
    for image in sorted(gallery.glob("*.svg")):
        page.goto(image.as_uri())
        assert page.evaluate(OUTSIDE) == [], image.name
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
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
