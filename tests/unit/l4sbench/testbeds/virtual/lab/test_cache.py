# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parts are whole or absent, one builder at a time, and nobody waits for the dead."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache, Holder, digest_of, digest_of_files, read_note

HOLD = """
import sys, time
from pathlib import Path
from l4sbench.testbeds.virtual.lab.cache import Cache
cache = Cache.open(Path(sys.argv[1]))
with cache.lock(print, 0.0), cache.stage("kernel", "half") as stage:
    (stage / "linux").write_text("half of it")
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache.open(tmp_path / "cache")


@pytest.fixture
def other_builder(cache: Cache) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(cache.root)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_part_appears_when_it_is_whole(cache: Cache) -> None:
    with cache.stage("tools", "abc") as stage:
        (stage / "lab-init").write_text("x")
        assert not cache.part("tools", "abc").exists()
    assert (cache.part("tools", "abc") / "lab-init").read_text() == "x"


def test_a_part_that_fails_leaves_nothing_and_the_old_one_stands(cache: Cache) -> None:
    with cache.stage("tools", "abc") as stage:
        (stage / "lab-init").write_text("old")

    def fail() -> None:
        with cache.stage("tools", "abc") as stage:
            (stage / "lab-init").write_text("new")
            raise RuntimeError("the compiler refused")

    with pytest.raises(RuntimeError):
        fail()
    assert (cache.part("tools", "abc") / "lab-init").read_text() == "old"
    assert [path.name for path in (cache.root / "tools").iterdir()] == ["abc"]


def test_a_part_built_again_replaces_the_old_one_also_without_write_bits(cache: Cache) -> None:
    for text in ("old", "new"):
        with cache.stage("userland", "abc") as stage:
            (stage / "root").mkdir()
            (stage / "root" / "file").write_text(text)
            (stage / "root").chmod(0o555)
    assert (cache.part("userland", "abc") / "root" / "file").read_text() == "new"
    assert [path.name for path in (cache.root / "userland").iterdir()] == ["abc"]


def test_a_second_builder_is_told_who_builds(cache: Cache, other_builder: "subprocess.Popen[bytes]") -> None:
    said: list[str] = []
    with pytest.raises(TestbedError, match=f"process {other_builder.pid} on "), cache.lock(said.append, 0.1):
        pass
    builder = cache.builder()  # the note of who builds is still the other's
    assert builder is not None
    assert builder.pid == other_builder.pid
    end(other_builder)
    assert cache.builder() is None
    assert cache.holder() == builder


def test_a_waiting_builder_goes_on_when_the_other_ends(
    cache: Cache, other_builder: "subprocess.Popen[bytes]"
) -> None:
    said: list[str] = []

    def on_wait(message: str) -> None:
        said.append(message)
        end(other_builder)

    with cache.lock(on_wait, 30.0) as lost:
        assert said
        assert f"process {other_builder.pid}" in said[0]
        assert lost is not None
        assert lost.pid == other_builder.pid
    assert cache.holder() is None


def test_what_a_killed_builder_left_is_named_and_removed(
    cache: Cache, other_builder: "subprocess.Popen[bytes]"
) -> None:
    end(other_builder)
    with cache.lock(pytest.fail, 30.0) as lost:
        assert lost is not None
        assert lost.pid == other_builder.pid
        assert [path.name for path in cache.clean()] == ["half.partial"]
    assert not cache.part("kernel", "half").exists()
    with cache.lock(pytest.fail, 0.0) as lost:
        assert lost is None


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(TestbedError, match="XDG_CACHE_HOME"),
        Cache.open(tmp_path / "file" / "l4sbench").lock(pytest.fail, 0.0),
    ):
        pass


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Cache.open().root == tmp_path / "l4sbench"


def test_a_note_of_another_version_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text('{"pid": "many", "host": 3}')
    assert read_note(tmp_path / "note.json", Holder) is None
    assert read_note(tmp_path / "absent.json", Holder) is None


def test_a_digest_counts_names_content_and_the_executable_bit(tmp_path: Path) -> None:
    first, second = tmp_path / "a.c", tmp_path / "b.c"
    first.write_text("one")
    second.write_text("two")
    seen = {digest_of_files(tmp_path, [first, second])}
    assert digest_of_files(tmp_path, [second, first]) in seen
    os.utime(first, (0, 0))
    assert digest_of_files(tmp_path, [first, second]) in seen
    first.write_text("two")
    second.write_text("one")
    seen.add(digest_of_files(tmp_path, [first, second]))
    second.rename(tmp_path / "c.c")
    seen.add(digest_of_files(tmp_path, [first, tmp_path / "c.c"]))
    first.chmod(0o755)
    seen.add(digest_of_files(tmp_path, [first, tmp_path / "c.c"]))
    assert len(seen) == 4


@given(st.lists(st.text()), st.lists(st.text()))
def test_different_lists_have_different_digests(left: list[str], right: list[str]) -> None:
    assert (digest_of(left) == digest_of(right)) == (left == right)
