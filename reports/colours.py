# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Colours of figures and pages: maps from numbers to colours, colours of flow groups, and contrast.

Every map is a few control colours at equal distances with straight lines in sRGB between them. Colours are
computed here and not by Vega, so that contrast is known before anything is drawn.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Rgb: TypeAlias = tuple[float, float, float]

WCAG_AA: Final = 4.5
"""Least contrast of normal text: Web Content Accessibility Guidelines 2.1, success criterion 1.4.3."""


@dataclass(frozen=True)
class ColourMap:
    """Control colours (`#rrggbb`) at equal distances from 0 to 1, straight lines in sRGB between them.

    Attributes:
        name: Its usual name.
        colours: At least two control colours.
        source: Their origin.
    """

    name: str
    colours: tuple[str, ...]
    source: str

    def at(self, place: float) -> str:
        """Return the colour at a place from 0 to 1; outside of them, that of the nearer end."""
        steps = len(self.colours) - 1
        where = min(max(place, 0.0), 1.0) * steps
        left = min(int(where), steps - 1)
        begin, end = _rgb(self.colours[left]), _rgb(self.colours[left + 1])
        return _hex([a + (b - a) * (where - left) for a, b in zip(begin, end, strict=True)])

    def reversed(self) -> ColourMap:
        """Return the same map from the other end."""
        return ColourMap(f"{self.name}_r", self.colours[::-1], self.source)


@dataclass(frozen=True)
class Scale:
    """A colour map over numbers: piecewise linear through (`values[i]`, `places[i]`), values rising.

    `values` may be logarithms or anything else that the caller draws; outside of them the ends apply.
    """

    map: ColourMap
    values: tuple[float, ...]
    places: tuple[float, ...]

    def place(self, value: float) -> float:
        """Return the place of a value on the map, 0 to 1."""
        if value <= self.values[0]:
            return self.places[0]
        if value >= self.values[-1]:
            return self.places[-1]
        right = bisect_right(self.values, value)
        low, high = self.values[right - 1], self.values[right]
        share = (value - low) / (high - low)
        return self.places[right - 1] + share * (self.places[right] - self.places[right - 1])

    def colour(self, value: float) -> str:
        """Return the colour of a value."""
        return self.map.at(self.place(value))

    def step(self, value: float, steps: int) -> int:
        """Return the nearest of 2 * `steps` + 1 even steps along the map; `steps` is the middle."""
        return steps + round((2 * self.place(value) - 1) * steps)


def _split(text: str) -> tuple[str, ...]:
    return tuple(f"#{colour}" for colour in text.split())


COOLWARM: Final = ColourMap(
    "coolwarm",
    _split(
        "3b4cc0 445acc 4d68d7 5775e1 6282ea 6c8ef1 779af7 82a5fb 8db0fe 98b9ff a3c2ff aec9fd b8d0f9 c2d5f4 "
        "ccd9ee d5dbe6 dddddd e5d8d1 ecd3c5 f1ccb9 f5c4ad f7bba0 f7b194 f7a687 f49a7b f18d6f ec7f63 e57058 "
        "de604d d55042 cb3e38 c0282f b40426"
    ),
    "K. Moreland, Diverging Color Maps for Scientific Visualization, ISVC 2009; the 33 points of matplotlib",
)
PLASMA: Final = ColourMap(
    "plasma",
    _split(
        "0d0887 220690 310596 3f049c 4c02a1 5901a5 6600a7 7201a8 7e03a8 8909a6 9511a2 9f1a9c a92396 b22c8e "
        "bb3587 c33e80 cb4778 d25071 d9596a e06263 e66c5c eb7555 f07f4f f48a48 f89441 fb9f3a fdab33 feb72d "
        "fdc328 fcd025 f9dd25 f5eb27 f0f921"
    ),
    "S. van der Walt and N. Smith for matplotlib 2.0 (CC0), every eighth of its 256 colours",
)
CIVIDIS: Final = ColourMap(
    "cividis",
    _split(
        "00224e 002e6a 1a386f 32436d 434e6c 52596d 61656f 6f7073 7c7b78 8b8778 9b9376 aba072 bbad6c ccba64 "
        "ddc958 efd748 fee838"
    ),
    "J. Nunez, C. Anderton and R. Renslow, Optimizing colormaps with consideration for color vision "
    "deficiency, PLOS ONE 13(7), 2018; every sixteenth of matplotlib's 256 colours",
)
FAIR: Final = ColourMap(
    "blue-orange",
    _split("0072b2 7fb8d8 f5f5f5 f2b48a d55e00"),
    "ends: M. Okabe and K. Ito, Color Universal Design, 2008; distinct with every common colour blindness",
)

DELAY: Final = Scale(CIVIDIS.reversed(), (math.log10(0.1), math.log10(100)), (0, 1))
"""Of the decimal logarithm of ms."""

DIFFERENCE: Final = Scale(FAIR, (-50, 0, 50), (0, 0.5, 1))
"""Percent of the link's rate, run minus published."""


def goodput_scale(fair_percent: float) -> Scale:
    """Return the scale of percent of the link's rate whose two colours part at the fair share."""
    return Scale(FAIR, (0, fair_percent, 100), (0, 0.5, 1))


OKABE_ITO: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f7f7f", "#a6761d"),
)
"""M. Okabe and K. Ito, Color Universal Design, 2008, without its yellow, which is hard to see on
white paper; then a grey and a brown. Never used without a second mark: dash, shape or label."""

BLACK: Final = "#000000"
WHITE: Final = "#ffffff"


def luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb`, 0 (black) to 1 (white), after WCAG 2.1."""
    channels = [_linear(channel / 255) for channel in _rgb(colour)]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21, after WCAG 2.1."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def ink(ground: str) -> str:
    """Return black or white, whichever reads better on `ground`; the contrast is at least 4.58."""
    return max((BLACK, WHITE), key=lambda colour: contrast(colour, ground))


def mixed(colour: str, towards: str, share: float) -> str:
    """Return a colour moved by `share` (0 to 1) of the way towards another, in sRGB."""
    pairs = zip(_rgb(colour), _rgb(towards), strict=True)
    return _hex([a + (b - a) * share for a, b in pairs])


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def _rgb(colour: str) -> Rgb:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _hex(channels: Sequence[float]) -> str:
    return "#" + "".join(f"{round(channel):02x}" for channel in channels)
