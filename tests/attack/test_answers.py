# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Hostile answers of a cluster's workers, and hostile messages of its scheduler, drawn from the same seed.

Whatever comes, it is refused with the one error that is for this, or adds regular files to the folder of its
trial; and nothing that could be unpickled leaves a message.
"""

from __future__ import annotations

import pickle
import random
import stat
from pathlib import Path
from typing import Any, Final

import pytest

from l4sbench.testbeds.dask.answers import Answer, BadAnswer, Ran, decode, write
from l4sbench.testbeds.dask.packing import Packed, pack
from tests.attack.answers import Touch, a_bad_answer
from tests.attack.hostile import MARKER, damaged_bytes
from tests.attack.test_inputs import LONG, SEED

MANY: Final = 200


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trial's folder as it is sent; the current folder is the one above it."""
    raw = tmp_path / "trial" / "raw"
    for folder in ("router", "tx", ".programs"):
        (raw / folder).mkdir(parents=True)
    for name in ("script", "programs.json", "router/tc.batch", ".programs/own"):
        (raw / name).write_text("ours")
    monkeypatch.chdir(tmp_path)
    return raw


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return permissions and contents of all that is below a folder."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


def taken(data: bytes, sent: Packed) -> tuple[Answer | None, str]:
    """Return an answer, or why it is refused."""
    try:
        return decode(data, sent), ""
    except BadAnswer as refused:
        return None, str(refused)


def check_answer(number: int, sent: Packed, raw: Path) -> bool:
    """Take one answer; return True if it was a right one."""
    before = state(Path())
    answer, reason = taken(a_bad_answer(random.Random(f"{SEED} answer {number}")), sent)
    assert reason.isprintable()
    assert len(reason) < 3000
    if not isinstance(answer, Ran):
        return answer is not None
    write(answer.files, raw)
    after = state(Path())
    assert {name: after.get(name) for name in before} == before, "something there was changed"
    for name in after.keys() - before.keys():
        place = Path(name).relative_to("trial/raw")
        assert place.parts[0] in {"router", "tx", "status.jsonl", "console.log"}
        mode = after[name][0]
        assert stat.S_IMODE(mode) == (0o755 if stat.S_ISDIR(mode) else 0o644)
        assert stat.S_ISDIR(mode) or stat.S_ISREG(mode)
    for name in sorted(after.keys() - before.keys(), reverse=True):
        Path(name).rmdir() if Path(name).is_dir() else Path(name).unlink()
    return True


def take_answers(count: int, raw: Path) -> None:
    sent = pack(raw)
    right = [number for number in range(count) if check_answer(number, sent, raw)]
    assert 0 < len(right) < count, "only one kind of answer is drawn"


def test_hostile_answers_are_refused_or_harmless(trial: Path) -> None:
    take_answers(MANY, trial)


@pytest.mark.long
def test_very_many_hostile_answers_are_refused_or_harmless(trial: Path) -> None:
    take_answers(LONG * 10, trial)


# ---- messages
def a_message(rng: random.Random) -> list[memoryview]:
    """Return the frames of a message that a hostile scheduler may send."""
    from distributed.protocol.core import dumps
    from distributed.protocol.serialize import Serialize, ToPickle

    raw = pickle.dumps(Touch())
    parts: tuple[Any, ...] = (Touch(), raw, "x", [raw], {"exception": raw}, Serialize(raw), ToPickle(Touch()))
    ops = ("task-erred", "key-in-memory", "event", "print", "close", "x")
    names = ("op", "status", "exception", "traceback", "type", "data", "key", "msg", "result", "category")
    message: Any = {name: rng.choice(parts) for name in rng.sample(names, rng.randrange(1, 6))}
    message["op"] = rng.choice(ops)
    wrapped = rng.choice((message, [message], {"status": "OK", "data": {"key": Serialize(message)}}))
    frames = [bytes(frame) for frame in dumps(wrapped)]
    if rng.random() < 0.5:
        at = rng.randrange(len(frames))
        frames[at] = damaged_bytes(rng, frames[at])
    return [memoryview(frame) for frame in frames]


def check_plain(value: object) -> None:
    """Check that a value has no type that an unpickler takes or that does something."""
    from l4sbench.testbeds.dask.connection import Sealed

    assert type(value) in {dict, tuple, str, int, float, bool, type(None), Sealed}
    if isinstance(value, dict):
        for key, item in value.items():
            check_plain(key)
            check_plain(item)
    elif isinstance(value, tuple):
        for item in value:
            check_plain(item)


def test_hostile_messages_are_refused_or_harmless(trial: Path) -> None:
    pytest.importorskip("distributed", reason="needs the extra `scale`")
    from l4sbench.testbeds.dask.connection import plain

    read = 0
    for number in range(MANY):
        try:
            value = plain(a_message(random.Random(f"{SEED} message {number}")))
        except ValueError:
            continue
        read += 1
        check_plain(value)
    assert read > MANY // 10
    assert not Path(MARKER).exists()
