# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page for everybody: contrast, names and roles, light and dark, phone, paper."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_page import ENTRY, MODES, STARVED

pytestmark = pytest.mark.browser

LOW_CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
LEVELS = """() => [...document.querySelectorAll("h1, h2, h3, h4")]
    .filter((heading) => heading.checkVisibility()).map((heading) => +heading.tagName[1])"""
OPEN_ALL = """() => {
    for (const part of document.querySelectorAll("details")) part.open = true;
    for (const part of document.querySelectorAll("section")) part.hidden = false;
}"""
ALL_STEPS = """() => {
    const row = document.querySelector(".heat:not([hidden]) tbody tr"), cell = row.querySelector("td");
    for (const tone of [...Array(11).keys(), "x"]) for (const delay of [...Array(7).keys(), "x"]) {
        const made = row.appendChild(cell.cloneNode(true));
        made.className = `t${tone} d${delay} hatched`;
    }
}"""


def nodes(page: Page) -> list[dict[str, Any]]:
    """Return role, name and states of every element, as screen readers get them."""
    session = page.context.new_cdp_session(page)
    tree = session.send("Accessibility.getFullAXTree")["nodes"]
    return [node for node in tree if not node.get("ignored")]


def text(node: dict[str, Any], part: str) -> str:
    return str(node.get(part, {}).get("value", ""))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_contrast(visit: Open, scheme: str, width: int) -> None:
    page = visit(f"#cell/{STARVED}", color_scheme=scheme, viewport={"width": width, "height": 800})
    expect(page.locator(".charts[data-drawn]")).to_be_visible()
    page.evaluate(OPEN_ALL)
    assert page.evaluate(LOW_CONTRAST) == []
    page.get_by_role("radio", name="delay").check()
    assert page.evaluate(LOW_CONTRAST) == []
    grounds = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert (sum(int(part) for part in grounds[4:-1].split(",")) > 380) == (scheme == "light")


BOXES = """texts => texts.map((text) => {
    const {left, right, top, bottom} = text.getBoundingClientRect();
    return [text.textContent, left, right, top, bottom];
})"""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_covers_another_beside_the_trials(visit: Open, width: int) -> None:
    for cell in (STARVED, MODES):
        page = visit(f"#cell/{cell}", viewport={"width": width, "height": 800})
        expect(page.locator(".dots")).to_be_visible()
        expect(page.locator(".dots .interval")).to_have_count(2)
        expect(page.locator(".dots .limit")).to_have_count(2)  # this rule has limits for one of the groups
        labels = page.locator(".dots text").evaluate_all(BOXES)
        names = [name for name, *_ in labels]
        assert {name for name in names if "limits" not in name} >= {"0", "20", "80", "100 %"}
        assert [name.split()[0] for name in names if "Mbit/s" in name or "(" in name] == ["Prague", "CUBIC"]
        for (name, left, right, top, bottom), other in combinations(labels, 2):
            apart = right <= other[1] or other[2] <= left or bottom <= other[3] or other[4] <= top
            assert apart, f"{name} covers {other[0]}"


def test_the_trials_are_shown_whole_on_a_desktop(visit: Open) -> None:
    page = visit(f"#cell/{STARVED}", viewport={"width": 1000, "height": 800})
    region = page.get_by_role("region", name="Trials of this cell")
    expect(region.get_by_role("columnheader", name="ECN")).to_be_visible()
    assert region.evaluate("region => region.scrollWidth <= region.clientWidth")


def test_every_step_of_the_scales_is_readable(visit: Open) -> None:
    """Also the steps that no cell of this run has."""
    for scheme in ("light", "dark"):
        page = visit(ENTRY, color_scheme=scheme)
        page.evaluate(ALL_STEPS)
        assert page.evaluate(LOW_CONTRAST) == []
        page.get_by_role("radio", name="delay").check()
        assert page.evaluate(LOW_CONTRAST) == []


def test_screen_readers_get_names_and_roles(visit: Open) -> None:
    page = visit(f"#cell/{STARVED}")
    expect(page.locator(".charts[data-drawn]")).to_be_visible()
    read = nodes(page)
    for node in read:
        if text(node, "role") in {
            "link",
            "button",
            "radio",
            "searchbox",
            "grid",
            "table",
            "region",
            "navigation",
            "DisclosureTriangle",
        }:
            assert text(node, "name").strip(), node
    roles = [text(node, "role") for node in read]
    assert roles.count("grid") == 2
    assert {"banner", "main", "navigation", "contentinfo", "status"} <= set(roles)
    headers = [text(node, "name") for node in read if text(node, "role") == "columnheader"]
    assert {"against CUBIC, ECN off", "against CUBIC, ECN classic", "1 BDP", "4 BDP", "delay ms"} <= set(
        headers
    )
    heads = [text(node, "name") for node in read if text(node, "role") == "rowheader"]
    assert {"Single queue (ECN)", "DualPI2", "FIFO (+ECN)"} <= set(heads)
    levels = page.evaluate(LEVELS)
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels)), levels
    current = page.locator("[aria-current]").all_inner_texts()
    starts = [words.split()[0] for words in current]
    assert starts == ["FIFO", "◆", "▼", "1"], "the place, its entry, its cell, its trial"
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate("() => document.documentElement.lang") == "en"


@pytest.mark.parametrize("place", ["", ENTRY, f"#cell/{STARVED}"])
def test_nothing_is_wider_than_a_phone(visit: Open, place: str) -> None:
    page = visit(place, viewport={"width": 360, "height": 740}, has_touch=True)
    if "cell" in place:
        expect(page.locator(".charts[data-drawn]")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    expect(page.get_by_role("gridcell").filter(has_text="both")).to_contain_text("FIFO (+ECN), 1 BDP")
    assert page.get_by_role("gridcell").count() >= 8, "still a table to who cannot see it"


def test_on_paper(visit: Open) -> None:
    page = visit(color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator(".heat").first).to_be_visible()
    assert page.locator(".heat:visible").count() == 8
    for gone in (".top", "#find", ".metric", ".keys"):
        expect(page.locator(gone)).to_be_hidden()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(LOW_CONTRAST) == []
    assert len(page.pdf(format="A4", print_background=True)) > 20_000
