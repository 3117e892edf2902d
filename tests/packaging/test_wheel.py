# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The wheel holds everything, nothing else, and works where there is no checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.patience import ran

HOSTS = """\
all:
  hosts:
    a: {l4sbench_node: [tx-l4s, tx-classic]}
"""
ROOT = Path(__file__).parents[2]
PACKAGES = ("l4sbench", "collectors", "reports", "fablib_slices")
DATA = ("docs", "kernels", "matrices", "p4", "playbooks", "roles", "senders", "workloads")
PICTURES = (".svg", ".png", ".csv")
"""Files below docs/ that `l4sbench docs` does not print."""
FOR_LISTS = "kernels/lab/patches/upstream/"
"""Patches for the mailing lists of Linux, from which no lab is made."""
STRAY = (
    "kernels/tcp_prague/tcp_prague.ko",
    "kernels/tcp_prague/tcp_prague.o",
    "kernels/lab/guest/lab-init.o",
)


def run(*argv: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command without this process's Python settings; its output is in what a failure shows."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return ran([str(arg) for arg in argv], cwd=cwd, env={**kept, **env})


def checked(*argv: str | Path, cwd: Path, **env: str) -> str:
    """The same; it must succeed."""
    ended = run(*argv, cwd=cwd, **env)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def sources() -> list[str]:
    """The files of the checkout, without what git ignores."""
    listed = checked("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built through the sdist from a copy of the tree in which modules were built as well."""
    tree = tmp_path_factory.mktemp("tree")
    for name in sources():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    for name in STRAY:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(b"stray")
    checked(sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "dist", cwd=tree)
    (built,) = (tree / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel and what it needs; returns its bin folder."""
    place = tmp_path_factory.mktemp("installed")
    checked(sys.executable, "-m", "venv", place / "venv", cwd=place)
    python = place / "venv/bin/python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile")
    checked(*pip, "--require-hashes", "-r", ROOT / "requirements/run.txt", cwd=place)
    checked(*pip, "--no-deps", wheel, cwd=place)
    checked(python, "-m", "pip", "--disable-pip-version-check", "check", cwd=place)
    return place / "venv/bin"


def test_wheel_holds_the_tree_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {name for name in sources() if name.startswith(tuple(f"{part}/" for part in PACKAGES))}
    wanted |= {
        f"l4sbench/_assets/{name}"
        for name in sources()
        if name.startswith(tuple(f"{part}/" for part in DATA))
        and not (name.startswith("docs/") and name.endswith(PICTURES))
        and not name.startswith(FOR_LISTS)
    }
    assert held == wanted
    assert any(name.startswith("l4sbench/_assets/kernels/tcp_prague/") for name in held)
    assert "l4sbench/_assets/matrices/quickstart.yaml" in held


def test_our_names_are_owned_by_us_alone(installed: Path, tmp_path: Path) -> None:
    code = "import json, importlib.metadata as m; print(json.dumps(m.packages_distributions()))"
    owners = json.loads(checked(installed / "python", "-c", code, cwd=tmp_path))
    ours = [name for name in PACKAGES if (ROOT / name).is_dir()]
    assert {name: owners.get(name) for name in ours} == {name: ["l4sbench"] for name in ours}
    assert "p4" not in owners


def test_it_plans_a_shipped_matrix(installed: Path, tmp_path: Path) -> None:
    text = checked(
        installed / "l4sbench", "plan", "quickstart", "--json", cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path)
    )
    assert json.loads(text)["cells"]


def test_documents_that_messages_cite_are_there(installed: Path, tmp_path: Path) -> None:
    ended = run(installed / "l4sbench", "run", "quickstart", "--on", "ssh:hosts.yml", cwd=tmp_path)
    assert ended.returncode in (2, 3)
    cited = re.findall(r"l4sbench docs [a-z-]+", ended.stderr)
    for words in (*cited, "l4sbench docs ssh", "l4sbench docs troubleshooting host-too-busy"):
        shown = checked(installed / "l4sbench", *words.split()[1:], cwd=tmp_path)
        assert shown.startswith("#")


def test_what_an_extra_lacks_comes_with_a_command_that_installs_it_here(
    installed: Path, wheel: Path, tmp_path: Path
) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS, encoding="utf-8")
    ended = run(installed / "l4sbench", "run", "quickstart", "--on", "ssh:hosts.yml", cwd=tmp_path)
    assert ended.returncode == 3, ended.stderr
    wanted = f"l4sbench[ansible] @ {wheel.as_uri()}"
    assert f"{installed / 'python'} -m pip install '{wanted}'" in ended.stderr


def test_it_says_what_is_missing(installed: Path, tmp_path: Path) -> None:
    ended = run(installed / "l4sbench", "run", "quickstart", cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "l4sbench lab build" in ended.stderr


def test_type_hints_ship(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "l4sbench/py.typed" in archive.namelist()
