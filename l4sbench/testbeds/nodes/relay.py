# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The relay to the bastion: from a socket of the host's network to one of the lab's.

A socket stays in the network namespace in which it was made: the keeper inherits the socket that listens on
the host, and makes the others itself.
"""

from __future__ import annotations

import contextlib
import socket
import threading

_CONNECT_S = 10.0
_SSH_PORT = 22
_CHUNK = 1 << 16


def relay_all(listening: int, address: str) -> None:
    """Relay every connection to a listening socket to the sshd at an address; does not return."""
    with socket.socket(fileno=listening) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_relay, args=(client, address), daemon=True).start()


def _relay(client: socket.socket, address: str) -> None:
    with (
        client,
        contextlib.suppress(OSError),
        socket.create_connection((address, _SSH_PORT), timeout=_CONNECT_S) as node,
    ):
        node.settimeout(None)
        for each in (client, node):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pump, args=(node, client), daemon=True)
        back.start()
        _pump(client, node)
        back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy data until one side ends, then shut down both."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
        return
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
