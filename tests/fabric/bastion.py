# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One ssh bastion before the machines of several labs, which all have the same addresses of their own.

It only lets through: what is asked for at an address that the stand-in handed out goes to a lab's node.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import paramiko  # type: ignore[import-untyped]

from l4sbench.testbeds.nodes.connect import ask


@dataclass(frozen=True)
class Way:
    """A machine's place: the socket of its lab's keeper, and its address in that lab."""

    keeper: Path
    address: str


class _Gate(paramiko.ServerInterface):  # type: ignore[misc]  # the library has no types
    """One client, and its requests for machines."""

    def __init__(self, ways: Mapping[str, Way], key: paramiko.PKey) -> None:
        self._ways = ways
        self._key = key
        self.opened: dict[int, socket.socket] = {}

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = key.get_base64() == self._key.get_base64()
        return int(paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED)

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        way = self._ways.get(destination[0])
        descriptors: list[int] = []
        if way is not None:
            with suppress(OSError):
                _, descriptors = ask(str(way.keeper), f"connect {way.address} {destination[1]}")
        if not descriptors:
            return int(paramiko.OPEN_FAILED_CONNECT_FAILED)
        self.opened[chanid] = socket.socket(fileno=descriptors[0])
        return int(paramiko.OPEN_SUCCEEDED)


@contextmanager
def bastion(host: str, key: Path, ways: Mapping[str, Way]) -> Iterator[None]:
    """A bastion on port 22 of `host` for who has `key`; address that was handed out -> where that is."""
    own = paramiko.ECDSAKey.generate()
    theirs = paramiko.ECDSAKey.from_private_key_file(str(key))
    with socket.create_server((host, 22), backlog=64) as listener:

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_serve, args=(client, own, theirs, ways), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def _serve(client: socket.socket, own: paramiko.PKey, theirs: paramiko.PKey, ways: Mapping[str, Way]) -> None:
    with suppress(paramiko.SSHException, EOFError, OSError), paramiko.Transport(client) as transport:
        transport.add_server_key(own)
        gate = _Gate(ways, theirs)
        transport.start_server(server=gate)
        while transport.is_active():
            channel = transport.accept(5)
            if channel is not None:
                machine = gate.opened.pop(channel.get_id())
                threading.Thread(target=_carry, args=(channel.recv, machine.sendall), daemon=True).start()
                threading.Thread(target=_back, args=(machine, channel, transport), daemon=True).start()


def _carry(read: Callable[[int], bytes], write: Callable[[bytes], object]) -> None:
    with suppress(OSError):
        while data := read(65536):
            write(data)


def _back(machine: socket.socket, channel: paramiko.Channel, transport: paramiko.Transport) -> None:
    """Relay a machine's output; the client's connection ends with the machine's."""
    with machine:
        _carry(machine.recv, channel.sendall)
    transport.close()
