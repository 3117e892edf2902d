# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision as files: the same figures in every one of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from reports.render.documents import documents
from reports.render.templating import tex
from reports.result.metrics import cell_metrics
from reports.result.regret import regret
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.patience import ran
from tests.unit.reports.conftest import Make

CELLS: list[dict[str, Any]] = [
    {"aqm": "fifo", "l4s": [45.0, 46.0, 44.0], "classic": [50.0, 49.0, 51.0]},
    {"aqm": "codel", "l4s": [89.0, 88.0, 90.0], "classic": [6.0, 7.0, 5.0]},
    {"aqm": "dualpi2", "l4s": [44.0, 44.0, 44.0], "classic": [51.0, 51.0, 51.0], "delay": 0.3},
    {"aqm": "dualpi2", "classic.ecn": "classic", "status": ["failed"]},
]


@pytest.fixture
def decision(make: Make) -> Decision:
    return decide(make(CELLS), load_rule("pam25"))


def test_all_documents_are_written(decision: Decision) -> None:
    texts = documents(decision, regret(decision))
    assert list(texts) == ["decision.md", "decision.csv", "cells.csv", "decision.json", "decision.tex"]
    text = texts["decision.md"]
    assert text.index("Expected regret of switching to Prague") < text.index("| queue |")
    assert "([definition](#expected-regret))" in text
    assert "## Expected regret\n\nA flow that gets less" in text


def test_csv_and_json_hold_the_cells_and_entries(decision: Decision, tmp_path: Path) -> None:
    texts = documents(decision)
    (tmp_path / "cells.csv").write_text(texts["cells.csv"])
    cells = pl.read_csv(tmp_path / "cells.csv")
    assert cells["cell"].to_list() == [cell.id for cell in decision.cells]
    document = json.loads(texts["decision.json"])
    assert [cell["l4s_mbps"] for cell in document["cells"]] == cells["l4s_mbps"].to_list()
    assert [entry["verdict"] for entry in document["verdicts"]] == decision.frame()["verdict"].to_list()
    assert document["rule"]["rule"] == "pam25"
    assert document["left_out"][0]["status"] == "failed"
    (hint,) = document["hints"]
    assert (hint["trials"], hint["see"]) == (1, "docs/troubleshooting.md#a-trial-that-failed")


def test_documents_say_which_verdicts_are_sure(make: Make, tmp_path: Path) -> None:
    cells = [
        {"aqm": "fifo", "l4s": [40.0, 50.0], "classic": [50.0, 49.0]},
        {"aqm": "dualpi2", "l4s": [44.0, 44.0, 44.0], "classic": [51.0, 51.0, 51.0]},
    ]
    texts = documents(decide(make(cells), load_rule("pam25")))
    document = json.loads(texts["decision.json"])
    assert [(entry["verdict"], entry["sure"]) for entry in document["verdicts"]] == [
        ("ok", True),
        ("ok", False),
    ], "by the key: DualPI2, single queue"
    assert [cell["sure"] for cell in document["cells"]] == [False, True]
    (tmp_path / "decision.csv").write_text(texts["decision.csv"])
    assert pl.read_csv(tmp_path / "decision.csv")["sure"].to_list() == [True, False]
    doubt = "Prague may get 0 to 100 % of the link, limits 20 and 80"
    assert f"✓ **ok**, unsure: {doubt} (2 trials)<br>" in texts["decision.md"]
    assert r"\LsbOk{} ok, unsure (2 trials)" in texts["decision.tex"]
    assert "sure: `l4sbench run matrix.yaml --sure` in the run directory adds" in texts["decision.md"]
    assert "l4sbench run" not in texts["decision.tex"]
    assert document["make_sure"] == "l4sbench run matrix.yaml --sure"
    sure = decide(make(cells[1:]), load_rule("pam25"))
    assert json.loads(documents(sure)["decision.json"])["make_sure"] is None


def test_further_figures_are_in_the_markdown_and_a_file_of_their_own(make: Make) -> None:
    tables = make(CELLS)
    metrics = cell_metrics(tables)
    texts = documents(decide(tables, load_rule("pam25")), (), metrics)
    line = next(
        line for line in texts["decision.md"].split("## Further figures")[1].splitlines() if "FIFO" in line
    )
    assert line.split("|")[2:] == [" 0.997 (2) ", " 0.90 ", " 95.0 ", ""], "no column that no cell has"
    rows = texts["metrics.csv"].splitlines()
    assert len(rows) == 1 + 3
    assert rows[0].startswith("cell,flows,jain,utilisation,ratio,")
    assert len(json.loads(texts["decision.json"])["metrics"]) == 3


def test_latex_names_every_verdict_in_words_and_signs(decision: Decision) -> None:
    text = documents(decision)["decision.tex"]
    assert r"\LsbOk{} ok \LsbStar{}" in text
    assert r"\LsbStarves{} classic-starved" in text
    assert "not run" in text
    assert r"{\footnotesize CoDel (+ECN)}" in text
    assert r"{\footnotesize 89 \% (89.0 v 6.0)}" in text


def test_latex_rounds_no_share_over_its_limit(make: Make) -> None:
    cells = [{"aqm": "fifo", "l4s": [19.7] * 3, "classic": [75.0] * 3}]
    text = documents(decide(make(cells), load_rule("pam25")))["decision.tex"]
    assert r"\LsbStarved{} l4s-starved" in text
    assert r"19.7 \% (19.7 v 75.0)" in text


def test_every_document_says_what_switching_costs(decision: Decision) -> None:
    texts = documents(decision, regret(decision))
    assert "xpected regret of switching to Prague" in texts["decision.md"]
    assert "xpected regret" not in texts["decision.tex"]  # of weights that nobody chose
    for name in ("decision.md", "decision.tex"):
        assert "This says nothing about short or application-limited flows" in texts[name], name
    document = json.loads(texts["decision.json"])
    assert document["answers"][0]["answer"].startswith("Not everywhere: ok in 2 of 4 entries")
    assert document["beyond"].endswith("or about other kernels than 7.3.4.")
    assert json.loads(texts["decision.json"])["regret"][0]["l4s"] == "Prague"


def test_latex_escapes_what_tex_would_take_for_its_own() -> None:
    assert tex(r"50% of a_b {c} \d #1 $ & ~^<>") == (
        r"50\% of a\_b \{c\} \textbackslash{}d \#1 \$ \& \textasciitilde{}\textasciicircum{}"
        r"\textless{}\textgreater{}"
    )


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no LaTeX here: texlive-latex-recommended has it")
def test_latex_compiles(decision: Decision, tmp_path: Path) -> None:
    (tmp_path / "decision.tex").write_text(documents(decision)["decision.tex"], encoding="utf-8")
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,amssymb}\n"
        "\\begin{document}\n\\input{decision}\n\\end{document}\n"
    )
    compiled = ran(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"], cwd=tmp_path)
    assert compiled.returncode == 0, compiled.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 1000
