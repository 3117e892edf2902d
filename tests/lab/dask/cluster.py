# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A Dask cluster of processes on this machine, whose workers have caches of their own, and runs on it."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.patience import PATIENCE_S

ENDED = re.compile(r"\[\d+/\d+.*\] (ok|invalid|failed) ")


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: Callable[[], object], message: str) -> None:
    """Wait until `what` returns something true."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, message
        time.sleep(0.1)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process as `kill -9` does."""
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=PATIENCE_S)


@dataclass
class Worker:
    """A worker process, and its folder: cache, local directory, log."""

    folder: Path
    process: subprocess.Popen[bytes]

    def guests(self) -> list[int]:
        """Return the processes of guests that it runs."""
        found = []
        for link in Path("/proc").glob("[0-9]*/exe"):
            with suppress(OSError):
                if link.readlink().is_relative_to(self.folder):
                    found.append(int(link.parent.name))
        return found

    def labs(self) -> list[Path]:
        """Return the labs in its cache."""
        return [*self.folder.glob("cache/l4sbench/carried/*")]


@dataclass
class Cluster:
    """A scheduler and workers; all end with the `with` block that made it."""

    home: Path
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The scheduler's."""
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def marker(self) -> Path:
        """File with the ids of processes that executed what a hostile worker sent."""
        return self.home / "marker"

    def wait_for_worker(self, name: str) -> None:
        """Wait until a worker has registered."""
        log = self.home / f"{name}.log"
        wait_for(lambda: "Registered" in log.read_text(), f"no worker {name}")

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """Start a scheduler and wait until it answers."""
        module = "distributed.cli.dask_scheduler"
        scheduler = self._start([module, "--host", "127.0.0.1", "--port", str(self.port)], "scheduler", {})
        wait_for(self._answers, f"the scheduler does not answer: {self.home}/scheduler.log")
        return scheduler

    def _answers(self) -> bool:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S).close()
            return True
        return False

    def start_worker(
        self, name: str, wrapper: Sequence[str] = (), local: str = "", attack: str = ""
    ) -> Worker:
        """Start a worker for one guest at a time; with `attack` one as `hostile` makes it."""
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        options = ["--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", "--name", name]
        options += ["--local-directory", local or str(folder / "local"), self.address]
        environment = {"XDG_CACHE_HOME": str(folder / "cache")}
        if attack:
            options += ["--preload", str(Path(__file__).with_name("hostile.py"))]
            environment |= {"L4SBENCH_HOSTILE": attack, "L4SBENCH_MARKER": str(self.marker)}
        module = "distributed.cli.dask_worker"
        return Worker(folder, self._start([module, *options], name, environment, wrapper))

    def _start(
        self, words: Sequence[str], name: str, environment: dict[str, str], wrapper: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        with (self.home / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*wrapper, sys.executable, "-W", "ignore", "-m", *words, "--no-dashboard"],
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process


@contextmanager
def cluster(home: Path) -> Iterator[Cluster]:
    """Yield a cluster with a scheduler and no worker."""
    home.mkdir(parents=True, exist_ok=True)
    made = Cluster(home)
    try:
        made.start_scheduler()
        yield made
    finally:
        for process in made.processes:
            if process.poll() is None:
                kill(process)
        # 30 MB per worker, packed
        for cache in home.glob("*/cache"):
            shutil.rmtree(cache, ignore_errors=True)


class Command:
    """A `l4sbench run` whose lines are read as they come."""

    def __init__(self, matrix: Path, runs: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "l4sbench", "run", str(matrix), "--dir", str(runs), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._came: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self._came.put(line.decode(errors="replace"))
        self._came.put(None)

    def wait_for_trial(self) -> None:
        """Wait until a trial has ended."""
        while (line := self._came.get(timeout=PATIENCE_S)) is not None:
            self.lines.append(line)
            if ENDED.match(line):
                return
        raise AssertionError("".join(self.lines))

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        while (line := self._came.get(timeout=PATIENCE_S)) is not None:
            self.lines.append(line)
        return self.process.wait(timeout=PATIENCE_S)

    @property
    def text(self) -> str:
        """All that it reported so far."""
        return "".join(self.lines)


class StallingProxy:
    """A TCP proxy in front of a port, which can stall: connections stay, and nothing passes."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flows = threading.Event()
        self._flows.set()
        self._stack = ExitStack()
        self._server = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for source, sink in ((near, far), (far, near)):
                    self._stack.callback(source.close)
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def stall(self, seconds: float) -> None:
        """Let nothing pass for a time."""
        self._flows.clear()
        time.sleep(seconds)
        self._flows.set()

    def close(self) -> None:
        """End all connections."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._stack.close()
