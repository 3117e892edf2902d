# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Tables of a run: `schemas` defines the columns with type, unit and meaning; `files` reads and writes."""

from __future__ import annotations

from l4sbench.tables.files import (
    FOLDER,
    FORMAT,
    PARQUET_ERRORS,
    DamagedTable,
    blaming,
    check,
    columns,
    conform,
    empty,
    format_of,
    key,
    mend,
    scan,
    shape,
    write,
)
from l4sbench.tables.schemas import OF_TRIALS, SCHEMAS, schema

__all__ = [
    "FOLDER",
    "FORMAT",
    "OF_TRIALS",
    "PARQUET_ERRORS",
    "SCHEMAS",
    "DamagedTable",
    "blaming",
    "check",
    "columns",
    "conform",
    "empty",
    "format_of",
    "key",
    "mend",
    "scan",
    "schema",
    "shape",
    "write",
]
