# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Figures where the address space of programs is limited, as `ulimit -v` does on shared machines."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from reports.figures.save import FORMATS
from tests.patience import PATIENCE_S

PROGRAM = """\
import sys
from l4sbench.errors import InputError
from reports.figures import render
try:
    print(len(render({"mark": "bar"}, sys.argv[1])))
except InputError as error:
    print(error)
"""
LIMIT_BYTES = 8 << 30
REFUSED = (
    "figures cannot be drawn with 8192 MB of address space: the renderer reserves up to 96 GB, of which it "
    "uses little; `ulimit -v unlimited` lifts the limit in a shell\n"
)


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


@pytest.mark.parametrize("form", FORMATS)
def test_a_small_address_space_is_named_before_the_renderer_ends_the_process(form: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, form],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
        preexec_fn=limit,
    )
    assert ended.stdout == ("19\n" if form == "json" else REFUSED)
