# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""ssh's ProxyCommand for nodes of the local lab: `connect.py SOCKET HOST PORT`.

The lab's keeper opens the connection inside the lab's network namespace and passes the socket, which this
program passes on to ssh (ProxyUseFdpass) before it ends. The session itself does not go through it.
Standard library only: it starts with every connection.
"""

import os
import socket
import sys
from pathlib import Path

_TIMEOUT_S = 20.0


def ask(path: str, request: str) -> tuple[str, list[int]]:
    """Send the keeper one request, and return its answer and the file descriptors with it.

    Raises:
        OSError: There is no keeper, or it does not answer in time.
    """
    folder = os.open(Path(path).parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as keeper:
            keeper.settimeout(_TIMEOUT_S)
            # a socket's address holds 107 bytes, and a path may be longer
            keeper.connect(f"/proc/self/fd/{folder}/{Path(path).name}")
            keeper.sendall(f"{request}\n".encode())
            answer, descriptors = bytearray(), list[int]()
            while not answer.endswith(b"\n"):
                data, got, _, _ = socket.recv_fds(keeper, 65536, 1)
                answer += data
                descriptors += got
                if not data:
                    break
            return answer.decode().rstrip("\n"), descriptors
    finally:
        os.close(folder)


def main() -> int:
    """Pass a connection to ssh; return 1 and print the reason when there is none."""
    path, host, port = sys.argv[1:]
    try:
        answer, descriptors = ask(path, f"connect {host} {port}")
    except OSError as error:
        sys.stderr.write(f"the lab's nodes are not up ({error}): l4sbench lab up\n")
        return 1
    if not descriptors:
        sys.stderr.write(f"no connection to {host} port {port}: {answer}\n")
        return 1
    with socket.socket(fileno=1) as ssh:
        socket.send_fds(ssh, [b"\0"], descriptors)
    return 0


if __name__ == "__main__":
    sys.exit(main())
