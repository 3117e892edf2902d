# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""An ssh server on loopback for one test: prints its port, ends with its standard input.

The folder that is its argument gets the key that it lets in.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

if TYPE_CHECKING:
    from asyncssh import SSHServerProcess


async def serve(process: SSHServerProcess[str]) -> None:
    """Run a command as sshd would, with its output and its end."""
    words = ["sh", "-c", process.command or ":"]
    inner = await asyncio.create_subprocess_exec(*words, stdin=-1, stdout=-1, stderr=-1, cwd="/")
    await process.redirect(stdin=inner.stdin, stdout=inner.stdout, stderr=inner.stderr)
    try:
        process.exit(await inner.wait())
    finally:
        if inner.returncode is None:
            inner.kill()


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
