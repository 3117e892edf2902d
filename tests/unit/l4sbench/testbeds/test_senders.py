# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Building senders: by a real compiler, once, with clear errors; and by a cargo that only looks like one."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from l4sbench.catalog.senders import SenderEntry, read_sender
from l4sbench.errors import InputError, TestbedError
from l4sbench.testbeds import senders
from tests.patience import ran
from tests.stacks import own_sender

MAIN = "int main(void) { return 127; }\n"

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def sender(folder: Path, tool: str = "cc", **files: str) -> SenderEntry:
    place = own_sender(folder, {name.replace("_", "."): text for name, text in files.items()}, build=tool)
    return read_sender(place / "sender.yml")


@needs_cc
def test_a_program_is_built_once_and_kept_alone(tmp_path: Path) -> None:
    one = sender(tmp_path, main_c=MAIN)
    assert not one.program.is_built
    built = senders.build(one)
    assert ran([built]).returncode == 127
    assert [path.name for path in built.parent.iterdir()] == ["mine"]
    first = built.stat().st_mtime_ns
    assert senders.build(read_sender(one.folder / "sender.yml")) == built
    assert built.stat().st_mtime_ns == first
    other = sender(tmp_path, main_c=MAIN.replace("127", "0"))
    assert senders.build(other) != built


@needs_cc
def test_a_failing_build_shows_its_last_lines_and_leaves_nothing(tmp_path: Path) -> None:
    one = sender(tmp_path, main_c="int main(void) { return nothing; }\n")
    with pytest.raises(TestbedError) as raised:
        senders.build(one)
    assert raised.value.message.startswith("sender mine: cc failed (exit code 1):\n")
    assert "nothing" in raised.value.message
    assert not one.program.is_built
    assert list((tmp_path / "cache" / "l4sbench" / "senders").glob("[!.]*")) == []


@pytest.mark.parametrize(
    ("tool", "hint"),
    [
        ("go", "install Go from https://go.dev/dl"),
        ("cargo", "install Rust by rustup, and the C library for linking"),
        ("cc", "apt install gcc libc6-dev"),
    ],
)
def test_a_missing_toolchain_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, hint: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(senders, "USUAL_PLACES", {})
    with pytest.raises(TestbedError) as raised:
        senders.build(sender(tmp_path, tool))
    assert raised.value.message == f"sender mine is built with {tool}, which is missing"
    assert raised.value.hint == hint
    assert raised.value.exit_code == 3


@needs_cc
def test_programs_that_a_build_runs_beside_are_named(tmp_path: Path) -> None:
    one = sender(tmp_path, main_c=MAIN)
    stated = one.folder / "sender.yml"
    stated.write_text(stated.read_text() + "needs: [cc, no-such-tool, no-such++]\n")
    with pytest.raises(TestbedError) as raised:
        senders.build(read_sender(stated))
    missing = "no-such-tool, no-such++"
    assert raised.value.message == f"the build of sender mine needs {missing}, which PATH does not have"
    assert raised.value.hint == "apt install no-such-tool no-such++"


CARGO = """\
#!/bin/sh
case $1 in
generate-lockfile) printf '[[package]]\\nname = "b"\\nsource = "registry+REGISTRY"\\n' >Cargo.lock ;;
build)
    made=$CARGO_TARGET_DIR/{target}/release
    mkdir -p "$made" && cp Cargo.lock "$made/sender" ;;
esac
"""


def test_cargo_s_lock_file_gets_the_registry_that_cargo_itself_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of this build is no program and is refused; the log has what it was made of."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "cargo"
    fake.write_text(CARGO.replace("{target}", f"{platform.machine()}-unknown-linux-gnu") + "cat Cargo.lock\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    lock = '[[package]]\nname = "b"\nchecksum = "12"\n\n[[package]]\nname = "mine"\n'
    with pytest.raises(InputError, match="is not a program for Linux"):
        senders.build(sender(tmp_path, "cargo", Cargo_lock=lock))
    log = (tmp_path / "cache" / "l4sbench" / "log" / "sender-mine.log").read_text()
    assert log.endswith(
        'name = "b"\nsource = "registry+REGISTRY"\nchecksum = "12"\n\n[[package]]\nname = "mine"\n'
    )
