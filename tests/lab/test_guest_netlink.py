# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""lab-sampler neither keeps a dump that changed while the kernel made it, nor misses an error at its end."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from l4sbench.disk import assets
from tests.patience import PATIENCE_S, ran

pytestmark = pytest.mark.lab

SOURCES = ("sampler-netlink.c", "text.c", "util.c")
TRIES = 8


@pytest.fixture(scope="module")
def netlink(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program that takes a dump from a kernel that answers as its arguments say."""
    program = tmp_path_factory.mktemp("netlink") / "netlink"
    guest = assets.folder("kernels") / "lab" / "guest"
    sources = [Path(__file__).with_name("netlink.c"), *(guest / name for name in SOURCES)]
    gcc = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{guest}"]
    subprocess.run([*gcc, "-o", program, *sources], check=True, timeout=PATIENCE_S)
    return program


def dumped(netlink: Path, *answers: str) -> subprocess.CompletedProcess[str]:
    return ran([netlink, *answers])


def test_complete_dump_is_kept(netlink: Path) -> None:
    done = dumped(netlink, "one,two=0")
    assert (done.returncode, done.stdout) == (0, "before\none\ntwo\n")


def test_dump_that_changed_meanwhile_is_repeated(netlink: Path) -> None:
    done = dumped(netlink, "one,two!=0", "one!,three=0", "one,three=0")
    assert (done.returncode, done.stdout) == (0, "before\none\nthree\n")


def test_dump_that_always_changes_ends_the_sampler(netlink: Path) -> None:
    done = dumped(netlink, *["one!=0"] * TRIES)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"netlink: what a dump in here lists changed during each of {TRIES} dumps\n"


def test_error_at_the_end_of_a_dump_ends_the_sampler(netlink: Path) -> None:
    done = dumped(netlink, f"one={errno.ENOENT}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"netlink: the kernel refused a dump in here: {os.strerror(errno.ENOENT)}\n"
