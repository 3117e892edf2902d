# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The base of models of files: keys that nobody expects are errors, and values do not change."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen model without other keys than its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)
