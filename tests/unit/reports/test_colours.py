# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Colours: known points of published maps, contrast, and order in grey."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.colours import (
    BLACK,
    CIVIDIS,
    COOLWARM,
    DIFFERENCE,
    FAIR,
    PLASMA,
    WHITE,
    ColourMap,
    Scale,
    contrast,
    goodput_scale,
    ink,
    luminance,
    mixed,
)
from reports.published.look import DELAY, GOODPUT

MAPS = [COOLWARM, PLASMA, CIVIDIS, FAIR]
PLACES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("colours", "place", "rgb"),
    [  # colours of matplotlib 3.9 at multiples of 1/255
        (COOLWARM, 0, (59, 76, 192)),
        (COOLWARM, 51 / 255, (123, 159, 249)),
        (COOLWARM, 204 / 255, (238, 132, 104)),
        (COOLWARM, 1, (180, 4, 38)),
        (PLASMA, 0, (13, 8, 135)),
        (PLASMA, 64 / 255, (126, 3, 168)),
        (PLASMA, 128 / 255, (204, 71, 120)),
        (PLASMA, 1, (240, 249, 33)),
    ],
)
def test_published_maps(colours: ColourMap, place: float, rgb: tuple[int, ...]) -> None:
    found = [int(colours.at(place)[i : i + 2], 16) for i in (1, 3, 5)]
    assert all(abs(a - b) <= 3 for a, b in zip(found, rgb, strict=True)), found


def test_published_ends() -> None:
    # as measured in the published files: 0 ms orange, 5 ms magenta, 15 ms and more navy
    assert DELAY.colour(0) == PLASMA.at(0.75)
    assert DELAY.colour(5) == PLASMA.at(0.5)
    assert DELAY.colour(15) == DELAY.colour(130) == PLASMA.at(0)
    assert GOODPUT.colour(50) == "#dddddd"


def test_contrast_of_wcag() -> None:
    # the technique G18's own example: black on white is 21:1, equal colours 1:1
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(WHITE, WHITE) == 1
    assert contrast("#767676", WHITE) == pytest.approx(4.54, abs=0.01)


@given(st.sampled_from(MAPS), PLACES)
def test_text_reads_on_every_colour(colours: ColourMap, place: float) -> None:
    ground = colours.at(place)
    assert contrast(ink(ground), ground) >= 4.5


def test_the_fair_map_is_even_in_grey() -> None:
    shades = [luminance(FAIR.at(i / 50)) for i in range(51)]
    assert shades[:26] == sorted(shades[:26])
    assert shades[25:] == sorted(shades[25:], reverse=True)
    delays = [luminance(CIVIDIS.at(i / 50)) for i in range(51)]
    assert delays == sorted(delays)


@given(PLACES)
def test_a_scale_meets_its_points(value: float) -> None:
    scale = Scale(FAIR, (0, 10, 100), (0, 0.5, 1))
    assert scale.colour(10) == FAIR.at(0.5)
    assert scale.place(value * 10) == pytest.approx(value * 0.5)
    assert scale.place(10 + value * 90) == pytest.approx(0.5 + value * 0.5)


def test_steps() -> None:
    scale = goodput_scale(50)
    assert [scale.step(percent, 5) for percent in (-1, 0, 10, 50, 54, 56, 100)] == [0, 0, 1, 5, 5, 6, 10]
    # one flow against nine: 10 % is its fair share, and 55 % is much
    assert [goodput_scale(10).step(percent, 5) for percent in (10, 55)] == [5, 7]
    assert [DIFFERENCE.step(percent, 5) for percent in (-60, -10, 0, 50)] == [0, 4, 5, 10]


def test_mixed() -> None:
    assert mixed(BLACK, WHITE, 0.5) == "#808080"
    assert COOLWARM.reversed().at(0) == COOLWARM.at(1)
