# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""An ssh server on loopback for one test: prints its port, ends with its standard input.

The folder that is its argument gets the key that it lets in.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

if TYPE_CHECKING:
    from asyncssh import SSHServerProcess, SSHWriter


async def serve(process: SSHServerProcess[str]) -> None:
    """Run a command as sshd would, with its output and its end.

    The output is passed on here: asyncssh's own `redirect` closes the connection if the command has
    ended before it began.
    """
    words = ["sh", "-c", process.command or ":"]
    inner = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd="/")
    try:
        await asyncio.gather(
            pass_on(inner.stdout, process.stdout),
            pass_on(inner.stderr, process.stderr),
        )
        process.exit(await inner.wait())
    finally:
        if inner.returncode is None:
            inner.kill()


async def pass_on(source: asyncio.StreamReader | None, sink: SSHWriter[str]) -> None:
    """Write to the other end what a command writes, until it closes its output."""
    assert source is not None
    while data := await source.read(1 << 16):
        sink.write(data.decode(errors="replace"))


async def main(home: Path) -> None:
    """Listen until the standard input ends."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(str(home / "key"))
    key.write_public_key(str(home / "authorized"))
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        authorized_client_keys=str(home / "authorized"),
        process_factory=serve,
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
