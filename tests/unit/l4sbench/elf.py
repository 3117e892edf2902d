# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Small ELF files, as a linker makes them as far as their headers go."""

from __future__ import annotations

import struct
from pathlib import Path

MACHINES = {"x86_64": 62, "aarch64": 183}


def program(
    path: Path, machine: str = "x86_64", *, interpreter: bytes = b"", kind: int = 2, text: bytes = b"\xc3"
) -> Path:
    """Write an executable program for a machine; with an `interpreter` it is dynamic."""
    segments = [(3, interpreter)] if interpreter else []
    segments.append((1, text))
    at = 64 + 56 * len(segments)
    headers, contents = b"", b""
    for what, content in segments:
        place = at + len(contents)
        headers += struct.pack("<IIQQQQQQ", what, 5, place, place, place, len(content), len(content), 8)
        contents += content
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", kind, MACHINES[machine], 1, at, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + headers + contents)
    path.chmod(0o755)
    return path
