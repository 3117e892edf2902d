# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Makefile and dkms.conf of our congestion controls and queues, which install them on hosts."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from l4sbench.assets import folder
from tests.patience import PATIENCE_S

MODULES = {
    "tcp_prague": "prague_main.c",
    "tcp_bbr2": "bbr2.c",
    "tcp_bbr3": "bbr3.c",
    "sch_ncf": "ncf_main.c",
    "tcp_ncf": "ncf_main.c",
}
"""Folders, with the file that states the module's version."""


def build(module: str, tree: Path) -> subprocess.CompletedProcess[str]:
    argv = ["make", "-C", str(folder("kernels") / module), f"KDIR={tree}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@pytest.fixture(autouse=True)
def _make() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("release", ["6.12.48+deb13-amd64", "6.19.0", "5.10.0-28-amd64"])
def test_kernels_without_accecn_are_refused_by_name(tmp_path: Path, module: str, release: str) -> None:
    (tmp_path / "include" / "config").mkdir(parents=True)
    (tmp_path / "include" / "config" / "kernel.release").write_text(f"{release}\n")
    done = build(module, tmp_path)
    assert done.returncode != 0
    assert f"Linux 7.0 or later; {tmp_path} is Linux {release}" in done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_missing_headers_are_named(tmp_path: Path, module: str) -> None:
    done = build(module, tmp_path)
    assert done.returncode != 0
    assert f"{tmp_path} has no headers of a kernel: install linux-headers-" in done.stderr


@pytest.mark.parametrize(("module", "file"), MODULES.items())
def test_dkms_calls_the_module_by_its_name_and_version(module: str, file: str) -> None:
    place = folder("kernels") / module
    conf = dict(re.findall(r'^(\w+(?:\[0\])?)="([^"]*)"$', (place / "dkms.conf").read_text(), re.MULTILINE))
    source = (place / file).read_text()
    version = re.search(r'^MODULE_VERSION\("(.*)"\);$', source, re.MULTILINE)
    made = re.search(r"^obj-m := (\w+)\.o$", (place / "Kbuild").read_text(), re.MULTILINE)
    assert version
    assert made
    assert conf["PACKAGE_VERSION"] == version[1]
    assert conf["PACKAGE_NAME"] == conf["BUILT_MODULE_NAME[0]"] == made[1]


@pytest.mark.parametrize("module", MODULES)
def test_every_file_of_a_module_is_there_and_listed(module: str) -> None:
    """Links lead to files, inside of kernels/; Kbuild names every C file but those of tc's."""
    place = folder("kernels") / module
    objects = set(re.findall(r"(\w+)\.o\b", (place / "Kbuild").read_text())) - {module}
    assert {file.stem for file in place.glob("*.c") if not file.name.startswith("q_")} == objects
    for file in place.iterdir():
        assert file.is_file()
        assert file.resolve().is_relative_to(folder("kernels").resolve())
