# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Locations of the folders without Python: `kernels/`, `matrices/`, `roles/` ...

In a checkout they are next to the package, in a wheel inside of it. They are read-only: build outputs go
elsewhere.
"""

from __future__ import annotations

import ast
import hashlib
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from l4sbench.disk.garbage import collector_paused


def root() -> Path:
    """Return the folder of `kernels/`, `matrices/` and the other data folders."""
    shipped = Path(__file__).parents[1] / "_assets"
    return shipped if shipped.is_dir() else Path(__file__).parents[2]


def folder(name: str) -> Path:
    """Return the data folder `name`, such as `kernels`; it need not exist."""
    return root() / name


def matrices() -> Mapping[str, Path]:
    """Return the matrices that ship with l4sbench, each file by its name."""
    return {file.stem: file for file in sorted(folder("matrices").glob("*.yaml"))}


def workloads() -> Mapping[str, Path]:
    """Return the workloads that ship with l4sbench, each file by its name."""
    return {file.stem: file for file in sorted(folder("workloads").glob("*.yml"))}


def digest(path: Path, *, suffixes: tuple[str, ...] = ()) -> str:
    """Return a digest of a file, or of all files below a folder: names and contents, no times, no owners.

    Of Python files only the code counts: comments, docstrings and layout do not change the digest.

    Args:
        path: File or folder.
        suffixes: Include only files whose names end with one of these; empty: all files.

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
        content = file.read_bytes()
        if file.suffix == ".py":
            with collector_paused():
                tree = ast.parse(content, file)
            content = "\0".join(_code(tree)).encode()
        total.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def _code(node: ast.AST) -> Iterator[str]:
    """Yield the syntax tree of Python code without docstrings, spelled alike by all versions of Python.

    `ast.dump` is not used because Python 3.13 prints less than 3.12, which has a field more than 3.11. Empty
    fields are left out, as newer versions add such fields, and so are the empty texts that some releases of
    3.12 put into f-strings.
    """
    yield f"({type(node).__name__}"
    for name, value in ast.iter_fields(node):
        if value is None or value == []:
            continue
        yield name
        for part in value if isinstance(value, list) else [value]:
            if not isinstance(part, ast.AST):
                yield repr(part)
            elif not _is_void(part, node):
                yield from _code(part)
    yield ")"


def _is_void(node: ast.AST, parent: ast.AST) -> bool:
    """Return whether a node does nothing: a docstring, or an empty text in an f-string."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Constant(value=""):
            return isinstance(parent, ast.JoinedStr)
        case _:
            return False


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation, from the place that it was installed from.

    Installers record that place in `direct_url.json` (PEP 610): a checkout, a file or a repository. Without a
    record the package index is meant.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        recorded = distribution("l4sbench").read_text("direct_url.json")
    except PackageNotFoundError:  # sources on the path, not installed
        recorded = None
    origin = json.loads(recorded) if recorded else {}
    pip = (sys.executable, "-m", "pip", "install")
    url = str(origin.get("url", ""))
    if origin.get("dir_info", {}).get("editable"):
        return shlex.join((*pip, "--editable", f"{url2pathname(urlsplit(url).path)}[{extra}]"))
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return shlex.join((*pip, f"l4sbench[{extra}] @ {url}" if url else f"l4sbench[{extra}]"))
