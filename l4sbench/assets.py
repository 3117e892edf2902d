# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Where the folders without Python are: `kernels/`, `matrices/`, `roles/` ...

In a checkout they stand beside the package, in a wheel inside it. They are read-only: whatever is built from
them goes elsewhere.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def root() -> Path:
    """Folder that holds `kernels/`, `matrices/` and the other data folders."""
    shipped = Path(__file__).parent / "_assets"
    return shipped if shipped.is_dir() else Path(__file__).parents[1]


def folder(name: str) -> Path:
    """The data folder `name`, for example `kernels`; it need not exist (p4/ came later than kernels/)."""
    return root() / name


def digest(path: Path, *, suffixes: tuple[str, ...] = ()) -> str:
    """Digest of a file, or of every file below a folder: names and contents, no times, no owners.

    Args:
        path: File or folder.
        suffixes: Count only files whose name ends so (or is so); all of them when empty.

    Raises:
        OSError: `path` cannot be read.
    """
    path.stat()
    total = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        if suffixes and not file.name.endswith(suffixes):
            continue
        name = file.name if file == path else file.relative_to(path).as_posix()
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        total.update(f"{name}\0{content}\n".encode())
    return total.hexdigest()
