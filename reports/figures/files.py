# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Figures as files in a folder, with an index that describes them."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from l4sbench.disk.files import write_whole
from l4sbench.printable import printable
from l4sbench.version import __version__
from reports.figures.fit import SCREEN, Paper, fitted
from reports.figures.save import render, specification

if TYPE_CHECKING:
    import altair as alt

INDEX: Final = "index.html"


@dataclass(frozen=True)
class Figure:
    """A figure: `name` is its file's without the ending, `caption` describes it, `sources` can be opened."""

    name: str
    caption: str
    chart: alt.TopLevelMixin
    sources: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return f"<Figure {self.name}: {self.caption}>"

    def _repr_svg_(self) -> str:
        """Return the figure for a notebook, which shows it without a network."""
        return render(specification(self.chart), "svg").decode()


@dataclass(frozen=True)
class Written:
    """A figure on the disk, one file per format; `sources` are those of the figure."""

    name: str
    caption: str
    files: tuple[Path, ...]
    sources: tuple[Path, ...] = ()


def write(
    shown: Iterator[Figure],
    folder: Path,
    forms: Sequence[str] = ("svg",),
    on_written: Callable[[Written], None] = lambda _: None,
    command: str = "",
    paper: Paper = SCREEN,
) -> tuple[Written, ...]:
    """Write figures into a folder, each in all formats and as the paper needs it, and an index of them.

    `command` draws them again; the index names it. Files of the same name are replaced, others stay; each
    appears whole or not at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Written] = []
    for figure in shown:
        spec = fitted(specification(figure.chart), paper)
        files = []
        for form in forms:
            path = folder / f"{figure.name}.{form}"
            write_whole(path, render(spec, form, paper.width_px))
            files.append(path)
        written = Written(figure.name, figure.caption, tuple(files), figure.sources)
        found.append(written)
        on_written(written)
    write_whole(folder / INDEX, _index(found, command))
    return tuple(found)


_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="l4sbench">
<title>Figures</title>
<style>
body {{ font: 16px/1.4 sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }}
a, code {{ overflow-wrap: anywhere; }}
figure {{ margin: 0 0 3em; }}
img {{ max-width: 100%; background: white; }}
</style>
<h1>Figures</h1>
{drawn}<nav aria-label="Contents">
{contents}
</nav>
{body}
</html>
"""


def _index(found: Sequence[Written], command: str) -> str:
    body = "\n".join(_entry(written) for written in found)
    drawn = (
        f"<p>Drawn by <code>{html.escape(command)}</code>, l4sbench {__version__}.</p>\n" if command else ""
    )
    return printable(_PAGE.format(contents=_contents(found), body=body, drawn=drawn))


def _contents(found: Sequence[Written]) -> str:
    """Return links to the figures, one line per kind, which is the beginning of their names."""
    kinds: dict[str, list[Written]] = {}
    for written in found:
        kinds.setdefault(written.name.partition("_")[0], []).append(written)
    lines = []
    for kind, own in kinds.items():
        links = ", ".join(
            f'<a href="#{html.escape(one.name)}">{html.escape(one.name.partition("_")[2] or one.name)}</a>'
            for one in own
        )
        lines.append(f"<li>{html.escape(kind)}: {links}</li>")
    return "\n".join(["<ul>", *lines, "</ul>"])


def _entry(written: Written) -> str:
    caption = html.escape(written.caption)
    images = [path for path in written.files if path.suffix in {".svg", ".png"}]
    shown = ""
    if images:
        shown = f'<img src="{html.escape(images[0].name)}" alt="{caption}" loading="lazy">\n'
    links = ", ".join(
        f'<a href="{html.escape(path.name)}">{path.suffix.removeprefix(".")}</a>' for path in written.files
    )
    links += "".join(
        f', <a href="{html.escape(_link(source, path))}">{html.escape(source.name)}</a>'
        for path in written.files[:1]
        for source in written.sources
    )
    name = html.escape(written.name)
    return (
        f'<figure id="{name}">\n{shown}<figcaption>{caption} <code>{name}</code>: {links}</figcaption>\n'
        "</figure>"
    )


def _link(source: Path, beside: Path) -> str:
    """Return the address of a file on a page that is in the folder of another."""
    return quote(Path(os.path.relpath(source.resolve(), beside.resolve().parent)).as_posix())
