# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What installs Prague on hosts: kernels/tcp_prague/{Makefile,dkms.conf}."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from l4sbench.assets import folder

MODULE = folder("kernels") / "tcp_prague"


def build(tree: Path) -> subprocess.CompletedProcess[str]:
    argv = ["make", "-C", str(MODULE), f"KDIR={tree}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(autouse=True)
def _make() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")


@pytest.mark.parametrize("release", ["6.12.48+deb13-amd64", "6.19.0", "5.10.0-28-amd64"])
def test_kernels_without_accecn_are_refused_by_name(tmp_path: Path, release: str) -> None:
    (tmp_path / "include" / "config").mkdir(parents=True)
    (tmp_path / "include" / "config" / "kernel.release").write_text(f"{release}\n")
    done = build(tmp_path)
    assert done.returncode != 0
    assert f"Linux 7.0 or later; {tmp_path} is Linux {release}" in done.stderr


def test_missing_headers_are_named(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode != 0
    assert f"{tmp_path} has no headers of a kernel: install linux-headers-" in done.stderr


def test_dkms_calls_the_module_by_its_name_and_version() -> None:
    conf = dict(re.findall(r'^(\w+(?:\[0\])?)="([^"]*)"$', (MODULE / "dkms.conf").read_text(), re.MULTILINE))
    source = (MODULE / "prague_main.c").read_text()
    version = re.search(r'^MODULE_VERSION\("(.*)"\);$', source, re.MULTILINE)
    made = re.search(r"^obj-m := (\w+)\.o$", (MODULE / "Kbuild").read_text(), re.MULTILINE)
    assert version
    assert made
    assert conf["PACKAGE_VERSION"] == version[1]
    assert conf["PACKAGE_NAME"] == conf["BUILT_MODULE_NAME[0]"] == made[1]
