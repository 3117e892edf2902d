# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Built kernel trees that stay in the cache, so that the next build compiles only what has changed.

make compares times, and those of a user's files cannot be trusted: an older file that takes the place of a
newer one would not be compiled. So a file is compared by its content, and one that differs is written anew,
with the time of now.
"""

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from l4sbench.disk.files import PARTIAL, remove_tree, write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.command import KilledError

_GIT_S = 120
_LIST = ".l4sbench-files.json"
"""File of a kept tree with the files of its source, as they were: path -> size, time in ns, mode."""
_BUILDING = ".l4sbench-building"
"""File of a kept tree while it is built: a compiler that was killed may have left half an object."""

_Stamp = list[int]


def kept_tree(cache: Cache, name: str) -> Path:
    """Return the folder of the kept tree of a lab, present or not."""
    return cache.root / "trees" / name


@contextmanager
def building(tree: Path) -> Iterator[None]:
    """Mark a kept tree while it is built; one that was left in the middle is removed first."""
    if (tree / _BUILDING).exists():
        remove_tree(tree)
    try:
        yield
    except KilledError:
        raise
    except TestbedError:  # make removes what a step that failed has made
        (tree / _BUILDING).unlink(missing_ok=True)
        raise
    (tree / _BUILDING).unlink(missing_ok=True)


def refresh(
    source: Path,
    tree: Path,
    *,
    fill: Callable[[Path], None],
    patch: Callable[[Path], None],
    patched: frozenset[str],
    excluded: Callable[[str], bool],
) -> None:
    """Bring a kept tree up to date with a git work tree; objects stay.

    Args:
        source: The work tree.
        tree: The kept tree; made if it is not there.
        fill: Copies the whole source into a new folder.
        patch: Patches a folder that has the files of the source that are patched.
        patched: The files that it changes.
        excluded: Whether `fill` leaves out a file.

    Raises:
        TestbedError: The source is not a git work tree, or a patch does not apply.
    """
    listed = {name: stamp for name, stamp in _listed(source).items() if not excluded(name)}
    if not tree.is_dir():
        partial = tree.with_name(f"{tree.name}{PARTIAL}")
        if partial.exists():
            remove_tree(partial)
        tree.parent.mkdir(parents=True, exist_ok=True)
        fill(partial)
        partial.rename(tree)
        (tree / _BUILDING).touch()
    else:
        (tree / _BUILDING).touch()
        known = _known(tree)
        (tree / _LIST).unlink(missing_ok=True)
        for name in known.keys() - listed.keys() - patched:
            (tree / name).unlink(missing_ok=True)
        for name, stamp in listed.items():
            if name not in patched and known.get(name) != stamp:
                _take(source / name, tree / name)
    with tempfile.TemporaryDirectory(prefix="l4sbench-patched-") as folder:
        part = Path(folder)
        for name in patched & listed.keys():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, part / name)
        patch(part)
        for name in sorted(patched):
            if (part / name).exists():
                _take(part / name, tree / name)
    write_whole(tree / _LIST, json.dumps(listed))


def _listed(source: Path) -> dict[str, _Stamp]:
    """Return the files of a work tree that git knows or would add, with what shows that they changed."""
    argv = ["git", "--no-optional-locks", "-C", str(source), "ls-files", "-z", "--cached", "--others"]
    try:
        done = subprocess.run(
            [*argv, "--exclude-standard", "--deduplicate"],
            capture_output=True,
            timeout=_GIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        reason = said.decode(errors="replace").strip().splitlines()
        last = f": {reason[-1]}" if reason else ""
        raise TestbedError(
            f"{source} is not a git work tree, by which changed files are found{last}",
            "git init it, or build without --keep-tree",
        ) from error
    found: dict[str, _Stamp] = {}
    for name in map(os.fsdecode, done.stdout.split(b"\0")):
        try:
            about = (source / name).lstat() if name else None
        except FileNotFoundError:  # git has it, and the work tree has not
            continue
        if about is not None and not stat.S_ISDIR(about.st_mode):
            found[name] = [about.st_size, about.st_mtime_ns, about.st_mode]
    return found


def _known(tree: Path) -> dict[str, _Stamp]:
    try:
        plain: dict[str, _Stamp] = json.loads((tree / _LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the last refresh did not end: every file is compared
        return {}
    return plain


def _take(source: Path, target: Path) -> None:
    """Make a file like its source, untouched if it is."""
    if source.is_symlink():
        link = os.readlink(source)  # noqa: PTH115  (as it is, not as a path)
        if not (target.is_symlink() and os.readlink(target) == link):  # noqa: PTH115
            target.unlink(missing_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(link)
        return
    content, mode = source.read_bytes(), source.stat().st_mode & 0o777 | 0o600
    if target.is_symlink():
        target.unlink()
    if not target.is_file() or target.read_bytes() != content:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    if target.stat().st_mode & 0o777 != mode:
        target.chmod(mode)
