# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs of a user's own that send and receive flows (`send: exec`), and the commands that name them.

A command is split into words as a shell would, but no shell ever sees it: what a placeholder stands for is
filled in afterwards and stays within its word. The first word is a path, relative to the file that states it;
after reading, the program is known by its file's name, as own topologies are.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from l4sbench.disk.userfiles import read_bytes
from l4sbench.errors import BadValueError, InputError
from l4sbench.text.parameters import shown
from l4sbench.text.wording import quoted

PLACEHOLDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "address": "address of the receiving node",
        "port": "port of the flow at the receiving node",
        "seconds": "how long the flow lasts, in seconds",
        "codepoint": "codepoint of the group: not-ect, ect1, ect0 or ce",
        "ecn": "the same as the number in the IP header: 0 to 3",
        "flow": "id of the flow, <group>-<index>",
        "index": "number of the flow in its group, from 0",
        "interface": "the node's interface towards the path; a word of its own",
        "json": "path of a file for results as JSON",
        "qlog": "path of a file for the sender's qlog",
    }
)
"""Word in braces -> what a command has in its place."""

OF_CODEPOINT: Final = frozenset({"codepoint", "ecn"})
"""Placeholders that need the group's `codepoint`."""

OF_SENDER: Final = frozenset({"qlog"})
"""Placeholders that a receiver has no value for."""

MOST_BYTES: Final = 256 << 20
"""Size limit of a program; static ones of languages with a runtime have tens of MB."""

_MOST_CHARS: Final = 4096
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_RESERVED: Final = re.compile(r"%(folder|input|exec)\b")
_ALONE: Final = "interface"

_HEADER: Final = struct.Struct("<16xHHIQQQIHHH")
"""ELF header of 64 bits, without its last fields: type, machine, version, entry, phoff, shoff, flags, ehsize,
phentsize, phnum (System V ABI, ELF-64 Object File Format 1.5)."""
_SEGMENT: Final = struct.Struct("<IIQQQQ")
"""Beginning of a program header: type, flags, offset, vaddr, paddr, filesz."""
_INTERPRETER: Final = 3
_MOST_SEGMENTS: Final = 128
_MACHINES: Final[Mapping[int, str]] = {
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    21: "ppc64le",
    22: "s390x",
    258: "loongarch64",
}
"""`e_machine` -> the name that `uname -m` prints."""
_STATIC_HINT: Final = "link it with -static (Go: CGO_ENABLED=0; Rust: --target x86_64-unknown-linux-musl)"


@dataclass(frozen=True)
class ExecCommand:
    """A value of `<group>.exec_sender` or `<group>.exec_receiver`.

    Attributes:
        path: The program as the command names it.
        arguments: Its arguments, with placeholders.
        text: The command with the program's name in place of its path.
    """

    path: str
    arguments: tuple[str, ...]
    text: str

    @property
    def program(self) -> str:
        """Name of the program."""
        return Path(self.path).name

    @property
    def placeholders(self) -> frozenset[str]:
        """The placeholders that it uses."""
        return frozenset(name for word in self.arguments for name in _BRACES.findall(word))

    def filled(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the arguments with placeholders replaced; a value is never split nor filled again."""
        return tuple(_BRACES.sub(lambda match: values[match[1]], word) for word in self.arguments)


@lru_cache(maxsize=1024)
def command_of(text: str) -> ExecCommand:
    """Parse a command.

    Raises:
        BadValueError: it has no program, an unknown placeholder, or characters that it must not have.
    """
    if len(text) > _MOST_CHARS or not text.isprintable():
        raise BadValueError(f"expected one line of at most {_MOST_CHARS} printable characters")
    path, _, rest = text.strip().partition(" ")
    if not _NAME.fullmatch(Path(path).name) or path.endswith("/") or {"'", '"'} & set(path):
        message = f"{shown(path)} is not a valid path of a program"
        raise BadValueError(message, "begin with a path such as ./my-sender, without spaces and quotes")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise BadValueError(f"the arguments have a quote without its pair: {error}") from None
    for word in words:
        _check_word(word)
    return ExecCommand(path, tuple(words), f"{Path(path).name} {rest.strip()}".strip())


def _check_word(word: str) -> None:
    for name in _BRACES.findall(word):
        if name not in PLACEHOLDERS:
            listed = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
            raise BadValueError(f"{{{quoted(name)}}} is not a valid placeholder; choose from {listed}")
        if name == _ALONE and word != f"{{{_ALONE}}}":
            raise BadValueError(f"{{{_ALONE}}} must be a word of its own, not part of {shown(word)}")
    if set(_BRACES.sub("", word)) & set("{}"):
        raise BadValueError(f"{shown(word)} has a brace without its pair", "braces are for placeholders")
    if word.startswith("@") or _RESERVED.search(word):
        raise BadValueError(f"{shown(word)} begins with @, or has %folder, %input or %exec, as no word may")


@dataclass(frozen=True)
class Executable:
    """A program of a user's own, by its name and its file.

    Raises:
        InputError: of all properties that need its content: it cannot be read, or is not a static program.
    """

    name: str
    file: Path

    @cached_property
    def content(self) -> bytes:
        """Content of the file."""
        return read_bytes(self.file, most_bytes=MOST_BYTES)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def handle(self) -> str:
        """Name under which nodes have it, which differs with its content."""
        return f"{self.name}-{self.digest[:12]}"

    @cached_property
    def machine(self) -> str:
        """Type of machine that it is for, as `uname -m` prints it."""
        return _machine_of(self.content, self.file)

    def require_usable(self) -> None:
        """Check that its file may be executed, and that it is a static program.

        Raises:
            InputError: it is not so.
        """
        try:
            mode = self.file.stat().st_mode
        except OSError as error:
            raise InputError(f"{self.file} cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            raise InputError(f"{self.file} is not a regular file")
        if not mode & 0o111:
            raise InputError(f"{self.file} is not executable", f"chmod +x {shlex.quote(str(self.file))}")
        _machine_of(self.content, self.file)


def _machine_of(content: bytes, file: Path) -> str:
    """Return the machine of a static ELF program of 64 bits. Raises InputError if it is not one."""
    if content[:2] == b"#!":
        first = content[2:80].split(b"\n")[0].decode(errors="replace").strip()
        raise InputError(f"{file} is a script for {quoted(first)}", "name a static program")
    if content[:4] != b"\x7fELF":
        raise InputError(f"{file} is not a program for Linux (ELF)", "name a static program")
    if content[4:6] != b"\x02\x01":
        raise InputError(f"{file} is not a program of 64 bits, little-endian", "compile it for this machine")
    try:
        kind, machine, _, _, at, _, _, _, size, count = _HEADER.unpack_from(content)
        segments = [_SEGMENT.unpack_from(content, at + n * size) for n in range(min(count, _MOST_SEGMENTS))]
    except (struct.error, OverflowError):
        raise InputError(f"{file} is cut short", "compile it again") from None
    if kind not in {2, 3} or not segments:  # ET_EXEC; ET_DYN, which a static program may be, too
        raise InputError(f"{file} is not a program but another kind of ELF file", "link it")
    for what, _, offset, _, _, length in segments:
        if what == _INTERPRETER:
            loader = content[offset : offset + min(length, 256)].rstrip(b"\0").decode(errors="replace")
            needed = quoted(Path(loader).name)
            message = f"{file} is dynamic (it needs {needed}), and nodes have only the program itself"
            raise InputError(message, _STATIC_HINT)
    return _MACHINES.get(machine, f"ELF machine {machine}")
