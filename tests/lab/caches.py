# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Caches of a test's own."""

import shutil
from pathlib import Path

from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.lab import read_record, record_key


def copy_lab(lab: Lab, root: Path) -> None:
    """Copy the default lab into a new cache, without the rest of its cache: others may be at work there."""
    home, copy, key = Cache.open(lab.kernel.parents[2]), Cache(root), record_key(Inputs.read())
    record = read_record(home, key)
    assert record is not None
    for part in record.parts():
        shutil.copytree(home.root / part, root / part, symlinks=True)
    copy.record(key).parent.mkdir()
    shutil.copy(home.record(key), copy.record(key))
