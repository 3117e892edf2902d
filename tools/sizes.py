# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Print how much room the packages of l4sbench and of each of its extras take, as docs/install.md states.

    .venv/bin/python tools/sizes.py

Counted are the files that this environment has of each package and of all that it needs, without compiled
Python (`pip install --no-compile`). It needs an environment with all extras, such as that of `make check`.
"""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

EXTRAS = ("", "ansible", "fabric", "notebook", "scale")


def needed(requirement: str, extras: tuple[str, ...] = ("",)) -> set[tuple[str, tuple[str, ...]]]:
    """Return a requirement and everything that it needs here: names and extras."""
    found: set[tuple[str, tuple[str, ...]]] = set()
    left = [(requirement, extras)]
    while left:
        text, asked = left.pop()
        one = Requirement(text)
        key = (re.sub(r"[-_.]+", "-", one.name).lower(), tuple(sorted(one.extras)))
        wanted = one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in asked)
        if wanted and key not in found:
            found.add(key)
            own = tuple(one.extras) or ("",)
            left += [(text, own) for text in distribution(key[0]).requires or ()]
    return found


def packages(extra: str) -> set[str]:
    """Return the names of the packages that l4sbench needs with an extra."""
    return {name for name, _ in needed(f"l4sbench[{extra}]" if extra else "l4sbench")} - {"l4sbench"}


def size_mb(name: str) -> float:
    """Return the size of a package's files, MB."""
    files = [Path(str(file.locate())) for file in distribution(name).files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


def main() -> None:
    """Print a row for l4sbench, and one for each extra with what it adds."""
    plain = packages("")
    for extra in EXTRAS:
        names = packages(extra) - plain if extra else plain
        print(f"{extra or 'l4sbench':10} {len(names):3} packages {sum(map(size_mb, names)):4.0f} MB")


if __name__ == "__main__":
    main()
