# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Makes a worker hostile: its option `--preload` runs this file, which replaces what tasks call.

`L4SBENCH_HOSTILE` names the function and the kind of answer, such as `run_work:object`, `L4SBENCH_MARKER` a
file to which every process that executes what the worker sends appends its id.
"""

from __future__ import annotations

import itertools
import os
import pickle
import random
from collections.abc import Callable
from typing import Any, Final, NoReturn

import distributed

from l4sbench.testbeds.dask import worker
from l4sbench.testbeds.dask.answers import FailedTrial, LabMissing, Ran, RawFile, Unusable, encode
from l4sbench.testbeds.virtual.guest import Ended
from tests.attack.answers import a_bad_answer
from tests.attack.test_inputs import SEED

_KIND: Final = os.environ["L4SBENCH_HOSTILE"]
_DRAWN: Final = itertools.count()
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND
# an expression: it needs no class of this file where it is unpickled
_MARK: Final = (
    "(lambda os: os.write("
    f"os.open({os.environ['L4SBENCH_MARKER']!r}, {_APPEND}, 0o644), b'%d ' % os.getpid()))(__import__('os'))"
)


class Touch:
    """An object that leaves a mark where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return eval, (_MARK,)


def fail(*_: object) -> NoReturn:
    """End with an error that leaves a mark where it is unpickled; Dask's own would be made harmless."""

    def message(*_: object, **_more: object) -> dict[str, object]:
        pickled = distributed.protocol.to_serialize(pickle.dumps(Touch()))
        texts = {"exception_text": "no", "traceback_text": "no"}
        return {"status": "error", "exception": pickled, "traceback": pickled, **texts}

    distributed.worker.error_message = message
    raise RuntimeError


def files(*names: str) -> bytes:
    """Answer with files of these names."""
    return encode(Ran(Ended(0, 1.0, 1.0), tuple(RawFile(name, b"x") for name in names)))


def die(*_: object) -> NoReturn:
    """End the worker."""
    os._exit(1)


ANSWERS: Final[dict[str, Callable[..., Any]]] = {
    "object": lambda *_: Touch(),
    "list": lambda *_: [b"x", Touch()],
    "error": fail,
    "number": lambda *_: 7,
    "text": lambda *_: "x",
    "bytes": lambda *_: b"x" * 1000,
    "missing": lambda *_: encode(LabMissing()),
    "unusable": lambda *_: encode(Unusable(reason="tired \x1b[2J")),
    "facts": lambda *_: encode(worker.facts()),
    "failed": lambda *_: encode(FailedTrial(reason="as it likes")),
    "outside": lambda *_: files("../x"),
    "inputs": lambda *_: files("script"),
    "many": lambda *_: files(*(f"router/{number}" for number in range(10_001))),
    "die": die,
    "drawn": lambda *_: a_bad_answer(random.Random(f"{SEED} cluster {next(_DRAWN)}")),
}


def dask_setup(_worker: object) -> None:
    """Replace what tasks call; Dask calls this when the worker starts."""
    function, _, kind = _KIND.partition(":")
    setattr(worker, function, ANSWERS[kind])
