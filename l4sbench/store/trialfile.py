# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The files `trial.json` and `raw/programs.json` of an ended trial, checked when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from l4sbench.cell import Cell
from l4sbench.errors import InputError
from l4sbench.events import Status
from l4sbench.program import Program
from l4sbench.program.trial import EndedTrial
from l4sbench.store.files import read_object
from l4sbench.userfiles import read_json

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Identity(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    testbed: str
    kernel_release: str


class _Trial(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    cell: dict[str, Any]
    trial: Annotated[int, Field(ge=1, lt=1 << 63)]
    seed: Annotated[int, Field(ge=0, lt=1 << 64)]
    status: str
    reasons: list[str]
    inputs_digest: str
    identity: _Identity
    wall_s: _Amount
    virtual_s: _Amount
    skew_ms: _Amount


def read_trial(folder: Path) -> EndedTrial:
    """Return the ended trial in `folder`.

    Raises:
        InputError: `trial.json` or `raw/programs.json` is missing or damaged, or a newer l4sbench wrote it.
    """
    plain = read_object(folder / "trial.json")
    raw = folder / "raw"
    try:
        found = _Trial.model_validate(plain)
        programs = read_json(raw / "programs.json")
        return EndedTrial(
            cell=Cell.from_json(found.cell),
            trial=found.trial,
            seed=found.seed,
            status=Status(found.status),
            reasons=tuple(found.reasons),
            raw=raw,
            programs={node: Program.from_json(program) for node, program in programs.items()},
            inputs_digest=found.inputs_digest,
            testbed=found.identity.testbed,
            kernel_release=found.identity.kernel_release,
            wall_s=found.wall_s,
            virtual_s=found.virtual_s,
            skew_ms=found.skew_ms,
        )
    except (InputError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{folder} is damaged: {_reason(error)}", "move it away, and `l4sbench run` runs that trial again"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"trial.json: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else str(error)
