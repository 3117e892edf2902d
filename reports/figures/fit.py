# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Figures at the width of a column of a paper, in fonts that stay readable there.

A drawing that is scaled down has small fonts. Here fonts keep one size on paper and plots become narrower;
where they would be too narrow, fewer of them are beside each other.
"""

from __future__ import annotations

import copy
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from l4sbench.errors import InputError
from reports.figures.save import drawn_width

KEPT: Final = "l4sbench-columns-are-kept"
"""Key of `usermeta` in specifications whose columns stay beside each other however narrow they become."""

_PX: Final = {"in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4}
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?) ?(in|cm|mm)")
_NARROWEST_PX, _WIDEST_PX = 144, 1920

FONTS: Final = 0.85
"""Size of fonts at a given width, of what they are without: axes and legends have 7 pt."""

_LEAST: Final = 0.55
"""Plots that would need to become narrower than this part of their width go below each other."""
_COLUMN_PX: Final = 480
"""Below this width legends are above or below plots, not beside them."""
_BAR_PX: Final = 20
"""Views up to this width are colour bars, which stay beside their first plot."""
LETTER_PX: Final = 0.5 * 11
"""Mean width of a letter of axes and titles of plots, of 0.5 em."""
_LETTER_PX: Final = LETTER_PX * FONTS
_BOLD_PX: Final = 0.57 * 13 * FONTS
_NEAR_PX: Final = 1.0
_TRIES: Final = 4

_Spec = dict[str, Any]


@dataclass(frozen=True)
class Paper:
    """The paper of a figure: its width, None for that of the drawing; and whether it has a title."""

    width_px: float | None = None
    titled: bool = True


SCREEN: Final = Paper()


def width_of(text: str) -> float:
    """Parse a width such as `3.3in`, `8.4cm` or `84mm`; return pixels, of which an inch has 96.

    Raises:
        InputError: the text is no such width, or is too small or too large for figures.
    """
    found = _LENGTH.fullmatch(text.strip().lower())
    if found is None:
        raise InputError(f"{text} is no width of figures", "such as 3.3in, 8.4cm or 84mm")
    width = float(found[1]) * _PX[found[2]]
    if not _NARROWEST_PX <= width <= _WIDEST_PX:
        raise InputError(f"figures cannot be {text} wide", "choose from 1.5in to 20in")
    return width


def fitted(spec: _Spec, paper: Paper) -> _Spec:
    """Return a specification that is drawn for the paper."""
    spec = copy.deepcopy(spec)
    if not paper.titled:
        spec.pop("title", None)
    if paper.width_px is None:
        return spec
    _readable(spec, paper.width_px)
    if spec.get("usermeta", {}).get(KEPT):
        return _narrowed(spec, paper.width_px)[1]
    most = max((len(_plots(line)) for line in _lines(spec)), default=1)
    for columns in range(most, 1, -1):
        factor, found = _narrowed(_stacked(spec, columns), paper.width_px)
        if factor >= _LEAST:
            return found
    return _narrowed(_stacked(spec, 1), paper.width_px)[1]


def _narrowed(spec: _Spec, width_px: float) -> tuple[float, _Spec]:
    """Return by how much plots are narrower (or wider) than they were, and the specification."""
    own = max((sum(view["width"] for view in _plots(line)) for line in _lines(spec)), default=0.0)
    factor = 1.0
    for _ in range(_TRIES):
        found = _with_width(spec, factor, width_px)
        over = drawn_width(found) - width_px
        if abs(over) <= _NEAR_PX or not own:
            break
        factor = max(factor - over / own, 0.2)
    return factor, _with_width(spec, factor, width_px)


def _lines(spec: _Spec) -> list[list[_Spec]]:
    """Return the views of a figure line by line."""
    if "hconcat" in spec:
        return [spec["hconcat"]]
    return [line.get("hconcat", [line]) for line in spec.get("vconcat", [spec])]


def _plots(line: list[_Spec]) -> list[_Spec]:
    return [view for view in line if view.get("width", 0) > _BAR_PX]


def _stacked(spec: _Spec, columns: int) -> _Spec:
    """Return a figure with at most so many plots beside each other; the first of a line has its labels."""
    spec = copy.deepcopy(spec)
    lines: list[_Spec] = []
    for line in _lines(spec):
        plots, bars = _plots(line), [view for view in line if view.get("width", 0) <= _BAR_PX]
        labels = (
            next((axis for axis in map(_labelled, _encoded(plots[0], "y")) if axis), None) if plots else None
        )
        for start in range(0, len(plots), columns):
            first, *rest = plots[start : start + columns]
            if labels and start:
                for upright in _encoded(first, "y"):
                    if "axis" in upright:
                        upright["axis"] = labels
            lines.append({"hconcat": [first, *rest, *(bars if not start else [])], "spacing": 14})
    if "hconcat" in spec:
        spec["vconcat"] = lines
        del spec["hconcat"]
    elif "vconcat" in spec and any("hconcat" in line for line in spec["vconcat"]):
        spec["vconcat"] = lines
    return spec


def _labelled(upright: Mapping[str, Any]) -> Mapping[str, Any] | None:
    axis: Mapping[str, Any] | None = upright.get("axis")
    return axis if axis and axis.get("labels", True) else None


def _encoded(view: _Spec, channel: str) -> Iterator[_Spec]:
    for part in (view, *view.get("layer", [])):
        if isinstance(part.get("encoding", {}).get(channel), dict):
            yield part["encoding"][channel]


def _with_width(spec: _Spec, factor: float, width_px: float) -> _Spec:
    spec = copy.deepcopy(spec)
    for line in _lines(spec):
        for view in _plots(line):
            view["width"] *= factor
            for across in _encoded(view, "x"):
                if isinstance(across.get("value"), int | float):
                    across["value"] *= factor
            if isinstance(view.get("title"), dict):
                room = view["width"] + (_LABELS_PX if view is line[0] else 0)
                view["title"] = _wrapped(view["title"], "text", min(room, width_px) / _LETTER_PX) | {
                    "limit": width_px
                }
    return spec


_LABELS_PX: Final = 30
"""Room above the labels of an axis, at least."""


def _readable(spec: _Spec, width_px: float) -> None:
    """Give all texts and heights the size that they have on paper, and break long lines."""
    _change(spec, lambda key, value: value * FONTS if key.lower().endswith("fontsize") else value)
    for line in _lines(spec):
        for view in line:
            view["height"] *= FONTS
    title = spec.get("title")
    if isinstance(title, dict):
        lines = _wrapped(title, "text", width_px / _BOLD_PX)
        spec["title"] = _wrapped(lines, "subtitle", width_px / _LETTER_PX)
    if width_px < _COLUMN_PX:
        for legend in _legends(spec):
            beside = legend.get("orient") == "right"
            legend["columns"] = 2 if beside else 1
            legend["orient"] = "top"
            legend["labelLimit"] = width_px / 2 if beside else width_px


def _wrapped(title: _Spec, key: str, letters: float) -> _Spec:
    """Return a title whose lines are no longer than so many letters."""
    text = title.get(key) or []
    lines = [text] if isinstance(text, str) else text
    most = max(math.floor(letters), 12)
    broken = [part for line in lines for part in textwrap.wrap(line, most, break_on_hyphens=False)]
    return title | ({key: broken} if broken else {})


def _legends(part: object) -> Iterator[_Spec]:
    if isinstance(part, dict):
        if isinstance(part.get("legend"), dict) and "orient" in part["legend"]:
            yield part["legend"]
        for value in part.values():
            yield from _legends(value)
    elif isinstance(part, list):
        for value in part:
            yield from _legends(value)


def _change(part: object, change: Callable[[str, Any], Any]) -> None:
    """Exchange every number of a specification for what `change` makes of it and its key."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in {"datasets", "data"}:
                continue
            if isinstance(value, int | float) and not isinstance(value, bool):
                part[key] = change(key, value)
            else:
                _change(value, change)
    elif isinstance(part, list):
        for value in part:
            _change(value, change)
