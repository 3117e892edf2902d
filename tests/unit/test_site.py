# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The site's navigation and links; tests/packaging/test_site.py builds it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """tools/site_hooks.py as MkDocs loads it."""
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "tools" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def navigation() -> list[str]:
    """Every page of the navigation."""

    def leaves(part: Any) -> list[str]:
        if isinstance(part, str):
            return [part]
        return [leaf for one in (part.values() if isinstance(part, dict) else part) for leaf in leaves(one)]

    return leaves(YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])


def test_the_navigation_has_every_page_once(hooks: ModuleType) -> None:
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages.add(hooks.API)
    listed = navigation()
    assert len(listed) == len(set(listed))
    assert {page for page in listed if not page.startswith("tree/")} == pages


def test_files_that_pages_link_to_belong_to_the_site(hooks: ModuleType) -> None:
    linked = hooks.linked(ROOT)
    assert {"README.md", "matrices/quickstart.yaml", "kernels/tcp_prague/README.md"} <= set(linked)
    assert {hooks.uri_of(path) for path in hooks.FIRST} == {page for page in navigation() if "tree/" in page}
    assert all((ROOT / path).is_file() for path in linked)


@pytest.mark.parametrize(
    ("uri", "text", "expected"),
    [
        ("matrix.md", "[a](../matrices/quickstart.yaml)", "[a](tree/matrices/quickstart.yaml)"),
        ("adr/0001-layout.md", "[a](../results/hosts.md#x)", "[a](../results/hosts.md#x)"),
        ("README.md", "[a](adr/) and [b](../README.md)", "a and [b](tree/README.md)"),
        ("tree/README.md", "[a](docs/ssh.md#kernels)", "[a](../ssh.md#kernels)"),
        ("tree/kernels/lab/README.md", "[a](../../docs/guest.md)", "[a](../../../guest.md)"),
        ("regressions.md", "[a](../.github/workflows/nightly.yml)", "[a](tree/github/workflows/nightly.yml)"),
        ("ssh.md", "[a](https://example.org/x) [b](#by-hand)", "[a](https://example.org/x) [b](#by-hand)"),
        ("ssh.md", "Text:\n- one\n- two\n", "Text:\n\n- one\n- two\n"),
        ("ssh.md", "```\n[a](b)\nText:\n- one\n```\n", "```\n[a](b)\nText:\n- one\n```\n"),
    ],
)
def test_links_and_lists_are_adapted(hooks: ModuleType, uri: str, text: str, expected: str) -> None:
    assert hooks.rewritten(text, uri) == expected
