# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Figures as files: one specification gives vector and pixel images and an interactive page, all offline."""

from __future__ import annotations

import html
import json
import re
import resource
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from l4sbench.disk.files import write_whole
from l4sbench.errors import InputError, suggest
from l4sbench.printable import printable_json

if TYPE_CHECKING:
    import altair as alt

FORMATS: Final = ("svg", "png", "pdf", "html", "json")
"""The formats of figures; `json` is the Vega-Lite specification."""

_TAGS: Final = re.compile("<(?=[/!sS])")
_LESS: Final = r"\\u003c"

_TEXT: Final = re.compile(r'<text((?: [\w:-]+="[^"]*")*)>(.*?)</text>', re.DOTALL)
_LINE: Final = re.compile(r'<tspan((?: [\w:-]+="[^"]*")*)>([^<]*)</tspan>')
_FONT: Final = re.compile(r' font-(family|size|weight|style)="([^"]*)"')

_RESERVED_BYTES: Final = 96 << 30
"""Address space with which the renderer's JavaScript engine starts; 64 GB are too few (vl-convert 1.9)."""

PNG_SCALE: Final = 3.0
"""Pixels per unit of the drawing: about 288 per inch, enough for print."""


def formats(text: str) -> tuple[str, ...]:
    """Parse formats such as `svg,png`.

    Raises:
        InputError: one of them is unknown, or the text is empty.
    """
    found = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip()))
    for name in found:
        if name not in FORMATS:
            hint = suggest(name, FORMATS)
            raise InputError(f"figures cannot be written as {name}", hint)
    if not found:
        raise InputError("no format is named", f"choose from {', '.join(FORMATS)}")
    return found


def renderer() -> ModuleType:
    """Import the renderer, vl-convert, where it can start: it reserves far more memory than it uses.

    Raises:
        InputError: the address space of programs is limited to less.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _RESERVED_BYTES:
        raise InputError(
            f"figures cannot be drawn with {limit >> 20} MB of address space: the renderer reserves up to "
            f"{_RESERVED_BYTES >> 30} GB, of which it uses little",
            "`ulimit -v unlimited` lifts the limit in a shell",
        )
    import vl_convert

    return vl_convert


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return the Vega-Lite specification, checked against its schema."""
    return dict(chart.to_dict())


def drawn_width(spec: dict[str, Any]) -> float:
    """Return the width of a drawing in the fonts that it was made for, pixels."""
    found = _WIDTH.search(_image(spec))
    return float(found[1]) if found else 0.0


_WIDTH: Final = re.compile(r' width="([\d.]+)" height="([\d.]+)" viewBox="')


def _image(spec: dict[str, Any]) -> str:
    return _drawn(json.dumps(spec))


_OFFLINE: Final[list[str]] = []
"""Addresses that the renderer may read from."""


@lru_cache(maxsize=2)  # what was drawn to see its width is then written, in one format or more
def _drawn(spec: str) -> str:
    return str(renderer().vegalite_to_svg(spec, allowed_base_urls=_OFFLINE))


def _resized(image: str, width_px: float) -> str:
    """Return an image that is shown at a width, whatever the width of the drawing."""

    def size(found: re.Match[str]) -> str:
        height = float(found[2]) * width_px / float(found[1])
        return f' width="{width_px:.2f}" height="{height:.2f}" viewBox="'

    return _WIDTH.sub(size, image, count=1)


def render(spec: dict[str, Any], form: str, width_px: float | None = None) -> bytes:
    """Render a specification as an image, a self-contained page, or JSON.

    Args:
        spec: The specification.
        form: One of `FORMATS`.
        width_px: Width of an image; None: as drawn.

    Raises:
        InputError: the format is unknown, or the address space is too small for drawing.
    """
    # a control character, which XML does not take, would abort the process
    spec = cast("dict[str, Any]", printable_json(spec))
    match form:
        case "svg" | "png" | "pdf" if width_px:
            image = _resized(_image(spec), width_px * (_POINTS if form == "pdf" else 1))
            if form == "svg":
                return with_lengths(image).encode()
            if form == "png":
                return bytes(renderer().svg_to_png(image, scale=PNG_SCALE))
            return bytes(renderer().svg_to_pdf(image))
        case "svg":
            return with_lengths(_image(spec)).encode()
        case "png":
            return bytes(renderer().vegalite_to_png(spec, scale=PNG_SCALE, allowed_base_urls=_OFFLINE))
        case "pdf":
            return bytes(renderer().vegalite_to_pdf(spec, allowed_base_urls=_OFFLINE))
        case "html":
            return _without_tags(str(renderer().vegalite_to_html(spec, bundle=True))).encode()
        case "json":
            return (json.dumps(spec, indent=1) + "\n").encode()
        case _:
            raise InputError(f"figures cannot be written as {form}", f"choose from {', '.join(FORMATS)}")


_POINTS: Final = 72 / 96
"""Points of a pixel: a PDF file takes a pixel for a point."""


def with_lengths(image: str) -> str:
    """Return an SVG image whose texts say how long they are, so that no viewer's font makes them longer.

    Vega places texts by the widths of a font that it brings. A viewer without that font and its like takes
    another, and DejaVu Sans is 15 % wider: texts would leave the image or run into each other. With its
    length a text is condensed instead, and it can still be searched and changed.
    """
    texts = dict.fromkeys(
        (line, font) for attributes, body in _TEXT.findall(image) for line, font in _lines(attributes, body)
    )
    lengths = dict(zip(texts, _lengths(list(texts)), strict=True))

    def said(line: str, font: Font) -> str:
        length = lengths.get((line, font), 0.0)
        return f' textLength="{length:.2f}" lengthAdjust="spacingAndGlyphs"' if length else ""

    def text(found: re.Match[str]) -> str:
        attributes, body = found.groups()
        if "<tspan" not in body:
            return f"<text{attributes}{said(body, _font(attributes))}>{body}</text>"
        font = _font(attributes)
        lines = _LINE.sub(lambda own: f"<tspan{own[1]}{said(own[2], font)}>{own[2]}</tspan>", body)
        return f"<text{attributes}>{lines}</text>"

    return _TEXT.sub(text, image)


Font: TypeAlias = "tuple[tuple[str, str], ...]"
"""Attributes of a text that change its length, as an SVG image has them, sorted."""


def _font(attributes: str) -> Font:
    return tuple(sorted(_FONT.findall(attributes)))


def _lines(attributes: str, body: str) -> list[tuple[str, Font]]:
    """Return the lines of a text with their font."""
    lines = [line for _, line in _LINE.findall(body)] if "<tspan" in body else [body]
    return [(line, _font(attributes)) for line in lines]


def _lengths(texts: Sequence[tuple[str, Font]]) -> list[float]:
    """Measure texts as Vega does: it draws them, and then prints how wide they have become."""
    rows = []
    for line, attributes in texts:
        font = {
            "size": "11px",
            "family": "sans-serif",
            "weight": "normal",
            "style": "normal",
            **dict(attributes),
        }
        size = float(font["size"].removesuffix("px"))
        rows.append({**font, "line": html.unescape(line), "size": size})
    named = {
        "text": "line",
        "font": "family",
        "fontSize": "size",
        "fontWeight": "weight",
        "fontStyle": "style",
    }
    drawn = {
        "name": "drawn",
        "type": "text",
        "from": {"data": "texts"},
        "encode": {"enter": {name: {"field": field} for name, field in named.items()}},
    }
    width = "format(datum.bounds.x2 - datum.bounds.x1, '.2f')"
    printed = {
        "type": "text",
        "from": {"data": "drawn"},
        "encode": {"update": {"text": {"signal": width}, "font": {"value": _PRINTED}}},
    }
    spec = {
        "$schema": "https://vega.github.io/schema/vega/v6.json",
        "data": [{"name": "texts", "values": rows}],
        "marks": [drawn, printed],
    }
    image = str(renderer().vega_to_svg(spec, allowed_base_urls=_OFFLINE))
    found = re.findall(rf'font-family="{_PRINTED}"[^>]*>([\d.]+)</text>', image)
    return [float(length) for length in found]


_PRINTED: Final = "printed"


def _without_tags(page: str) -> str:
    """Return a page in which no text of the specification can end the script element that holds it."""
    head, name, rest = page.rpartition("\n    const spec = ")
    spec, end, tail = rest.partition("\n")  # JSON on one line, in which `<` is only within texts
    if not name:
        raise ValueError("the page that vl-convert made has no specification")
    return f"{head}{name}{_TAGS.sub(_LESS, spec)}{end}{tail}"


def save(chart: alt.TopLevelMixin, path: str | Path) -> Path:
    """Write a chart in the format of the file's ending; the file appears whole or not at all.

    Raises:
        InputError: the ending is not one of `FORMATS`, or the address space is too small for drawing.
    """
    path = Path(path)
    (form,) = formats(path.suffix.removeprefix(".") or path.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, render(specification(chart), form))
    return path


_GLOBALS: Final = "window.vegaEmbed = vegaEmbed; window.vega = vega; window.vegaLite = vegaLite;"


@cache
def javascript() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script without anything to download.

    The script defines `vega`, `vegaLite` and `vegaEmbed` as global names of the page.
    """
    return str(renderer().javascript_bundle(_GLOBALS))
