# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pages that people rely on name everything there is."""

import ast
import json
import re
from pathlib import Path

import pytest

from l4sbench import __version__
from l4sbench.disk.document import read
from l4sbench.matrix.grammar import MatrixFile

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("[kpr]*/*/*.md")})


def python_of(page: Path) -> list[str]:
    """The Python of a page: its fenced blocks, or the code cells of a notebook without shell commands."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return ["".join(line for line in cell if not line.startswith("!")) for cell in cells]


def test_every_key_is_on_the_page_of_matrices() -> None:
    text = (DOCS / "matrix.md").read_text(encoding="utf-8")
    keys = [field.alias or name for name, field in MatrixFile.model_fields.items()]
    assert keys
    assert [key for key in keys if f"`{key}`" not in text] == []


def anchors_of(page: Path) -> set[str]:
    """The anchors that a page's headings get where it is rendered."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]
    assert [target for target, _ in targets if not target.exists()] == []
    anchored = [(target, anchor) for target, anchor in targets if anchor and target.suffix == ".md"]
    assert [anchor for target, anchor in anchored if anchor not in anchors_of(target)] == []


def test_the_citation_is_of_this_version() -> None:
    citation = read(ROOT / "CITATION.cff").content
    assert isinstance(citation, dict)
    assert citation["cff-version"] == "1.2.0"
    assert all(citation[key] for key in ("message", "title", "authors", "license"))
    released = f"## [{citation['version']}] - {citation['date-released']}"
    assert citation["version"] == __version__
    assert released in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("page", ["docs/notebook.md", "notebooks/fabric.ipynb", "notebooks/tour.ipynb"])
def test_imports_in_examples_exist(page: str) -> None:
    statements = [
        ast.unparse(node)
        for block in python_of(ROOT / page)
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert statements
    for statement in statements:
        exec(statement, {})
