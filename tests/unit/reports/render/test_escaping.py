# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Labels and reasons that would run, restyle or break what shows them."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import polars as pl
import pytest
from rich.console import Console

from l4sbench import tables
from reports.figures.save import render as figure
from reports.page.page import Heading, render
from reports.render.documents import documents
from reports.render.templating import Latex, Markdown, code, md, table, tex
from reports.render.terminal import as_text, terminal
from reports.result.load import RunTables, load
from reports.result.metrics import cell_metrics
from reports.result.regret import regret
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.unit.reports.conftest import Make

HOSTILE = (
    "Q|ueue</td><script>alert(1)</script><img src=x> [red]r[/red] [x](http://a.example) `c` **b** &lt; "
    "\\input{secret} \x1b[31m\x07\x9b\u202eabc\u2066"
)
UNSEEN = re.compile("[\x00-\x08\x0b-\x1c\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(make: Make) -> RunTables:
    """Tables whose queue has a hostile label, and whose trials a hostile reason."""
    made = make(
        [
            {"aqm": "fifo", "l4s": [45.0, 46.0], "classic": [50.0, 49.0], "status": ["ok", "invalid"]},
            {"aqm": "dualpi2", "l4s": [44.0, 44.0], "classic": [51.0, 51.0]},
        ]
    )
    for name, columns in (("catalog", ["label", "family"]), ("trials", ["reasons", "modules", "kernels"])):
        path = made.folder / f"{name}.parquet"
        frame = pl.read_parquet(path)
        texts = {
            column: pl.lit(HOSTILE) if frame[column].dtype == pl.String else pl.concat_list(pl.lit(HOSTILE))
            for column in columns
        }
        changed = [
            pl.when(pl.col(column).is_not_null()).then(text).otherwise(None).alias(column)
            for column, text in texts.items()
        ]
        tables.write(name, [frame.with_columns(changed).lazy()], path)
    for name in tables.OF_TRIALS:
        if not (made.folder / f"{name}.parquet").exists():
            tables.write(name, [], made.folder / f"{name}.parquet")
    return load(made.folder)


@pytest.fixture
def decision(hostile: RunTables) -> Decision:
    return decide(hostile, load_rule("pam25"))


def test_markdown_and_latex_show_them(hostile: RunTables, decision: Decision) -> None:
    texts = documents(decision, regret(decision), cell_metrics(hostile))
    text = texts["decision.md"]
    assert r"Q\|ueue\</td>\<script>" in text
    assert r"\[x\](http://a.example) \`c\` \*\*b\*\* \&lt; \\input" not in text, "a word follows: no escape"
    assert r"\[x\](http://a.example) \`c\` \*\*b\*\* \&lt; \input" in text
    assert not re.search(r"(?<!\\)<(?!br>)[a-z/]", text), "no HTML of a file's"
    rows = [line for line in text.split("\n## Cells")[0].splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, "each row has as many cells"
    assert r"\textbackslash{}input\{secret\}" in texts["decision.tex"]
    assert r"\input{" not in texts["decision.tex"]
    for name in ("decision.md", "decision.tex"):
        assert not UNSEEN.search(texts[name]), name
        assert r"x1b" in texts[name]


def test_the_terminal_shows_them(decision: Decision) -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=400, highlight=False, color_system="standard").print(
        terminal(decision)
    )
    own = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())
    for text in (own, as_text(decision, 400)):
        assert "[red]r[/red]" in text
        assert r"\x1b[31m\x07\x9b\u202eabc\u2066" in text
        assert not UNSEEN.search(text)


def test_the_page_shows_them(hostile: RunTables, decision: Decision) -> None:
    costs = [replace(cost, prevalence=HOSTILE) for cost in regret(decision)]
    assert costs
    text = render(hostile, decision, Heading(HOSTILE, HOSTILE), costs=costs)
    body, script = text.split('<script type="application/json"', 1)
    assert "&lt;script&gt;alert(1)" in body
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert not UNSEEN.search(body)
    assert not UNSEEN.search(script.replace("\x1d", ""))


def test_figures_show_them() -> None:
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": HOSTILE,
        "data": {"values": [{"a": 1, "b": HOSTILE}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "b", "type": "nominal"},
            "y": {"field": "a", "type": "quantitative"},
        },
    }
    page = figure(spec, "html").decode()
    assert "<script>alert" not in page
    assert r"\u003cscript>alert(1)\u003c/script>" in page
    image = figure(spec, "svg").decode()
    assert "&lt;script&gt;alert(1)" in image
    assert not UNSEEN.search(image)
    assert figure(spec, "png").startswith(b"\x89PNG"), "an ESC would end the process"


def test_text_is_escaped_and_marked_text_is_not() -> None:
    assert md(Markdown("**b**")) == "**b**"
    assert tex(Latex(r"\b{}")) == r"\b{}"
    assert table(["a|b"], [[Markdown("**c**")], ["d\ne"]]) == "| a\\|b |\n| --- |\n| **c** |\n| d e |"
    assert code("run x='a*' `id`\n") == "`run x='a*' 'id' `"
    assert tex("[0.4ex] *") == "{[}0.4ex{]} {*}"


def test_ordinary_words_need_no_escapes() -> None:
    for text in ("FIFO (+ECN), 4 BDP: 0.3 % (0.3 v 95.2 Mbit/s)", "tcp_prague=0CF64", "a < 5 & b"):
        assert md(text) == text
