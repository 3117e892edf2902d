# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What this machine lacks for building and running the lab, and the command that mends it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What was looked at.
        ok: Whether it is as it should be.
        detail: What was found, in words.
        mend: The command that mends it; None when it is right or when no single command does.
    """

    name: str
    ok: bool
    detail: str
    mend: str | None = None


def doctor() -> list[Check]:
    """Look at everything that building and running the lab needs; changes nothing."""
    return []
