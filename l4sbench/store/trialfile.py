# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The files `trial.json` and `raw/programs.json` of an ended trial, checked when they are read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from l4sbench.disk.plain import is_real_folder
from l4sbench.disk.userfiles import read_bytes, read_json
from l4sbench.errors import InputError
from l4sbench.facts.cell import Cell
from l4sbench.facts.events import Status
from l4sbench.facts.faults import Fault, stored_fault, texts
from l4sbench.program import Program
from l4sbench.program.data import raw_name
from l4sbench.program.trial import EndedTrial
from l4sbench.store.files import FORMAT, MOVE_AWAY, read_trial_object
from l4sbench.text.models import first_problem

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Number = Annotated[int, Field(ge=1, lt=1 << 63)]


class _Plain(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Identity(_Plain):
    testbed: str
    kernel_release: str


class _Fault(_Plain):
    kind: str
    at: str
    facts: dict[str, str | int | _Finite]


class _Facts(_Plain):
    trial: _Number
    seed: Annotated[int, Field(ge=0, lt=1 << 64)]
    reasons: list[str]
    faults: list[_Fault] = []
    inputs_digest: str
    identity: _Identity
    wall_s: _Amount


class _Trial(_Facts):
    cell: dict[str, Any]
    status: str
    virtual_s: _Amount
    skew_ms: _Amount


class _CellName(_Plain):
    id: str


class _Ending(_Facts):
    format: Annotated[int, Field(le=FORMAT)]
    cell: _CellName
    status: Annotated[Status, Field(strict=False)]


@dataclass(frozen=True)
class TrialEnding:
    """The end of one trial, without its programs and the factors of its cell; `raw` has its raw files."""

    cell_id: str
    trial: int
    seed: int
    status: Status
    faults: tuple[Fault, ...]
    raw: Path
    inputs_digest: str
    testbed: str
    kernel_release: str
    wall_s: float

    @classmethod
    def of(cls, ended: EndedTrial) -> TrialEnding:
        """Return the ending of a trial that was read whole."""
        own = {one.name: getattr(ended, one.name) for one in fields(cls) if one.name != "cell_id"}
        return cls(cell_id=ended.cell.id, **own)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The faults in words: why it is invalid or failed."""
        return texts(self.faults)


def read_ending(folder: Path) -> TrialEnding:
    """Return how the trial in `folder` ended, from `trial.json` alone: a tenth of the work of `read_trial`.

    Raises:
        InputError: `trial.json` is missing or damaged, or a newer l4sbench wrote it.
    """
    try:
        found = _Ending.model_validate_json(read_bytes(folder / "trial.json", plain=True))
    except (InputError, ValidationError):
        return TrialEnding.of(read_trial(folder))  # which says what is wrong
    return TrialEnding(
        cell_id=found.cell.id,
        trial=found.trial,
        seed=found.seed,
        status=found.status,
        faults=_faults(found),
        raw=folder / "raw",
        inputs_digest=found.inputs_digest,
        testbed=found.identity.testbed,
        kernel_release=found.identity.kernel_release,
        wall_s=found.wall_s,
    )


def read_trial(folder: Path) -> EndedTrial:
    """Return the ended trial in `folder`.

    Raises:
        InputError: `trial.json` or `raw/programs.json` is missing or damaged, or a newer l4sbench wrote it;
            or what these say leads out of the folder of raw files.
    """
    plain = read_trial_object(folder)
    raw = folder / "raw"
    try:
        found = _Trial.model_validate(plain)
        return EndedTrial(
            cell=Cell.from_json(found.cell),
            trial=found.trial,
            seed=found.seed,
            status=Status(found.status),
            faults=_faults(found),
            raw=raw,
            programs=_programs(raw),
            inputs_digest=found.inputs_digest,
            testbed=found.identity.testbed,
            kernel_release=found.identity.kernel_release,
            wall_s=found.wall_s,
            virtual_s=found.virtual_s,
            skew_ms=found.skew_ms,
        )
    except (InputError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{folder} is damaged: {_reason(error)}", MOVE_AWAY) from error


def _programs(raw: Path) -> dict[str, Program]:
    """Return the programs of a trial. Raises ValueError and others for what are not programs."""
    if not is_real_folder(raw):  # a link to one leads to files of somebody else
        raise ValueError("raw is not a folder")
    programs = read_json(raw / "programs.json", plain=True)
    try:
        return {raw_name(node): Program.from_json(program) for node, program in programs.items()}
    except ValueError as error:
        raise ValueError(f"raw/programs.json: {_cause(error)}") from error


def _faults(found: _Facts) -> tuple[Fault, ...]:
    """Return the faults of a trial; those that versions before faults had kinds wrote are texts."""
    if len(found.faults) != len(found.reasons):
        return tuple(map(stored_fault, found.reasons))
    pairs = zip(found.reasons, found.faults, strict=True)
    return tuple(stored_fault(reason, own.kind, own.at, own.facts) for reason, own in pairs)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"trial.json: {first_problem(error)}"
    return f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else str(error)


def _cause(error: ValueError) -> str:
    return first_problem(error) if isinstance(error, ValidationError) else str(error)
