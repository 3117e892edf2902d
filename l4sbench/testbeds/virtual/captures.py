# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures of packets among a trial's raw files."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path


def compress_captures(raw: Path) -> None:
    """Compress captures, to about a fifth: headers of packets are much alike.

    Captures that are compressed already stay as they are.
    """
    for path in sorted(raw.glob("*/*.pcap")):
        # without time and name, so that equal trials are equal files
        with (
            path.open("rb") as plain,
            path.with_name(path.name + ".gz").open("wb") as out,
            gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=out, mtime=0) as packed,
        ):
            shutil.copyfileobj(plain, packed, 1 << 20)
        path.unlink()
