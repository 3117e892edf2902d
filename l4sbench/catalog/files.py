# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The grammar of `module.yml`: keys and their types. The reader checks their consistency."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    StringConstraints,
    Tag,
)

from l4sbench.catalog.exports import ColumnKind, MemberType  # noqa: TC001  (pydantic reads it)
from l4sbench.errors import BadValueError
from l4sbench.text.expressions import valid_expression
from l4sbench.text.parameters import as_word, shown
from l4sbench.text.units import DeclaredKind  # noqa: TC001  (pydantic reads it)

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]
Key = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Release = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+(\.\d+)?$")]

_SYSCTL: Final = re.compile(r"net(\.[A-Za-z0-9_][A-Za-z0-9_-]*)+")


def _sysctl(name: str) -> str:
    if not _SYSCTL.fullmatch(name):
        hint = "an entry may set those below net., such as net.ipv4.tcp_ecn"
        raise BadValueError(f"{shown(name)} is not a sysctl that catalog entries may set", hint)
    return name


def _argument(text: str) -> str:
    """Return an argument of tc, in which braces are left to the template."""
    as_word(text.replace("{", "").replace("}", ""))
    return text


def _plain(text: str) -> str:
    """Return a text of printable ASCII; it may have spaces, as a list of numbers for a sysctl has."""
    if not (text.isascii() and text.isprintable()):
        raise BadValueError(f"{shown(text)} has characters other than printable ASCII")
    return text


Sysctl = Annotated[str, AfterValidator(_sysctl)]
Word = Annotated[str, AfterValidator(as_word)]
Plain = Annotated[str, AfterValidator(_plain)]
Argument = Annotated[str, AfterValidator(_argument)]
Counter = Annotated[str, StringConstraints(pattern=r"^-?[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Member = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]


def _single(value: object) -> object:
    if isinstance(value, bool | int | float | str):
        return value
    raise ValueError("expected a single value")


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _shape(value: object) -> str:
    """Return the form of a template item or expected value, so that errors refer to that form only."""
    return "map" if isinstance(value, dict | BaseModel) else "list" if isinstance(value, list) else "single"


Scalar = Annotated[bool | int | float | str, BeforeValidator(_single)]
When = dict[Key, Annotated[list[Scalar], BeforeValidator(_listed)]]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ParamFile(_Strict):
    """One entry of `params`."""

    kind: DeclaredKind
    doc: str = Field(min_length=1)
    source: str = ""
    default: Scalar | None = None
    from_: Key | None = Field(None, alias="from")
    own: Scalar | None = None
    choices: list[Word] | None = None
    pattern: Annotated[str, AfterValidator(valid_expression)] | None = None
    minimum: Scalar | None = None
    maximum: Scalar | None = None
    when: When = {}


class NeedsFile(_Strict):
    """Requirements on a host."""

    kernel: Release | None = None
    config: list[Annotated[str, StringConstraints(pattern=r"^[A-Z0-9_]+$")]] = []
    modules: list[Key] = []
    iproute2: Release | None = None
    family: Literal["ipv4", "ipv6"] | None = None


class ModuleFile(_Strict):
    """The kernel module of an entry; `source: true` if its C source is in the same folder.

    In place of a name `from` may name another entry, whose module it is.
    """

    name: Key | None = None
    from_: Name | None = Field(None, alias="from")
    source: bool = False
    params: dict[Key, Plain] = {}


class ColumnFile(_Strict):
    """A column of a table that counters become, in full."""

    from_: Annotated[list[Counter], BeforeValidator(_listed)] = Field(alias="from", min_length=1)
    unit: str | None = None
    kind: ColumnKind | None = None
    doc: str = ""


def _column(value: object) -> object:
    return {"from": value} if isinstance(value, str | list) else value


class ExportsFile(_Strict):
    """State of its own that an entry reports; `of` is the kind of a queue."""

    of: Key | None = None
    statistics: dict[Member, MemberType] = {}
    columns: dict[Key, Annotated[ColumnFile, BeforeValidator(_column)]] = Field(min_length=1)
    panels: dict[Annotated[str, StringConstraints(min_length=1, max_length=60)], list[Key]] = {}


class PartFile(_Strict):
    """Arguments under a condition."""

    when: When
    args: list[ArgFile]


ArgFile = Annotated[
    Annotated[Argument, Tag("single")]
    | Annotated[list[Argument], Tag("list")]
    | Annotated[PartFile, Tag("map")],
    Discriminator(_shape),
]


class CheckFile(_Strict):
    """One expected value that needs a tolerance or a condition."""

    value: Scalar
    within: float | None = Field(None, ge=0)
    when: When = {}


Expected = Annotated[
    Annotated[CheckFile, Tag("map")] | Annotated[Scalar, Tag("list")] | Annotated[Scalar, Tag("single")],
    Discriminator(_shape),
]


class _EntryFile(_Strict):
    name: Name
    label: str = Field(min_length=1)
    also: list[Annotated[str, StringConstraints(min_length=1)]] = []
    about: str = Field(min_length=1)
    sources: list[Annotated[str, StringConstraints(min_length=1)]] = []
    needs: NeedsFile = NeedsFile()
    exports: ExportsFile | None = None
    params: Annotated[dict[Key, ParamFile], Field(max_length=100)] = {}


class QueueFile(_EntryFile):
    """`kind: queue`."""

    kind: Literal["queue"]
    family: Literal["sq-drop", "sq-ecn", "dualq", "fq"]
    marks: list[Literal["ect0", "ect1"]]
    l4s: bool = False
    buffer: Key
    thresholds: list[Key] = []
    steps: dict[Key, Key] = {}
    module: ModuleFile | None = None
    tc: list[ArgFile] = Field(min_length=1)
    readback: dict[str, Expected] = {}


class EcnModeFile(_Strict):
    """Settings of an ECN mode for this congestion control that differ from the usual ones."""

    sender: dict[Sysctl, Plain] = {}
    receiver: dict[Sysctl, Plain] = {}
    receiver_cc: Key | None = None


EcnName = Literal["off", "classic", "accecn", "dctcp"]


class EcnFile(_Strict):
    """ECN modes of a congestion control."""

    default: EcnName
    allowed: list[EcnName] = Field(min_length=1)
    reacts: list[EcnName]
    modes: dict[EcnName, EcnModeFile] = {}


class SysctlsFile(_Strict):
    """sysctls by role; values may contain fields."""

    sender: dict[Sysctl, Plain] = {}
    receiver: dict[Sysctl, Plain] = {}


class CongestionControlFile(_EntryFile):
    """`kind: congestion-control`."""

    kind: Literal["congestion-control"]
    kernel_name: Key
    l4s: bool = False
    receiver_cc: Key | None = None
    module: ModuleFile | None = None
    ecn: EcnFile
    sysctls: SysctlsFile = SysctlsFile()


PartFile.model_rebuild()


class EntryFile(RootModel[Annotated[QueueFile | CongestionControlFile, Field(discriminator="kind")]]):
    """A whole `module.yml`."""
