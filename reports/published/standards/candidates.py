# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Senders as files: what a flow group states of a candidate that has no name in the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from l4sbench.disk.document import load_model
from l4sbench.text.models import Strict
from reports.published.claims.model import Scalar  # noqa: TC001  (pydantic needs it)

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$"


class CandidateFile(Strict):
    """A sender.

    Attributes:
        candidate: Its name in tables.
        about: A sentence.
        flow: Factors of its flow group, as a matrix states them; programs have paths relative to the file.
    """

    candidate: Annotated[str, Field(pattern=_NAME)]
    about: str = ""
    flow: Annotated[dict[str, Scalar], Field(min_length=1)]


def load_candidate(path: Path) -> CandidateFile:
    """Read a sender's file. Raises InputError with all problems of the file."""
    return load_model(path, CandidateFile)
