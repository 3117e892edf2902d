# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Hostile answers of a cluster's workers, made from a seed: honest ones that are damaged."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import struct
from collections.abc import Callable
from typing import Final

from l4sbench.testbeds.dask.answers import Ran, RawFile, Unusable, encode
from l4sbench.testbeds.virtual.guest import Ended
from tests.attack.hostile import MARKER, TEXTS, damaged_bytes, damaged_tree

PLACES: Final = (
    "",
    "router/",
    "tx/",
    "router/a/",
    "../",
    "/",
    ".programs/",
    "other/",
    "router//",
    "router/../",
)
GIVEN: Final = (
    "script",
    "programs.json",
    "trial.json",
    ".lock",
    "status.jsonl",
    "tc.batch",
    "router",
    "a",
    "b",
)


class Touch:
    """An object that makes a file where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {MARKER}",)


def a_name(rng: random.Random) -> str:
    """Return a name of a file, most likely a wrong one."""
    last = rng.choice(GIVEN) if rng.random() < 0.5 else rng.choice(TEXTS)
    return rng.choice(PLACES) + last


def a_good_answer(rng: random.Random) -> bytes:
    """Return an answer of an honest worker."""
    if rng.random() < 0.2:
        return encode(Unusable(reason="the disk is full"))
    names = rng.sample(("status.jsonl", "console.log", "router/a", "router/b/c", "tx/a"), rng.randrange(5))
    return encode(Ran(Ended(0, 1.0, 0.5), tuple(RawFile(name, rng.randbytes(9)) for name in names)))


def a_bad_answer(rng: random.Random) -> bytes:
    """Return what a hostile worker may answer; some of it is right after all."""
    good = a_good_answer(rng)
    match rng.randrange(6):
        case 0:
            return damaged_bytes(rng, good)
        case 1:
            return rng.choice((b"", pickle.dumps(Touch()), rng.randbytes(500), good + good))
    length = int.from_bytes(good[40:44], "little")
    header, contents = json.loads(good[44 : 44 + length]), good[44 + length :]
    if rng.random() < 0.5:
        for file in header.get("files", ()):
            file["name"] = a_name(rng)
        text = json.dumps(header).encode()
    else:
        text = json.dumps(damaged_tree(rng, header)).encode()
    if rng.random() < 0.2:
        text = damaged_bytes(rng, text)
    body = struct.pack("<I", rng.choice((len(text), len(text), len(text), 0, 2**32 - 1))) + text + contents
    return good[:8] + hashlib.sha256(body).digest() + body
