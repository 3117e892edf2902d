# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The parts of a kernel build that need no build."""

import re
import shutil
import tarfile
from pathlib import Path

import pytest

from l4sbench.disk import assets
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.kernel import build_kernel, missing_options, with_options
from l4sbench.testbeds.virtual.lab.source import from_tarball, from_tree

needs_patch = pytest.mark.skipif(
    not shutil.which("patch") or not shutil.which("make"), reason="no patch or make on this machine"
)

FRAGMENT = """\
# a comment
CONFIG_NET_SCH_DUALPI2=y
CONFIG_LOCALVERSION="-l4sbench"
CONFIG_TCP_CONG_BIC=n
CONFIG_CON_CHAN="null"

# ---- optional: what not every version of Linux has
CONFIG_PROC_SYSCTL=y
"""


def test_every_option_must_have_taken_effect() -> None:
    got = 'CONFIG_NET_SCH_DUALPI2=y\nCONFIG_LOCALVERSION="-l4sbench"\nCONFIG_CON_CHAN="null"\n'
    assert missing_options(FRAGMENT, got + "# CONFIG_TCP_CONG_BIC is not set\n") == ()
    assert missing_options(FRAGMENT, got) == ()  # an option nobody can choose is off as well


def test_options_that_are_off_other_or_unknown_are_named() -> None:
    got = '# CONFIG_NET_SCH_DUALPI2 is not set\nCONFIG_LOCALVERSION=""\nCONFIG_TCP_CONG_BIC=y\n'
    assert missing_options(FRAGMENT, got) == (
        "CONFIG_NET_SCH_DUALPI2=y",
        'CONFIG_LOCALVERSION="-l4sbench"',
        "CONFIG_TCP_CONG_BIC=n",
        'CONFIG_CON_CHAN="null"',
    )


def test_lines_of_the_fragment_yield_to_options_that_entries_need() -> None:
    assert with_options(FRAGMENT, frozenset()) == FRAGMENT
    text = with_options(FRAGMENT, frozenset({"TCP_CONG_BIC", "NET_SCH_SFB"}))
    assert "CONFIG_TCP_CONG_BIC=n" not in text
    assert missing_options(text, text) == ()
    assert missing_options(text, FRAGMENT) == ("CONFIG_NET_SCH_SFB=y", "CONFIG_TCP_CONG_BIC=y")


def test_the_labs_own_fragment_asks_for_each_option_once() -> None:
    text = (assets.folder("kernels") / "lab" / "kernel.config").read_text(encoding="utf-8")
    names = re.findall(r"^(CONFIG_\w+)=", text, re.MULTILINE)
    assert sorted(names) == sorted(set(names))
    assert len(names) > 80
    # nothing in it that the check would pass over
    assert all(re.match(r'CONFIG_\w+=(y|n|"[^"]*"|\d+)$|#|$', line) for line in text.splitlines())


@needs_patch
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"Makefile": "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 9\n"}, "Linux 6.12.9 is too old"),
        ({"README": "no kernel"}, "no Makefile at its top"),
        (
            {"Makefile": "VERSION = 7\nPATCHLEVEL = 9\nSUBLEVEL = 0\n", "arch/um/Kconfig": "config HZ\n"},
            r"the patch 0001-um-hz-1000\.patch does not apply to Linux 7\.9\.0",
        ),
    ],
)
def test_a_source_that_cannot_become_a_lab_is_refused_early(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    with tarfile.open(tmp_path / "source.tar", "w") as tar:
        for name, text in files.items():
            (tmp_path / "file").write_text(text)
            tar.add(tmp_path / "file", f"linux/{name}")
    cache, source = Cache.open(tmp_path / "cache"), from_tarball(tmp_path / "source.tar")
    with pytest.raises(TestbedError, match=message):
        build_kernel(cache, Inputs.read(), source, "abc", 1, lambda message, fraction: None)
    assert list((cache.root / "kernel").iterdir()) == []


@needs_patch
def test_a_tree_that_has_the_patches_gets_past_them_and_is_not_touched(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name, text in {
        "Makefile": "VERSION = 7\nPATCHLEVEL = 9\nSUBLEVEL = 0\nmrproper:\n",
        "arch/um/Kconfig": "config HZ\n\tint\n\tdefault 1000\n\nconfig UML_SUBARCH_SUPPORTS_SMP\n\tbool\n",
        "arch/um/os-Linux/util.c": "",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    with pytest.raises(TestbedError, match=r"the patch 0002-um-seeded-random-numbers\.patch does not apply"):
        build_kernel(
            Cache.open(tmp_path / "cache"),
            Inputs.read(),
            from_tree(tree),
            "abc",
            1,
            lambda message, fraction: None,
        )
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} == before
