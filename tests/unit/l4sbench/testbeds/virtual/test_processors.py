# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""CPUs for guests: one each, all free again afterwards, none where all are taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

import pytest

from tests.patience import PATIENCE_S, ran

# In a network namespace of its own: guests of tests beside this one hold CPUs, too.
ALONE: Final = ("unshare", "--user", "--map-root-user", "--net")
PROGRAM: Final = """\
import contextlib, json, os
from l4sbench.testbeds.virtual.processors import own_cpu

def all_of(number):
    with contextlib.ExitStack() as held:
        return [held.enter_context(own_cpu()) for _ in range(number)]

allowed = sorted(os.sched_getaffinity(0))
print(json.dumps([all_of(len(allowed) + 1), all_of(1), allowed]))
"""


def test_every_guest_has_one_of_its_own_while_there_are_any() -> None:
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True, timeout=PATIENCE_S).returncode:
        pytest.skip("this user cannot make a network namespace")
    done = ran([*ALONE, sys.executable, "-c", PROGRAM], check=True)
    held, again, allowed = json.loads(done.stdout)
    assert held[-1] is None
    assert sorted(held[:-1]) == allowed == sorted(os.sched_getaffinity(0))
    assert again == held[:1]
