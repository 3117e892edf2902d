# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Builds on top of earlier ones: nothing twice, modules alone, after a kill, for all users, from a seed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from l4sbench.disk import assets
from l4sbench.disk.files import remove_tree
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab import BuildOptions, BuildStep, Lab, build, with_modules
from tests.patience import PATIENCE_S, ran

pytestmark = pytest.mark.lab

KILL_ME = """
import os, sys, signal
from pathlib import Path
from l4sbench.testbeds.virtual.lab import BuildOptions, build
def on_progress(progress):
    if progress.stage == "check":
        (Path(sys.argv[1]) / "modules" / "half.partial").mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
build(BuildOptions(cache=Path(sys.argv[1]), kernels=Path(sys.argv[2])), on_progress)
"""


@pytest.fixture
def cache(lab: Lab) -> Iterator[Path]:
    """A cache with the same parts that tests may add to; other users can look into it."""
    folder = Path(tempfile.mkdtemp(prefix="l4sbench-test-"))
    try:
        home = lab.kernel.parents[2]
        used = [lab.kernel.parent, lab.rootfs, lab.userland, lab.tools]
        used += [home / "labs", home / "source", *(path.parent for path in lab.modules.values())]
        for part in used:
            copy = folder / "cache" / part.relative_to(home)
            shutil.copytree(part, copy, symlinks=True, copy_function=link)
        folder.chmod(0o755)
        yield folder / "cache"
    finally:
        remove_tree(folder)


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """The project's own kernel sources, to be changed."""
    return Path(shutil.copytree(assets.folder("kernels"), tmp_path / "kernels"))


def link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def change_a_module(kernels: Path) -> None:
    with next((kernels / "tcp_prague").glob("*.c")).open("a", encoding="utf-8") as file:
        file.write("\nstatic const int lab_test_marker __used = 1;\n")


def first_boot(kernel: Path, rootfs: Path, seed: int, prefix: Sequence[str] = ()) -> str:
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o777)
        # the kernel stirs its command line into its random numbers, so no path may differ
        argv = [
            *prefix, str(kernel), "rootfstype=hostfs", "rootflags=/proc/self/cwd", "ro", "init=/lab/check",
            "mem=256M", "con=null", "con0=fd:0,fd:1", "seccomp=on", f"uml_dir={home}", f"lab.seed={seed}",
            "time-travel=inf-cpu", "time-travel-start=1700000000000000000", "quiet", "panic=-1",
        ]  # fmt: skip
        done = ran(argv, cwd=rootfs)
    return done.stdout.replace("\r", "")


def test_building_a_built_lab_does_nothing(lab: Lab) -> None:
    said: list[BuildStep] = []
    assert build(BuildOptions(), said.append) == lab
    assert said == []


def test_a_changed_module_is_built_alone_and_both_labs_stay(lab: Lab, cache: Path, kernels: Path) -> None:
    change_a_module(kernels)
    said: list[BuildStep] = []
    new = build(BuildOptions(cache=cache, kernels=kernels), said.append)
    assert list(dict.fromkeys(progress.stage for progress in said)) == ["modules", "check", "done"]
    assert new.digests.kernel == lab.digests.kernel
    assert new.digests.userland == lab.digests.userland
    assert new.digests.tools == lab.digests.tools
    assert new.srcversions["tcp_prague"] != lab.srcversions["tcp_prague"]
    assert new.digests.modules != lab.digests.modules
    assert (new.rootfs / "lab" / "modules" / "tcp_prague.ko").samefile(new.modules["tcp_prague"])
    assert Lab.locate(cache).digests == lab.digests


@pytest.mark.long
def test_a_build_removes_what_nothing_used_for_long(cache: Path, kernels: Path) -> None:
    change_a_module(kernels)
    old, fresh = cache / "tools" / "old", cache / "tools" / "fresh"
    for part in (old, fresh):
        part.mkdir()
    os.utime(old, (0, 0))
    for part in cache.glob("*/*"):  # what a record names stays whatever its age
        if part.is_dir() and part != fresh:
            os.utime(part, (0, 0))
    build(BuildOptions(cache=cache, kernels=kernels))
    assert not old.exists()
    assert fresh.exists()
    Lab.locate(cache)
    Lab.locate(cache, kernels)


def test_modules_from_outside_join_the_lab(lab: Lab, cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "Kbuild").write_text("obj-m := lab_test.o\n")
    (folder / "lab_test.c").write_text('#include <linux/module.h>\nMODULE_LICENSE("GPL");\n')
    own = Lab.locate(cache)
    more = with_modules(own, {"lab_test": folder})
    assert sorted(more.modules) == sorted([*lab.modules, "lab_test"])
    assert more.digests.kernel == lab.digests.kernel
    assert "pass insmod /lab/modules/lab_test.ko" in first_boot(more.kernel, more.rootfs, 1)
    assert Lab.locate(cache) == own
    assert with_modules(own, {"lab_test": folder}) == more
    with pytest.raises(TestbedError, match=r"must make other\.ko, it made lab_test\.ko"):
        with_modules(own, {"other": folder})


@pytest.mark.long
def test_a_killed_build_is_named_cleaned_up_and_finished(cache: Path, kernels: Path) -> None:
    change_a_module(kernels)
    killed = subprocess.Popen([sys.executable, "-c", KILL_ME, str(cache), str(kernels)])
    assert killed.wait(timeout=PATIENCE_S) == -signal.SIGKILL
    with pytest.raises(TestbedError, match="not built for the current sources"):
        Lab.locate(cache, kernels)
    said: list[BuildStep] = []
    build(BuildOptions(cache=cache, kernels=kernels), said.append)
    assert f"process {killed.pid} on " in said[0].message
    assert not list(cache.glob("*/*.partial"))
    # the module was whole when the build died
    assert "modules" not in {progress.stage for progress in said}


def test_a_seed_makes_the_guest_a_function_and_another_seed_another(lab: Lab) -> None:
    first, again, other = (first_boot(lab.kernel, lab.rootfs, seed) for seed in (1, 1, 2**64 - 1))
    assert "\nend\n" in first
    assert first == again
    assert first != other


def test_a_seed_that_is_no_number_is_refused(lab: Lab) -> None:
    argv = [str(lab.kernel), "lab.seed=seven"]
    done = ran(argv)
    assert done.returncode == 1
    assert "lab.seed=seven is no 64-bit number" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_can_boot_what_root_built(lab: Lab, cache: Path) -> None:
    kernel, rootfs = (cache / path.relative_to(lab.kernel.parents[2]) for path in (lab.kernel, lab.rootfs))
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    said = first_boot(kernel, rootfs, 1, nobody)
    assert "fail " not in said
    assert "\nend\n" in said
    assert said == first_boot(lab.kernel, lab.rootfs, 1)
