# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The pages of `docs/`, which the wheel holds too, so that what messages cite can be read everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from l4sbench.disk import assets
from l4sbench.disk.userfiles import short
from l4sbench.errors import InputError, suggest

_HEADING: Final = re.compile(r"^(#+) (.*)$", re.MULTILINE)
_ROW: Final = re.compile(r"^\| (.*?) \| (.*) \|$", re.MULTILINE)
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)]*)\)")
_GLOSSARY: Final = "reading"
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> Mapping[str, str]:
    """Return the title of every page by its name, which is the path below `docs/` without the ending."""
    folder = assets.folder("docs")
    return {
        path.relative_to(folder).with_suffix("").as_posix(): _title(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.md"))
    }


def page(name: str, section: str = "") -> str:
    """Return the Markdown of a page, or of one section of it.

    Args:
        name: The page's name; `docs/ssh.md` and `ssh.md#kernels` mean the same as `ssh`.
        section: A heading as in links (`expected-regret`); empty for the whole page.

    Raises:
        InputError: there is no such page or section.
    """
    path, _, anchor = name.partition("#")
    wanted = path.removeprefix("docs/").removesuffix(".md")
    names = pages()
    if wanted not in names:
        raise InputError(f"{short(name)} is not a page of the documentation", suggest(wanted, names))
    text = (assets.folder("docs") / f"{wanted}.md").read_text(encoding="utf-8")
    section = section or anchor
    return _section(text, wanted, section) if section else text


def glossary() -> Mapping[str, str]:
    """Return the meaning of every word of the glossary as plain text; a row may have several words."""
    rows = _ROW.findall(page(_GLOSSARY, "words"))
    return {
        word.strip("*"): _LINK.sub(lambda link: f"l4sbench docs {_as_words(link[1])}", meaning).replace(
            "`", ""
        )
        for words, meaning in rows
        for word in words.split(", ")
        if word != "word" and not word.startswith("--")
    }


def _as_words(target: str) -> str:
    """Return the arguments of `docs` for the target of a link of the glossary.

    `statistics.md#harm` is `statistics harm`; without a page, the target is on the glossary's own.
    """
    name, _, section = target.partition("#")
    return f"{name.removesuffix('.md') or _GLOSSARY} {section}".rstrip()


def anchor_of(heading: str) -> str:
    """Return what links to a heading use: `Another ECN than asked` is `another-ecn-than-asked`."""
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


def _title(text: str) -> str:
    found = _HEADING.search(text)
    return found[2] if found else ""


def _section(text: str, name: str, section: str) -> str:
    """Return a section with those below it."""
    # in code, a line that begins with # is a comment
    plain = _FENCE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    headings = list(_HEADING.finditer(plain))
    anchors = [anchor_of(heading[2]) for heading in headings]
    if section not in anchors:
        raise InputError(f"{short(section)} is not a section of {name}", suggest(section, anchors))
    at = anchors.index(section)
    level = len(headings[at][1])
    ends = (heading.start() for heading in headings[at + 1 :] if len(heading[1]) <= level)
    return text[headings[at].start() : next(ends, len(text))].rstrip("\n") + "\n"
