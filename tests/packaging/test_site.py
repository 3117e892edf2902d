# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`make docs`: the site from the locked requirements alone, with every link checked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.patience import ran

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def checked(*argv: str | Path) -> str:
    """Run a command in the checkout; it must succeed."""
    ended = ran([str(arg) for arg in argv], cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    checked(sys.executable, "-m", "venv", place / "venv")
    python = place / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile")
    checked(*pip, "--require-hashes", "-r", ROOT / "requirements" / "docs.txt")
    checked(python, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", place / "out")
    return place / "out"


def test_pages_are_there(site: Path) -> None:
    for name in ("index.html", "tutorial.html", "factors.html", "results/hosts.html", "tree/index.html"):
        assert (site / name).is_file(), name
    assert "fq_codel at 50 Mbit/s" in (site / "tutorial.html").read_text(encoding="utf-8")
    assert 'id="another-ecn-than-asked"' in (site / "troubleshooting.html").read_text(encoding="utf-8")
    assert (site / "tree" / "matrices" / "quickstart.yaml").read_bytes() == (
        ROOT / "matrices" / "quickstart.yaml"
    ).read_bytes()


def test_signatures_come_from_the_code(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    for name in ("run", "load", "plan", "decide", "compare", "figures"):
        assert f".{name}" in page
    assert "Number of trials that run at once" in page  # a description of `run`


def test_it_needs_no_other_host(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="http' not in page
    assert "fonts.g" not in page
