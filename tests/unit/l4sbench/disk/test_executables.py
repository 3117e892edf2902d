# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs of a user's own: the commands that name them, and which files may be one."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from l4sbench.disk.executables import Executable, command_of
from l4sbench.errors import BadValueError, InputError
from tests.patience import PATIENCE_S
from tests.unit.l4sbench.elf import program

VALUES = {"address": "10.0.0.1", "port": "5001", "json": "/trial/$(id)/{port}", "flow": "l4s-0"}


def test_a_command_is_a_program_and_words() -> None:
    command = command_of("../bin/udp-cc  send --to {address}:{port} 'two words' --name={flow}")
    assert (command.program, command.path) == ("udp-cc", "../bin/udp-cc")
    assert command.text == "udp-cc send --to {address}:{port} 'two words' --name={flow}"
    assert command.filled(VALUES) == ("send", "--to", "10.0.0.1:5001", "two words", "--name=l4s-0")
    assert command.placeholders == {"address", "port", "flow"}


def test_what_is_filled_in_stays_within_its_word_and_is_not_filled_again() -> None:
    command = command_of("./x --json {json} ; rm -rf * `id` $HOME | tee > f")
    assert command.filled(VALUES) == (
        *("--json", "/trial/$(id)/{port}", ";", "rm", "-rf", "*", "`id`", "$HOME", "|", "tee", ">", "f"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '"" is not a valid path of a program; begin with a path such as ./my-sender'),
        ("./dir/ send", '"./dir/" is not a valid path of a program'),
        ("'./my prog' send", '"\'./my" is not a valid path of a program'),
        ("./x\n", "expected one line of at most 4096 printable characters"),
        ("./x " + "y" * 5000, "expected one line of at most 4096 printable characters"),
        ("./x 'open", "the arguments have a quote without its pair: No closing quotation"),
        ("./x {prot}", "{prot} is not a valid placeholder; choose from {address}, {port}, {seconds}"),
        ("./x {}", "{} is not a valid placeholder"),
        ("./x {{port}}", '"{{port}}" has a brace without its pair; braces are for placeholders'),
        ("./x {%", '"{%" has a brace without its pair'),
        ("./x --dev={interface}", '{interface} must be a word of its own, not part of "--dev={interface}"'),
        ("./x @net-rx", '"@net-rx" begins with @, or has %folder, %input or %exec, as no word may'),
        ("./x --out=%folder/../..", '"--out=%folder/../.." begins with @, or has %folder'),
    ],
)
def test_commands_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadValueError) as error:
        command_of(text)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_static_program_is_for_a_machine_and_its_handle_has_its_digest(
    tmp_path: Path, machine: str
) -> None:
    found = Executable("own", program(tmp_path / "own", machine))
    found.require_usable()
    assert found.machine == machine
    assert found.handle == f"own-{found.digest[:12]}"
    other = Executable("own", program(tmp_path / "other", machine, text=b"\x90\xc3"))
    assert other.handle != found.handle


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a program for Linux (ELF); name a static program"),
        (b"#!/usr/bin/env python3\nprint()\n", "is a script for /usr/bin/env python3; name a static program"),
        (b"MZ" * 40, "is not a program for Linux (ELF)"),
        (b"\x7fELF\x01\x01" + bytes(60), "is not a program of 64 bits, little-endian"),
        (b"\x7fELF\x02\x01" + bytes(20), "is cut short; compile it again"),
        (b"\x7fELF\x02\x01" + bytes(10) + b"\x01\x00" + bytes(60), "is not a program but another kind"),
    ],
)
def test_files_that_are_no_static_program(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "own"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(InputError) as error:
        Executable("own", path).require_usable()
    assert str(error.value).startswith(f"{path} {message}")


def test_a_dynamic_program_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = program(tmp_path / "own", interpreter=b"/lib64/ld-linux-x86-64.so.2\0", kind=3)
    with pytest.raises(InputError) as error:
        Executable("own", path).require_usable()
    assert f"{path} is dynamic (it needs ld-linux-x86-64.so.2)" in str(error.value)
    assert "link it with -static" in str(error.value)


def test_a_program_that_may_not_be_executed_is_refused(tmp_path: Path) -> None:
    path = program(tmp_path / "my own")
    path.chmod(0o644)
    with pytest.raises(InputError, match=r"is not executable; chmod \+x '"):
        Executable("own", path).require_usable()


def test_headers_that_lead_nowhere_are_read_without_harm(tmp_path: Path) -> None:
    whole = program(tmp_path / "own", interpreter=b"/lib/ld.so\0").read_bytes()
    for at in range(16, 64):
        for value in (0, 255):
            path = tmp_path / "damaged"
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            path.chmod(0o755)
            with suppress(InputError):  # and no other error
                Executable("damaged", path).require_usable()


def test_what_this_machine_compiles_is_read_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text("int main(void) { return 0; }\n")
    for static in (True, False):
        path = tmp_path / f"own-{static}"
        argv = ["gcc", *(["-static"] if static else []), "-o", str(path), str(source)]
        subprocess.run(argv, check=True, timeout=PATIENCE_S)
        if static:
            Executable("own", path).require_usable()
        else:
            with pytest.raises(InputError, match="is dynamic"):
                Executable("own", path).require_usable()
