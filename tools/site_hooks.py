# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Adapt docs/ for the site (`make docs`), as hooks of MkDocs.

Pages are written for readers of a checkout and of a terminal. On the site, files outside of docs/ that they
link to are below `tree/`, lists may follow a paragraph without a blank line, as everywhere else in Markdown
today, and headings have the anchors that links use.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # MkDocs runs this file alone

from l4sbench.app.pages import anchor_of  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS: Final = "docs/"
TREE: Final = "tree/"
FIRST: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Pages of the navigation that are not below docs/."""

API: Final = "api.md"
"""The page of signatures, which only the site can show: docstrings fill it."""

_LINK: Final = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s#:]+)(#[^)\s]*)?\)")
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LIST_AFTER_TEXT: Final = re.compile(r"^(?!- |\d+\. |[ |#]|$)(.*\n)(?=- |\d+\. )", re.MULTILINE)
_SHIM: Final = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*"></script>')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the anchors that links in the pages use."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda heading, _: anchor_of(heading)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ that pages link to, and those that these link to."""
    from mkdocs.structure.files import File

    for path in linked(ROOT):
        files.append(File.generated(config, uri_of(path), abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, API, abs_src_path=str(ROOT / "tools" / "site" / API)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite the links of a page, and separate lists from the paragraphs before them."""
    return rewritten(markdown, page.file.src_uri)


def on_post_page(output: str, **_: Any) -> str:
    """Remove the script of another host that would let the search work in pages opened from disk."""
    return _SHIM.sub("", output)


def linked(root: Path) -> list[str]:
    """Return the files outside of docs/ that belong to the site, by their paths in the tree."""
    found: dict[str, None] = dict.fromkeys(FIRST)
    open_pages = [*(path.relative_to(root).as_posix() for path in (root / DOCS).rglob("*.md")), *FIRST]
    while open_pages:
        page = open_pages.pop()
        for path in _targets((root / page).read_text(encoding="utf-8"), page):
            target = _page_of(root, path)
            if target.startswith(DOCS) or target in found or not (root / target).is_file():
                continue
            found[target] = None
            if target.endswith(".md"):
                open_pages.append(target)
    return sorted(found)


def _targets(markdown: str, page: str) -> Iterator[str]:
    for found in _LINK.finditer(_FENCED.sub("", markdown)):
        yield _normal(page, found[2])


def _normal(page: str, link: str) -> str:
    """Return the path in the tree that a link on a page leads to."""
    return os.path.normpath(PurePosixPath(page).parent / link)


def _page_of(root: Path, target: str) -> str:
    """Return the page of a folder that has one, and other targets as they are."""
    own = f"{target}/README.md"
    return own if (root / target).is_dir() and (root / own).is_file() else target


def uri_of(path: str) -> str:
    """Return the place in the site of a file by its path in the tree; sites leave out hidden folders."""
    return path.removeprefix(DOCS) if path.startswith(DOCS) else f"{TREE}{path.lstrip('.')}"


def rewritten(markdown: str, uri: str, root: Path = ROOT) -> str:
    """Return a page's Markdown for the site; `uri` is the page's place there."""
    page = uri.removeprefix(TREE) if uri.startswith(TREE) else f"{DOCS}{uri}"

    def link(found: re.Match[str]) -> str:
        text, path, anchor = found[1], found[2], found[3] or ""
        target = _page_of(root, _normal(page, path))
        if (root / target).is_dir():
            return text[1:-1]  # a folder without a page
        place = os.path.relpath(uri_of(target), PurePosixPath(uri).parent)
        return f"{text}({place}{anchor})"

    parts = _FENCED.split(markdown)
    codes = [*_FENCED.findall(markdown), ""]
    shown = (_LIST_AFTER_TEXT.sub(r"\1\n", _LINK.sub(link, part)) for part in parts)
    return "".join(text + code for text, code in zip(shown, codes, strict=True))
