# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Models of files and answers: unexpected keys are errors, values do not change, and one problem is named."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from l4sbench.text.wording import quoted


class Strict(BaseModel):
    """A frozen model without other keys than its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def first_problem(error: ValidationError) -> str:
    """Return the first problem of data that a model refuses, after its place in them where that is known."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(quoted(str(part)) for part in first["loc"])
    cause = first.get("ctx", {}).get("error", first["msg"])
    return f"{place}: {cause}" if place else str(cause)
