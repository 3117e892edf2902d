# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Senders: one folder each, with a `sender.yml` and a program around a published stack (docs/exec.md).

A sender's congestion controls are its own, whatever Linux has by the same name: in cells and tables that of
sender quinn with the name bbr is `quinn-bbr`. Its program is known by the digest of its sources, so that
plans need no compiler; `l4sbench.testbeds.senders` builds it.
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field

from l4sbench.disk import assets
from l4sbench.disk.document import Flaw, load_model
from l4sbench.disk.executables import Executable
from l4sbench.disk.trust import EVERY, Code, read_code
from l4sbench.disk.userfiles import is_file
from l4sbench.errors import InputError, Problem, did_you_mean
from l4sbench.text.models import Strict
from l4sbench.text.wording import quoted
from l4sbench.traffic import CODEPOINTS, SENDER_NAME, SENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SENDER_FILE: Final = "sender.yml"

Tool: TypeAlias = Literal["cargo", "go", "cc"]
"""Word of `build` -> the way in which the program is built."""

_RECIPE: Final = 1
"""Rises when a change of how programs are built makes other programs of the same sources."""

_Name = Annotated[str, Field(pattern=f"^{SENDER_NAME.pattern}$", max_length=32)]
_Package = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9+.-]+$", max_length=64)]  # Debian policy 5.6.1
_Codepoint = Literal["not-ect", "ect1", "ect0"]
_Text = Annotated[str, Field(min_length=1, max_length=1000)]


class StatedControl(Strict):
    """A congestion control of a sender; `reacts` are the codepoints whose marks it reacts to.

    `codepoints` are those it sends, the default first; empty: those of the sender.
    """

    label: _Text
    about: _Text
    reacts: tuple[Literal["ect0", "ect1"], ...] = ()
    codepoints: tuple[_Codepoint, ...] = ()


class SenderFile(Strict):
    """A `sender.yml`; of `codepoints` and `ccs` the first is the default. With `qlog` it writes its qlog.

    `needs` are other programs that its build runs, by the names of their Debian packages.
    """

    sender: _Name
    label: _Text
    about: _Text
    version: _Text
    licence: _Text
    sources: Annotated[tuple[_Text, ...], Field(min_length=1)]
    build: Tool
    needs: tuple[_Package, ...] = ()
    codepoints: Annotated[tuple[_Codepoint, ...], Field(min_length=1)]
    ccs: Annotated[dict[_Name, StatedControl], Field(min_length=1)]
    qlog: bool = False


@dataclass(frozen=True)
class SenderControl:
    """A congestion control of a sender as cells and tables have it.

    Attributes:
        name: The sender's name and its own, such as `quinn-bbr`.
        own: The name that the sender has for it.
        label: Name in tables.
        about: A sentence.
        reacts: Codepoints whose marks it reacts to.
        codepoints: Codepoints that it can send, the default first.
    """

    name: str
    own: str
    label: str
    about: str
    reacts: tuple[str, ...]
    codepoints: tuple[str, ...]

    @property
    def l4s(self) -> bool:
        """True if its packets have ECT(1) unless the matrix states another codepoint."""
        return self.codepoints[0] == CODEPOINTS[1]


@dataclass(frozen=True)
class SenderEntry:
    """A sender of the catalog: its folder, and what its `sender.yml` states."""

    folder: Path
    stated: SenderFile

    @property
    def name(self) -> str:
        """Its name, as `<group>.send` has it."""
        return self.stated.sender

    @cached_property
    def controls(self) -> Mapping[str, SenderControl]:
        """Its congestion controls by their names in cells, the default first."""
        found = (
            SenderControl(
                name=f"{self.name}-{own}",
                own=own,
                label=f"{self.stated.label} {cc.label}",
                about=cc.about,
                reacts=cc.reacts,
                codepoints=cc.codepoints or self.stated.codepoints,
            )
            for own, cc in self.stated.ccs.items()
        )
        return {control.name: control for control in found}

    @property
    def codepoints(self) -> tuple[str, ...]:
        """Codepoints that it can send with any of its congestion controls."""
        return tuple(dict.fromkeys(word for one in self.controls.values() for word in one.codepoints))

    def control(self, name: str) -> SenderControl | None:
        """Return the congestion control of that name, its own or that in cells; None if it has none such."""
        return self.controls.get(name) or self.controls.get(f"{self.name}-{name}")

    @property
    def is_outside(self) -> bool:
        """True unless its folder is one of the project's own."""
        return not self.folder.resolve().is_relative_to(assets.folder("senders").resolve())

    @cached_property
    def code(self) -> Code:
        """All files of its folder, which its program is built from.

        Raises:
            InputError: a link is among them, or they are too many or too large.
        """
        return read_code(self.folder, patterns=EVERY)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that its program is built from."""
        made_from = [self.code.digest, self.stated.build, _RECIPE, platform.machine()]
        return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()

    @property
    def program(self) -> SenderProgram:
        """Its program, whether it is built or not."""
        from platformdirs import user_cache_path

        built = user_cache_path("l4sbench", appauthor=False) / "senders" / f"{self.name}-{self.digest[:16]}"
        return SenderProgram(self.name, built / self.name, self.digest)


@dataclass(frozen=True)
class SenderProgram(Executable):
    """The program of a sender; its digest is that of its sources, so that it is known before it is built."""

    made_from: str

    @property
    def digest(self) -> str:
        """SHA-256 of what it is built from."""
        return self.made_from

    @property
    def is_built(self) -> bool:
        """True if its file is there."""
        return is_file(self.file)

    @property
    def machine(self) -> str:
        """Type of machine that it is for: this one."""
        return platform.machine()


def read_sender(file: Path) -> SenderEntry:
    """Read a sender from its `sender.yml`.

    Raises:
        InputError: it is not valid; with the line and column of every problem.
    """

    def flaws(found: SenderFile) -> Iterator[Flaw]:
        if found.sender in SENDS:
            yield Flaw(("sender",), f"{found.sender} is a kind of traffic; choose another name")

    return SenderEntry(file.parent, load_model(file, SenderFile, check=flaws))


def senders_in(folders: Iterable[Path]) -> Mapping[str, SenderEntry]:
    """Return the senders of l4sbench and those below other folders, as `senders_below`."""
    return senders_below(assets.folder("senders"), *folders)


def senders_below(*folders: Path) -> Mapping[str, SenderEntry]:
    """Return the senders in or below folders, by name.

    Raises:
        InputError: a file is not valid, or two senders have the same name.
    """
    found: dict[str, SenderEntry] = {}
    problems: list[Problem] = []
    for folder in folders:
        for file in (folder / SENDER_FILE, *sorted(folder.glob(f"*/{SENDER_FILE}"))):
            if not is_file(file):
                continue
            try:
                one = read_sender(file)
            except InputError as error:
                problems += error.problems
                continue
            other = found.setdefault(one.name, one)
            if other.folder.resolve() != one.folder.resolve():
                message = f"{one.name} is already the name of {other.folder / SENDER_FILE}"
                problems.append(Problem(f"{file}:1:1", "sender", message, "choose another name"))
    if problems:
        raise InputError(problems)
    return found


def no_sender(name: str, senders: Iterable[str]) -> InputError:
    """Return the error of a value of `<group>.send` that is neither a kind of traffic nor a sender."""
    offered = (*SENDS, *senders)
    message = f'expected one of {", ".join(offered)}, not "{quoted(name)}"'
    return InputError([Problem("", "send", message, did_you_mean(name, offered))])
