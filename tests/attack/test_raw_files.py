# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Raw files that few trials have, damaged from the seed: they are read, or refused with a reason."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from collectors.collector import BadRawError
from collectors.kinds.flent import read_test
from tests.attack.hostile import ROOT, damaged_bytes, damaged_tree
from tests.attack.test_inputs import SEED

if TYPE_CHECKING:
    from pathlib import Path

FLENT: Final = ROOT / "tests/cases/flent/ping-2026-11-23T020032.583518.probe-0.flent.gz"
MANY: Final = 300


def test_flents_files(tmp_path: Path) -> None:
    """No other error than that of a bad raw file, which names the file."""
    content = gzip.decompress(FLENT.read_bytes())
    for number in range(MANY):
        rng = random.Random(f"flent/{SEED}/{number}")
        match rng.randrange(4):
            case 0:
                damaged = damaged_bytes(rng, content)
            case 1:
                at = rng.choice([index for index, sign in enumerate(content) if sign == ord(":")]) + 1
                nested = b"[" * rng.choice((10, 100_000))
                damaged = content[:at] + rng.choice((b"9" * 400, b"-1e999", nested)) + content[at:]
            case _:
                damaged = json.dumps(damaged_tree(rng, json.loads(content))).encode()
        packed = gzip.compress(damaged)
        (tmp_path / FLENT.name).write_bytes(damaged_bytes(rng, packed) if rng.random() < 0.1 else packed)
        with suppress(BadRawError):
            read_test(tmp_path, "probe-0")
