# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The keeper of a lab of booted nodes: process 1 of the lab's namespaces, parent of all its nodes.

Started by `lab up` as `unshare ... python -m l4sbench.testbeds.nodes.keeper ORDER.json`. When it ends, the
kernel ends every process of the lab and removes bridges and taps with the namespace, so nothing is left over.
It listens on a socket in the lab's run folder, for one request and one line of answer per connection:

    nodes               JSON: for every node, if it runs, and how it ended
    boot NODE           boot a node that has ended
    halt NODE           end a node at once, as when its power fails
    connect HOST PORT [SECONDS]
                        "ok" and, with it, a socket that is connected inside the lab's network
    stop                end the lab
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.testbeds.nodes.plan import BASTION, LabPlan
from l4sbench.testbeds.nodes.relay import relay_all
from l4sbench.text.models import Strict

if TYPE_CHECKING:
    from types import FrameType

SOCKET = "keeper"
RESTART = "./restart"
"""Program that a rebooting kernel starts: it closes the taps, which open only once, and boots again."""

GO = b"go\n"
"""Line that the keeper awaits on its standard input: its starter has stored its process id."""

_CONNECT_S = 10.0
_LINKS_S = 30.0
_SCHED_SETATTR = 314  # on x86-64, where the lab runs
_TURN_NS = 100_000


class LabOrder(Strict):
    """Instructions for the keeper.

    Attributes:
        plan: Nodes and bridges.
        kernel: The user-mode Linux program.
        run: Folder of the lab's sockets and of guest memory; one folder below it per node.
        consoles: Folder for one file per node with its console output.
        memory_mb: Memory of one node.
        bastion_fd: File descriptor of a socket that listens on the host and leads to the bastion's sshd.
        root: Kernel arguments about the root file system; None for the folders that `starting` furnishes.
    """

    plan: LabPlan
    kernel: Path
    run: Path
    consoles: Path
    memory_mb: int
    bastion_fd: int | None = None
    root: tuple[str, ...] | None = None


def boot_command(order: LabOrder, node: str) -> list[str]:
    """Return the command line of a node's kernel, to be started in the node's folder below `run`.

    It contains no path: blanks and commas would end one. A rebooting kernel starts the first word of its
    command line, which is therefore `RESTART` instead of the kernel.
    """
    here = "/proc/self/cwd"
    ports = next(plan for plan in order.plan.nodes if plan.name == node).ports
    furnished = ("rootfstype=hostfs", f"rootflags={here}/boot", "ro", "init=/init", f"LAB_DIR={here}")
    return [
        RESTART,
        *(furnished if order.root is None else order.root),
        f"mem={order.memory_mb}M",
        "con=null",
        "con0=null,fd:1",
        "seccomp=on",
        f"uml_dir={here}",
        "umid=kernel",
        *(
            # this machine's TCP sends ssh's frames to a node longer than a link's; frames of
            # networks between nodes are as long as the nodes make them
            f"vec{place}:transport=tap,ifname={port.tap},depth=64,mac={port.mac}{'' if place else ',gro=1'}"
            for place, port in enumerate(ports)
        ),
        "quiet",
        "panic=-1",
    ]


def ask_for_short_turns() -> None:
    """Request time slices of 0.1 ms from the scheduler, for this process and all it starts.

    A kernel forwards a packet in some microseconds, but only once it is scheduled. Since Linux 6.12 processes
    with short slices are scheduled sooner, without a larger share or a privilege: `sched_runtime` of
    sched_setattr(2) is the requested length in ns. Older kernels ignore it.
    """
    # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
    attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, os.nice(0), 0, _TURN_NS, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(_SCHED_SETATTR, 0, ctypes.create_string_buffer(attributes), 0)


class Keeper:
    """Process 1 of a lab: boots nodes, reaps them, and answers requests."""

    def __init__(self, order: LabOrder) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self._ended: dict[str, str] = {}

    def run(self) -> None:
        """Make the networks, boot all nodes, and answer requests until a `stop`.

        Raises:
            subprocess.SubprocessError: A network could not be made.
            OSError: Starting the kernel or opening the socket failed.
        """
        subprocess.run(
            ["ip", "-batch", "-"],
            input=self._order.plan.link_commands(),
            text=True,
            check=True,
            timeout=_LINKS_S,
        )
        for node in self._order.plan.nodes:
            self._boot(node.name)
        threading.Thread(target=self._reap, daemon=True).start()
        if self._order.bastion_fd is not None:
            address = next(node.address for node in self._order.plan.nodes if node.name == BASTION)
            serve = (self._order.bastion_fd, address)
            threading.Thread(target=relay_all, args=serve, daemon=True).start()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            folder = os.open(self._order.run, os.O_PATH)  # see connect.ask
            listener.bind(f"/proc/self/fd/{folder}/{SOCKET}.partial")
            listener.listen(64)
            (self._order.run / f"{SOCKET}.partial").rename(self._order.run / SOCKET)
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _boot(self, node: str) -> None:
        folder = self._order.run / node
        for name in ("kernel/pid", "kernel/mconsole"):
            (folder / name).unlink(missing_ok=True)
        with (self._order.consoles / f"{node}.log").open("ab") as console, self._lock:
            process = subprocess.Popen(
                boot_command(self._order, node),
                executable=self._order.kernel,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                # user-mode Linux keeps the guest's memory below TMPDIR
                env={"TMPDIR": str(folder), "HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
            )
            self._running[node] = process.pid
            self._ended.pop(node, None)
            process.returncode = 0  # `_reap` waits for it, and for orphans, which only process 1 gets

    def _reap(self) -> None:
        more = threading.Event()
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                more.wait(0.5)
                continue
            with self._lock:
                for node in [name for name, running in self._running.items() if running == pid]:
                    del self._running[node]
                    code = os.waitstatus_to_exitcode(status)
                    self._ended[node] = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
                    # the rest of its session are the processes of its programs
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(_CONNECT_S)
            words = client.makefile("r", encoding="utf-8").readline().split()
            match words:
                case ["nodes"]:
                    client.sendall(f"{json.dumps(self._nodes())}\n".encode())
                case ["boot", node] if any(plan.name == node for plan in self._order.plan.nodes):
                    client.sendall(f"{self._boot_again(node)}\n".encode())
                case ["halt", node] if any(plan.name == node for plan in self._order.plan.nodes):
                    self._halt(node)
                    client.sendall(b"ok\n")
                case ["connect", host, port] if port.isdecimal():
                    self._connect(client, host, int(port), _CONNECT_S)
                case ["connect", host, port, seconds] if port.isdecimal() and seconds.isdecimal():
                    self._connect(client, host, int(port), int(seconds))
                case ["stop"]:
                    client.sendall(b"ok\n")
                    os._exit(0)  # the kernel ends all others
                case _:
                    client.sendall(b"no such request\n")

    def _nodes(self) -> dict[str, dict[str, str | bool]]:
        with self._lock:
            return {
                plan.name: {"running": plan.name in self._running, "ended": self._ended.get(plan.name, "")}
                for plan in self._order.plan.nodes
            }

    def _boot_again(self, node: str) -> str:
        if node in self._running:
            return "it runs"
        try:
            self._boot(node)
        except OSError as error:
            return str(error)
        return "ok"

    def _halt(self, node: str) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):
            if node in self._running:
                os.killpg(self._running[node], signal.SIGKILL)

    def _connect(self, client: socket.socket, host: str, port: int, limit_s: float) -> None:
        try:
            with socket.create_connection((host, port), timeout=limit_s) as connection:
                connection.setblocking(True)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                socket.send_fds(client, [b"ok\n"], [connection.fileno()])
        except OSError as error:
            client.sendall(f"{error}\n".encode())


def main() -> None:
    """Keep a lab until a `stop` request or a signal."""
    if sys.stdin.buffer.readline() != GO:
        return

    def end(_signal: int, _frame: FrameType | None) -> None:
        os._exit(0)

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)  # process 1 of a namespace ignores signals without a handler
    ask_for_short_turns()
    Keeper(LabOrder.model_validate_json(Path(sys.argv[1]).read_bytes())).run()


if __name__ == "__main__":
    main()
