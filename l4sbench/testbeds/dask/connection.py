# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Connections to Dask schedulers that unpickle nothing.

A scheduler passes on what workers send, and Dask's own client unpickles results, errors, types and warnings
from it, which executes whatever their sender likes. Here messages are read by `plain`: what comes out are
numbers, texts, lists and maps, and bytes only as `Sealed`, which no unpickler takes.

Imported only when a cluster is used: it needs the extra `scale`.
"""

from __future__ import annotations

import asyncio
import logging
import pickletools
import struct
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import dask
import distributed
from distributed.comm import registry, tcp
from distributed.comm.core import CommClosedError
from distributed.protocol.core import msgpack

from l4sbench.testbeds.dask.answers import MOST_BYTES, one_line

T = TypeVar("T")

_SCHEME: Final = "l4sbench-"
"""Prefix of the schemes of our connections: others of this process are Dask's own."""
_MOST_MESSAGE_BYTES: Final = MOST_BYTES + (1 << 20)
_MOST_FRAMES: Final = 100_000
_LENGTH: Final = struct.Struct("<Q")
_BYTES: Final = ("bytes", "builtins.bytes")
"""Names of the type, of which Dask has had two."""
_CLOSE_S: Final = 2.0
_MOST_ERROR_BYTES: Final = 100_000

_REPORTS: Final[Mapping[str, frozenset[str]]] = {
    "key-in-memory": frozenset({"key"}),
    "lost-data": frozenset({"key"}),
    "cancelled-keys": frozenset({"keys", "reason", "msg"}),
    "task-retried": frozenset({"key"}),
    "task-erred": frozenset({"key", "exception", "traceback"}),
    "restart": frozenset(),
    "stream-start": frozenset({"error"}),
    "stream-closed": frozenset(),
    "close": frozenset(),
}
"""Messages that a client needs, and their fields; others, such as texts to print, are dropped."""


@dataclass(frozen=True, eq=False)
class Sealed:
    """Bytes that came over a connection. Only `content` has them.

    `kind` is `bytes` for a value of this type, `raw` for bytes in a message, else what cannot be read.
    """

    kind: str
    parts: tuple[memoryview, ...] = ()

    @property
    def content(self) -> memoryview:
        """The bytes, as one piece."""
        return self.parts[0] if len(self.parts) == 1 else memoryview(b"".join(self.parts))


# ---- messages
def plain(frames: Sequence[memoryview]) -> Any:
    """Return the value of a message: frames with msgpack, and values that it refers to.

    Raises:
        ValueError: it is not a message.
    """
    if not frames:
        raise ValueError("a message without frames")

    def refer(found: dict[Any, Any]) -> Any:
        if (at := found.get("__Serialized__")) is not None and isinstance(at, int) and at > 0:
            return _value(frames, at)
        if "__Serialized__" in found or "__Pickled__" in found:
            return Sealed("a pickled object")
        if "__Enum__" in found:
            return found.get("name")
        return found

    try:
        return _sealed(_unpack(frames[0], refer))
    except Exception as error:  # noqa: BLE001  (whatever msgpack, hashing and recursion make of it)
        raise ValueError(f"not a message: {one_line(repr(error))}") from None


def _unpack(frame: memoryview, hook: Callable[[dict[Any, Any]], Any] | None = None) -> Any:
    def extension(_code: int, _data: bytes) -> Sealed:
        return Sealed("an extension")

    return msgpack.unpackb(
        frame, object_hook=hook, ext_hook=extension, use_list=False, strict_map_key=False, raw=False
    )


def _value(frames: Sequence[memoryview], at: int) -> Sealed:
    """Return a serialized value, whose header is the frame at `at`; only those of type bytes are read."""
    header = _unpack(frames[at])
    count = header["num-sub-frames"]
    if header.get("serializer") != "dask" or header.get("type") not in _BYTES:
        return Sealed("a pickled object")
    if any(header.get("compression") or ()):
        return Sealed("compressed; set Dask's distributed.comm.compression to false")
    if not isinstance(count, int) or not 0 <= count <= len(frames) - at - 1:
        raise ValueError("frames are missing")
    return Sealed("bytes", tuple(frames[at + 1 : at + 1 + count]))


def _sealed(value: Any) -> Any:
    """Return a value without bytes and errors: Dask's client would unpickle them."""
    if isinstance(value, bytes):
        return Sealed("raw", (memoryview(value),))
    if isinstance(value, tuple | list):
        return tuple(_sealed(item) for item in value)
    if value is None or isinstance(value, str | int | float | Sealed):
        return value
    if not isinstance(value, dict):
        return Sealed("an extension")
    found = {_sealed(key): _sealed(item) for key, item in value.items()}
    if "exception" in found:
        found["exception"] = _error_text(found)
    if "traceback" in found:
        found["traceback"] = None
    return found


def _error_text(found: Mapping[Any, Any]) -> str:
    match found.get("exception_text"), found["exception"]:
        case str(text), _:
            return one_line(text)
        case _, str(text):
            return one_line(text)
        case _, Sealed(kind="raw" | "bytes") as error:
            return one_line(" ".join(_texts(bytes(error.content[:_MOST_ERROR_BYTES])))) or "an error"
        case _:
            return "an error"


def _texts(pickled: bytes) -> list[str]:
    """Return the texts in a pickle, which name an error and what it reports, without unpickling it."""
    found: list[str] = []
    with suppress(Exception):  # it may be anything
        for _, text, _ in pickletools.genops(pickled):
            if isinstance(text, str):
                found.append(text)
    return found


def _report(message: Any) -> Any:
    """Return a message of the scheduler to a client with the fields that it may have; None: drop it."""
    if not isinstance(message, dict) or "op" not in message:
        return message
    op = message["op"]
    fields = _REPORTS.get(op) if isinstance(op, str) else None
    if fields is None:
        return None
    return {"op": op} | {name: message[name] for name in sorted(fields) if name in message}


# ---- connections
class _PlainReader:
    """The reading side of a connection, in place of Dask's."""

    stream: Any
    abort: Callable[[], None]

    async def read(self, deserializers: object = None) -> Any:  # noqa: ARG002  (Dask's interface)
        stream = self.stream
        if stream is None:
            raise CommClosedError("closed")
        try:
            message = plain(await _frames(stream))
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception as error:
            self.abort()
            raise CommClosedError(one_line(str(error)) or "closed") from error
        if isinstance(message, tuple) and any(isinstance(item, dict) and "op" in item for item in message):
            return tuple(item for item in map(_report, message) if item is not None)
        kept = _report(message)
        return () if kept is None else kept


async def _frames(stream: Any) -> list[memoryview]:
    """Read the frames of a message, as Dask sends them.

    Raises:
        ValueError: these are not frames of a message that has a proper size.
    """
    (length,) = _LENGTH.unpack(await stream.read_bytes(_LENGTH.size))
    _check_size(length)
    first = await tcp.read_bytes_rw(stream, length)
    (count,) = _LENGTH.unpack_from(first)
    if count > min(_MOST_FRAMES, length // _LENGTH.size - 1):
        raise ValueError("more frames than a message has")
    lengths = struct.unpack_from(f"<{count}Q", first, _LENGTH.size)
    _check_size(sum(lengths))
    frames: list[memoryview] = []
    at = _LENGTH.size * (1 + count)
    for size in lengths:
        if at == length:
            frames.append(await tcp.read_bytes_rw(stream, size))
            continue
        if at + size > length:
            raise ValueError("a frame is cut off")
        frames.append(first[at : at + size])
        at += size
    return frames


def _check_size(size: int) -> None:
    if not size <= _MOST_MESSAGE_BYTES:
        raise ValueError(f"a message of {size} bytes")


class _PlainTCP(_PlainReader, tcp.TCP):  # type: ignore[misc]
    pass


class _PlainTLS(_PlainReader, tcp.TLS):  # type: ignore[misc]
    pass


class _TCPConnector(tcp.TCPConnector):  # type: ignore[misc]
    comm_class = _PlainTCP


class _TLSConnector(tcp.TLSConnector):  # type: ignore[misc]
    comm_class = _PlainTLS


class _TCPBackend(tcp.TCPBackend):  # type: ignore[misc]
    _connector_class = _TCPConnector


class _TLSBackend(tcp.TLSBackend):  # type: ignore[misc]
    _connector_class = _TLSConnector


registry.backends |= {f"{_SCHEME}tcp": _TCPBackend(), f"{_SCHEME}tls": _TLSBackend()}


class Connection:
    """A client of a scheduler, and the thread with the event loop that it runs in.

    Args:
        address: Of the scheduler, with its scheme, tcp or tls.
        limit_s: Seconds after which there must be a connection.
        lost_s: Seconds after which a connection on which nothing gets through is broken, and after which one
            that broke is given up.

    Raises:
        Exception: of any type: there is no Dask scheduler.
    """

    def __init__(self, address: str, limit_s: float, lost_s: float) -> None:
        for name in ("distributed", "distributed.client", "distributed.core", "distributed.utils"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is reported as errors
        if not (of_tornado := logging.getLogger("tornado")).hasHandlers():
            of_tornado.addHandler(logging.NullHandler())
        dask.config.set({"distributed.comm.timeouts.tcp": f"{lost_s:g}s"})
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)
        thread = threading.Thread(target=_serve, args=(self.loop,), name="l4sbench-dask", daemon=True)
        thread.start()
        clients: list[Any] = []
        self._leave = weakref.finalize(self, _leave, self.loop, thread, clients)
        try:
            self.call(_open(f"{_SCHEME}{address}", lost_s, clients), limit_s)
        except BaseException:
            self.close()
            raise
        self.client = clients[0]

    def call(self, question: Coroutine[Any, Any, T], limit_s: float) -> T:
        """Wait for a coroutine in the loop; from other threads. Raises TimeoutError after `limit_s`."""

        async def limited() -> T:
            return await asyncio.wait_for(question, limit_s)

        return asyncio.run_coroutine_threadsafe(limited(), self.loop).result()

    def close(self) -> None:
        """End the connection and the thread, whatever the scheduler does."""
        self._leave()


async def _open(address: str, lost_s: float, clients: list[Any]) -> None:
    client = distributed.Client(
        address, timeout=lost_s, asynchronous=True, set_as_default=False, direct_to_workers=False
    )
    clients.append(client)
    await client


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    with suppress(Exception):
        loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_S))
    loop.close()


def _leave(loop: asyncio.AbstractEventLoop, thread: threading.Thread, clients: list[Any]) -> None:
    if threading.current_thread() is thread:  # the last reference was the loop's own
        threading.Thread(target=_leave, args=(loop, thread, clients), daemon=True).start()
        return

    async def close() -> None:
        for client in clients:
            with suppress(Exception):
                await asyncio.wait_for(client.close(), _CLOSE_S)
            client.status = "closed"  # else Dask closes it again, and waits for the scheduler

    with suppress(Exception):
        asyncio.run_coroutine_threadsafe(close(), loop).result(2 * _CLOSE_S)
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(loop.stop)
    thread.join(2 * _CLOSE_S)
