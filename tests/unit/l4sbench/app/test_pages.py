# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench docs`, and what messages cite by it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from l4sbench.app.pages import page, pages
from l4sbench.cli import main
from l4sbench.errors import InputError
from tests.attack.hostile import TEXTS

ROOT = Path(__file__).parents[4]
SOURCES = [
    path
    for folder in ("l4sbench", "reports", "collectors", "fablib_slices")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".j2", ".yml", ".js"}
]


def printed_by(path: Path) -> list[str]:
    """Texts that a file may print: of Python the strings that are no docstrings, of others all lines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [line for line in text.splitlines() if not line.lstrip().startswith(("#", "{#", "//"))]
    tree = ast.parse(text)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    ]


def test_pages_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"^ssh +Hosts by ssh", listed, re.MULTILINE)
    assert re.search(r"^adr/0002-cell-id +", listed, re.MULTILINE)
    for name in ("ssh", "ssh.md", "docs/ssh.md"):
        assert main(["docs", name]) == 0
        assert capsys.readouterr().out == (ROOT / "docs" / "ssh.md").read_text(encoding="utf-8")


def test_a_section_is_printed_with_those_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "matrix", "factors"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("## Factors\n")
    assert "\n### Events\n" in shown
    assert "## Kinds of traffic" not in shown
    assert main(["docs", "docs/matrix.md#factors"]) == 0
    assert capsys.readouterr().out == shown


def test_comments_in_code_are_no_headings() -> None:
    assert "l4sbench lab build" in page("install", "the-lab")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["docs", "shs"], "error: shs is not a page of the documentation; did you mean ssh?"),
        (["docs", "../README"], "error: ../README is not a page of the documentation"),
        (["docs", "ssh", "by-hnad"], "error: by-hnad is not a section of ssh; did you mean by-hand?"),
    ],
)
def test_unknown_names_suggest(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize("name", TEXTS)
def test_nasty_names_are_no_pages(name: str) -> None:
    with pytest.raises(InputError, match=r"is not a (page|section) of"):
        page(name)
    with pytest.raises(InputError, match="is not a section of ssh"):
        page("ssh", f"{name}!")


def test_what_messages_cite_is_there() -> None:
    cited = {
        found
        for path in SOURCES
        for found in re.findall(
            r"l4sbench docs ([a-z0-9/-]+)(?: ([a-z][a-z0-9-]+))?", path.read_text("utf-8")
        )
    }
    assert len(cited) > 5
    for name, section in cited:
        assert page(name, section)


def test_messages_cite_no_file_that_a_wheel_lacks() -> None:
    """Docstrings and comments may name files of the checkout; what is printed may not."""
    named = re.compile(r"(?<!> )\bdocs/[a-z0-9-]+\.md")  # `> docs/...` is where a generated page goes
    found = {
        (path.relative_to(ROOT).as_posix(), text)
        for path in SOURCES
        for text in printed_by(path)
        if named.search(text)
    }
    assert found == set()


def test_every_page_has_a_title() -> None:
    assert [name for name, title in pages().items() if not title] == []


def test_a_word_cites_its_own_page_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ok"]) == 0
    assert "(l4sbench docs reading verdicts)" in capsys.readouterr().out
    assert page("reading", "verdicts")
