# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A sender's folder as a user has it, for tests that read, build and run one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NAME = "mine"
_STATED = """\
sender: {name}
label: Mine
about: A stack.
version: "1"
licence: MIT
sources: [RFC 9000]
build: {build}
codepoints: {codepoints}
ccs: {ccs}
"""


def own_sender(
    parent: Path,
    files: Mapping[str, str],
    *,
    build: str = "cc",
    codepoints: str = "[ect0]",
    ccs: str = "{reno: {label: Reno, about: Reno.}}",
) -> Path:
    """Write the folder of a sender of that name, or write it anew; return it."""
    folder = parent / NAME
    folder.mkdir(exist_ok=True)
    stated = _STATED.format(name=NAME, build=build, codepoints=codepoints, ccs=ccs)
    (folder / "sender.yml").write_text(stated)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder
