# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of the atlas that ships: choices, cells, links, and that it is for everybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from l4sbench.app.asking import Atlas
from l4sbench.app.atlas import AtlasCell
from l4sbench.app.question import AtlasQuestion
from l4sbench.text.units import Duration, Rate
from tests.browser.conftest import Open
from tests.browser.test_access import LOW_CONTRAST
from tests.browser.test_sheets import OPEN_ALL, WIDTHS, check_for_everybody

pytestmark = pytest.mark.browser

MOST_BYTES = 3_000_000
CELL = "#flows=Prague+beside+CUBIC&queue=FIFO+%28%2BECN%29&buffer=2&shown=verdict&rate=30mbit&rtt=20ms"


@pytest.fixture(scope="session")
def atlas() -> Atlas:
    return Atlas.load()


@pytest.fixture(scope="session")
def page_file(atlas: Atlas, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("atlas") / "atlas.html"
    file.write_text(atlas.page(), encoding="utf-8")
    assert file.stat().st_size <= MOST_BYTES
    return file


def squares(page: Page) -> int:
    return page.locator("#plane button").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_map_is_for_everybody(visit: Open, page_file: Path, scheme: str, width: int) -> None:
    page = visit(CELL, path=page_file, color_scheme=scheme, viewport={"width": width, "height": 800})
    shown = page.get_by_label("Shown").locator("option").evaluate_all("all => all.map((one) => one.value)")
    assert len(shown) == 7
    page.evaluate(OPEN_ALL)
    for one in shown:
        page.get_by_label("Shown").select_option(one)
        check_for_everybody(page)


def test_a_click_opens_the_cell_with_its_numbers_and_its_command(
    visit: Open, page_file: Path, atlas: Atlas
) -> None:
    page = visit(CELL.partition("&rate")[0], path=page_file)
    opened = page.locator("#opened")
    expect(opened).to_be_hidden()
    page.get_by_role("button", name="30 Mbit/s, 20 ms: Prague starves").click()
    asked = atlas.ask("aqm=fifo-ecn", "rate=30mbit", "rtt=20ms", "buffer_bdp=2")
    (cell,) = asked.neighbours
    assert cell.classic_percent is not None
    expect(opened).to_contain_text(f"{cell.trials} valid trials")
    expect(opened).to_contain_text(f"{cell.classic_percent.mean:.1f}")
    first, *_ = zip(cell.l4s_each_percent, cell.classic_each_percent, strict=True)
    expect(opened).to_contain_text(f"Each trial{first[0]:.1f} and {first[1]:.1f} %")
    expect(opened).to_contain_text(f"Set this instead{asked.instead}")
    words = "aqm=fifo-ecn rate=30mbit rtt=20ms buffer_bdp=2 to=prague against=cubic"
    expect(opened.get_by_text(f"l4sbench ask {words} --run")).to_be_visible()


def test_what_to_set_instead_is_that_of_the_buffer_shown(visit: Open, page_file: Path, atlas: Atlas) -> None:
    """A cell of DualPI2 holds for several buffers, of which the smallest ran."""
    held = [row for row in atlas.cells if row.verdict == "l4s-starved" and row.holds_at(2 * row.buffer_bdp)]

    def advice(row: AtlasCell, size: float) -> str:
        place = Rate.of_mbps(row.rate_mbps), Duration.of_ms(row.rtt_ms)
        return str(atlas.answer(AtlasQuestion(*place, size, row.column)).instead)

    sizes = {row: (row.buffer_bdp, row.buffer_to_bdp) for row in held}
    row = next(row for row, ends in sizes.items() if len({advice(row, size) for size in ends}) > 1)
    labels = [atlas.catalog.congestion_control(name).label for name in (row.column.l4s, row.column.classic)]
    flows = "+beside+".join(labels)
    for size in sizes[row]:
        place = f"rate={Rate.of_mbps(row.rate_mbps)}&rtt={Duration.of_ms(row.rtt_ms)}"
        page = visit(f"#flows={flows}&queue=DualPI2&buffer={size:g}&{place}", path=page_file)
        expect(page.locator("#opened")).to_contain_text(f"Set this instead{advice(row, size)}")


def test_harm_is_shown_where_the_lone_flow_has_run(visit: Open, page_file: Path, atlas: Atlas) -> None:
    where = "#flows=Prague+beside+CUBIC&queue=FIFO&buffer=2&rate=10mbit&rtt=20ms&shown=harm"
    page = visit(where, path=page_file)
    (cell,) = atlas.ask("aqm=fifo", "rate=10mbit", "rtt=20ms", "buffer_bdp=2").neighbours
    harm = atlas.harm(cell)
    assert harm is not None
    expect(page.locator("#map-title")).to_contain_text("harm to CUBIC, % of its goodput alone")
    expect(page.locator("#plane button[aria-current]")).to_have_text(f"{harm.mean:.0f}")
    expect(page.locator("#opened")).to_contain_text(f"Harm to CUBIC, % of its goodput alone{harm.mean:.0f}")


def test_a_link_keeps_the_choice(visit: Open, page_file: Path) -> None:
    page = visit(CELL, path=page_file)
    page.get_by_label("Shown").select_option("share-to")
    page.get_by_label("Queue").select_option("DualPI2")
    page.get_by_label("Buffer").select_option("1")
    title = page.locator("#map-title").text_content() or ""
    assert title == "DualPI2, 1 BDP, Prague beside CUBIC: share of Prague, % of the link"
    again = visit(page.evaluate("() => location.hash"), path=page_file)
    expect(again.locator("#map-title")).to_have_text(title)
    expect(again.get_by_role("heading", name="DualPI2, 30 Mbit/s, 20 ms, 1 BDP")).to_be_visible()


def test_an_address_that_states_nonsense_shows_the_map(visit: Open, page_file: Path) -> None:
    page = visit("#queue=%3Cb%3E&buffer=x&rate=1&shown=__proto__&flows=none", path=page_file)
    assert squares(page) > 20
    expect(page.locator("#opened")).to_be_hidden()


def test_arrow_keys_move_over_the_map_and_enter_opens(visit: Open, page_file: Path) -> None:
    page = visit(CELL, path=page_file)
    page.locator("#plane button[tabindex='0']").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    focused = "() => [document.activeElement.dataset.rate, document.activeElement.dataset.rtt]"
    assert page.evaluate(focused) == ["100mbit", "50ms"]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="100 Mbit/s, 50 ms, 2 BDP")).to_be_visible()


def test_a_buffer_that_does_not_bind_is_shown_with_the_one_that_ran(visit: Open, page_file: Path) -> None:
    page = visit("#queue=DualPI2&buffer=8&rate=100mbit&rtt=20ms", path=page_file)
    expect(page.locator("#opened")).to_contain_text("run with 2 BDP; the limit does not bind")


def test_the_map_on_paper_and_without_scripts(visit: Open, page_file: Path) -> None:
    page = visit(CELL, path=page_file, color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator("#choices")).to_be_hidden()
    expect(page.locator("#plane button").first).to_be_visible()
    assert page.evaluate(LOW_CONTRAST) == []
    plain = visit(path=page_file, java_script_enabled=False)
    expect(plain.get_by_role("table", name="Prague beside CUBIC").first).to_be_visible()
    expect(plain.locator("#choices")).to_be_hidden()
