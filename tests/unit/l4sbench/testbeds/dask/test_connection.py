# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Nothing that a scheduler sends is executed, and one that does not work is reported and left."""

import json
import os
import pickle
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from l4sbench.errors import InputError, TestbedError
from l4sbench.testbeds.dask.guests import connect
from tests.patience import ran

distributed = pytest.importorskip("distributed", reason="needs the extra `scale`")

from distributed.protocol.core import dumps, loads, msgpack  # noqa: E402  (after the skip)
from distributed.protocol.serialize import Serialize, ToPickle  # noqa: E402

from l4sbench.testbeds.dask.connection import Sealed, plain  # noqa: E402

LIMIT_S = 3.0  # expires: schedulers here never answer


class Touch:
    """An object that makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self._marker}",)


class TouchError(Exception):
    """An error that makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self._marker = marker

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self._marker}",)


def frames_of(message: object) -> list[memoryview]:
    """Return a message as Dask sends it."""
    return [memoryview(bytes(frame)) for frame in dumps(message)]


def as_sent(message: object) -> bytes:
    """Return the bytes of a message on a connection."""
    frames = frames_of(message)
    lengths = [len(frame) for frame in frames]
    prelude = struct.pack(f"<{len(frames) + 1}Q", len(frames), *lengths)
    return struct.pack("<Q", len(prelude) + sum(lengths)) + prelude + b"".join(frames)


def evil(marker: Path) -> list[object]:
    """Return messages that execute something where they are read as Dask reads them, or used as it does."""
    raw = pickle.dumps(Touch(marker))
    header = {"serializer": "dask", "sub-header": {}, "type-serialized": raw, "num-sub-frames": 0}
    return [
        {"op": "x", "data": ToPickle(Touch(marker))},
        {"op": "x", "data": Serialize(Touch(marker))},
        {"op": "x", "data": [Serialize(Touch(marker))]},
        {"status": "OK", "data": {"key": Serialize({"a": Touch(marker)})}},
        {"op": "task-erred", "key": "k", "exception": Serialize(TouchError(marker)), "traceback": None},
        {"op": "x", "data": Serialize([header])},
    ]


def types_in(value: object) -> set[type]:
    """Return all types in a value."""
    found = {type(value)}
    if isinstance(value, dict):
        for key, item in value.items():
            found |= types_in(key) | types_in(item)
    elif isinstance(value, tuple):
        for item in value:
            found |= types_in(item)
    return found


PLAIN = {dict, tuple, str, int, float, bool, type(None), Sealed}


def test_messages_that_execute_something_in_dask_execute_nothing_here(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with suppress(Exception):
        loads(frames_of(evil(marker)[0]))
    assert marker.exists(), "this attack is none"
    marker.unlink()
    for message in evil(marker):
        assert types_in(plain(frames_of(message))) <= PLAIN
        assert not marker.exists(), message


@pytest.mark.parametrize("exception", ["raw", "serialized"])
def test_errors_arrive_as_the_texts_in_them(tmp_path: Path, exception: str) -> None:
    error: Any = pickle.dumps(ModuleNotFoundError("No module named 'l4sbench'"))
    error = error if exception == "raw" else Serialize(error)
    found = plain(frames_of({"op": "task-erred", "exception": error, "traceback": error}))
    assert found["traceback"] is None
    assert found["exception"].endswith("ModuleNotFoundError No module named 'l4sbench'")
    bad = pickle.dumps(TouchError(tmp_path / "marker"))
    assert "touch" in plain(frames_of({"exception": bad}))["exception"]
    assert not (tmp_path / "marker").exists()


def test_no_bytes_leave_a_message_but_sealed() -> None:
    raw = pickle.dumps(1)
    message = {"type": raw, "a": [raw, {"b": raw}], "c": Serialize(raw), "d": {1: (raw,)}}
    found = plain(frames_of(message))
    assert types_in(found) <= PLAIN
    assert (found["c"].kind, bytes(found["c"].content)) == ("bytes", raw)
    assert (found["type"].kind, bytes(found["type"].content)) == ("raw", raw)
    with pytest.raises(TypeError):
        pickle.loads(found["c"])
    for other in (msgpack.ExtType(5, raw), msgpack.Timestamp(1)):
        assert types_in(plain([memoryview(msgpack.packb({"a": other}))])) <= PLAIN


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"\xc1"],
        [b"\x81" * 2000],
        [msgpack.packb({"__Serialized__": 7})],
        [msgpack.packb({"__Serialized__": 1}), b"\xff"],
        [
            msgpack.packb({"__Serialized__": 1}),
            msgpack.packb({"serializer": "dask", "type": "bytes", "num-sub-frames": 10**9}),
        ],
        [msgpack.packb({"__Serialized__": 1}), msgpack.packb([])],
        [b"\x81\x81\x01\x02\x03"],
    ],
)
def test_what_is_no_message_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(ValueError, match="message"):
        plain([memoryview(frame) for frame in frames])


# ---- schedulers that do not work
HANDSHAKE = as_sent({"compression": None, "python": (3, 11, 7), "pickle-protocol": 5})


@contextmanager
def scheduler(answer: bytes, *, closes: bool = False) -> Iterator[str]:
    """Yield the address of one that sends something on every connection, and then is silent or closes it."""
    kept: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                peer, _ = server.accept()
                kept.append(peer)
                with suppress(OSError):
                    peer.sendall(answer)
                if closes:
                    peer.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for peer in kept:
                peer.close()


@pytest.mark.parametrize(
    ("answer", "closes"),
    [
        (b"", False),
        (b"", True),
        (b"\xff" * 8, False),
        (struct.pack("<Q", 1 << 31), False),
        (struct.pack("<QQ", 8, 2**60), False),
        (struct.pack("<QQQ", 16, 1, 2**62), False),
        (struct.pack("<Q", 0), False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", True),
        (bytes(range(256)) * 64, False),
        (as_sent({}), False),
        (as_sent([1, 2]), False),
        (HANDSHAKE, False),
        (HANDSHAKE + as_sent([{"op": "stream-start", "error": "no \x1b[2J"}]), False),
        (HANDSHAKE + as_sent({"status": "uncaught-error", "exception": "no"}), False),
    ],
    ids=str,
)
def test_a_scheduler_that_does_not_work_is_one_clear_error(answer: bytes, closes: bool) -> None:
    with scheduler(answer, closes=closes) as address, pytest.raises(TestbedError) as failed:
        connect(address, LIMIT_S)
    assert str(failed.value).startswith(f"the Dask scheduler at {address} does not answer")
    assert "is it running, and can this machine reach it?" in str(failed.value)
    assert str(failed.value).isprintable()


def test_a_handshake_that_executes_something_in_dask_executes_nothing_here(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for message in evil(marker):
        with scheduler(as_sent(message)) as address, pytest.raises(TestbedError):
            connect(address, LIMIT_S)
        with scheduler(HANDSHAKE + as_sent(message)) as address, pytest.raises(TestbedError):
            connect(address, LIMIT_S)
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"[1", b"{}", b"[]", b"null", b"\x80\x04\xff", b'{"address": 7}', b'{"address": "inproc://1"}'],
)
def test_a_broken_scheduler_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "scheduler.json"
    file.write_bytes(content)
    with pytest.raises(TestbedError) as failed:
        connect(str(file), LIMIT_S)
    assert str(file) in str(failed.value)
    assert "name the file that `dask scheduler --scheduler-file` writes" in str(failed.value)


def test_a_scheduler_file_that_is_a_pipe_or_a_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(TestbedError, match=r"pipe\.json"):
        connect(str(tmp_path / "pipe.json"), LIMIT_S)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match="there is no scheduler file"):
        connect(str(tmp_path / "folder.json"), LIMIT_S)


def test_the_process_ends_after_such_an_error_without_a_traceback(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from l4sbench.errors import TestbedError\n"
        "from l4sbench.testbeds.dask.guests import connect\n"
        "try:\n"
        f"    connect(sys.argv[1], {LIMIT_S})\n"
        "except TestbedError as error:\n"
        "    sys.exit(f'error: {error}')\n"
    )
    with scheduler(b"") as address:
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps({"address": address}))
        ended = ran([sys.executable, "-c", script, str(file)])
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: the Dask scheduler at ")
    assert ended.stderr.count("\n") == 1, ended.stderr
