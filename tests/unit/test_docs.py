# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pages that people rely on name everything there is."""

import re
from pathlib import Path

import pytest

from l4sbench.factors import FACTORS, GROUP_FACTORS
from l4sbench.matrix.grammar import MatrixFile

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", [*FACTORS, *(f"<group>.{name}" for name in GROUP_FACTORS)])
def test_every_factor_is_on_the_page_of_matrices(name: str) -> None:
    assert f"`{name}`" in (DOCS / "matrix.md").read_text(encoding="utf-8")


def test_every_key_is_on_the_page_of_matrices() -> None:
    text = (DOCS / "matrix.md").read_text(encoding="utf-8")
    keys = [field.alias or name for name, field in MatrixFile.model_fields.items()]
    assert keys
    assert [key for key in keys if f"`{key}`" not in text] == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
