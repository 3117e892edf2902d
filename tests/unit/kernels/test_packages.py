# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Makefile and dkms.conf of our congestion controls and queues, which install them on hosts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from l4sbench.disk.assets import folder
from l4sbench.disk.trust import read_code
from l4sbench.testbeds.ssh.dkms import package
from tests.patience import ran

DKMS = shutil.which("dkms", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
"""Debian 12 has it where only root's PATH leads."""
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
    return ran(argv)


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


DKMS_SOURCE = Path(__file__).parents[3] / "tools" / "dkms_source.py"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dkms-source` writes."""
    into = tmp_path_factory.mktemp("packages")
    argv = [sys.executable, str(DKMS_SOURCE), "--into", str(into)]
    done = ran(argv, check=True)
    assert len(done.stdout.splitlines()) == len(MODULES)
    return into


@pytest.mark.parametrize("module", MODULES)
def test_a_package_has_no_links_and_states_its_version(packages: Path, module: str) -> None:
    (place,) = packages.glob(f"{module}-*")
    names = {file.name for file in (folder("kernels") / module).iterdir()}
    assert {file.name for file in place.iterdir()} == names - {"README.md", "module.yml"}
    assert not [file for file in place.iterdir() if file.is_symlink()]
    assert f'PACKAGE_VERSION="{place.name.removeprefix(module + "-")}"\n' in (place / "dkms.conf").read_text()


def test_the_version_of_a_package_changes_with_the_source_only(tmp_path: Path) -> None:
    shutil.copytree(folder("kernels") / "tcp_prague", tmp_path / "mine")
    first = package(read_code(tmp_path / "mine"))
    (tmp_path / "mine" / "README.md").write_text("more")
    (tmp_path / "mine" / "module.yml").write_text("more")
    assert package(read_code(tmp_path / "mine")) == first
    with (tmp_path / "mine" / "prague_law.c").open("a") as file:
        file.write("/* more */\n")
    second = package(read_code(tmp_path / "mine"))
    assert first is not None
    assert second is not None
    assert re.fullmatch(r"1\.0\.[0-9a-f]{8}", first.version)
    assert first.version != second.version


def dkms(root: Path, release: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run DKMS with all its folders, and those of a kernel, below a root."""
    build = root / "modules" / release / "build"
    (build / "include" / "config").mkdir(parents=True, exist_ok=True)
    (build / "include" / "config" / "kernel.release").write_text(f"{release}\n")
    trees = ("dkmstree", "sourcetree", "installtree")
    options = [
        f"--{tree}={root / place}" for tree, place in zip(trees, ("dkms", "src", "modules"), strict=True)
    ]
    for place in ("dkms", "src"):
        (root / place).mkdir(exist_ok=True)
    return ran([str(DKMS), *argv, *options, f"--kernelsourcedir={build}"])


@pytest.mark.skipif(DKMS is None, reason="dkms is not installed")
@pytest.mark.parametrize("module", MODULES)
def test_installing_an_older_kernel_does_not_fail_for_a_module(
    tmp_path: Path, packages: Path, module: str
) -> None:
    """The versions of DKMS before 3.0.11, such as Debian 12's, know fewer ways to exclude a kernel."""
    (place,) = packages.glob(f"{module}-*")
    old = "6.1.0-56-amd64"
    shutil.copytree(place, tmp_path / "src" / place.name)
    version = place.name.removeprefix(f"{module}-")
    added = dkms(tmp_path, old, "add", f"{module}/{version}")
    assert added.returncode == 0, added.stderr
    assert dkms(tmp_path, old, "build", f"{module}/{version}", "-k", old).returncode in {9, 77}
    assert dkms(tmp_path, old, "autoinstall", "-k", old).returncode == 0
    # the build fails here, as there are no headers; it is tried
    tried = dkms(tmp_path, "7.3.4-amd64", "autoinstall", "-k", "7.3.4-amd64")
    assert tried.returncode
    assert "BUILD_EXCLUSIVE" not in tried.stderr


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(
    ("release", "wanted"), [("6.12.48+deb13-amd64", ""), ("7.0.1-amd64", "yes"), ("10.1", "yes")]
)
def test_which_kernels_ask_for_a_module(module: str, release: str, wanted: str) -> None:
    """As DKMS before 3.0.11 reads the file: the release is in a variable that another one hides."""
    read = (
        'autoinstall() { kernelver=$2; read_conf "$1"; }',
        'read_conf() { local kernelver=; safe_source "$1"; }',
        'safe_source() { (. "$1"; echo "$AUTOINSTALL"); }',
        'autoinstall "$@"',
    )
    conf = folder("kernels") / module / "dkms.conf"
    argv = ["bash", "-c", "\n".join(read), "bash", str(conf), release]
    done = ran(argv, check=True)
    assert done.stdout == f"{wanted}\n"
    exclusive = re.search(r'^BUILD_EXCLUSIVE_KERNEL="(.*)"$', conf.read_text(), re.MULTILINE)
    assert exclusive
    assert bool(re.search(exclusive[1], release)) == bool(wanted)
