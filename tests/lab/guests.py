# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Scripts for lab-init (docs/guest.md), written line by line, and their results."""

import json
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from l4sbench.testbeds.virtual.guest import Boot, Ended, run_guest
from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import PATIENCE_S

"""For guests that hang; the longest of a test takes some 6 s of CPU, which is minutes on a busy machine."""


def compiled(source: Path, folder: Path) -> Path:
    """Compile a program for the guest from one file in C; return it."""
    program = folder / source.stem
    gcc = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static"]
    subprocess.run([*gcc, "-o", program, source], check=True, timeout=PATIENCE_S)
    return program


class Script:
    """A script in the making; `files` are put beside it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.files: dict[str, str] = {}

    def line(self, *fields: object) -> int:
        """Add an instruction; returns its line number."""
        escaped = (str(f).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") for f in fields)
        self.lines.append("\t".join(escaped))
        return len(self.lines)

    def run(self, node: str, *argv: object, out: str = "-", limit_ms: int = 10_000) -> int:
        return self.line("run", node, limit_ms, "-", out, *argv)

    def batch(self, node: str, tool: str, *commands: str) -> int:
        name = f"batch-{len(self.files)}"
        self.files[name] = "".join(f"{command}\n" for command in commands)
        return self.line("run", node, 10_000, name, "-", tool, "-batch", "-")

    def pair(self, *, rate: str = "2mbit", queue: str = "bfifo limit 12000", ecn: int = 0) -> None:
        """Two nodes, `tx` 10.0.0.1 and `rx` 10.0.0.2, 20 ms apart; the queue is on the way to `rx`."""
        for node in ("tx", "mid", "rx"):
            self.line("netns", node)
        self.batch(
            "-",
            "ip",
            "link add left netns tx type veth peer name left netns mid",
            "link add right netns rx type veth peer name right netns mid",
        )
        self.batch("mid", "ip", "link add bridge type bridge", "link set bridge up")
        self.batch("mid", "ip", *(f"link set {port} master bridge up" for port in ("left", "right")))
        for number, (node, port) in enumerate((("tx", "left"), ("rx", "right")), start=1):
            self.line("sysctl", node, "net/ipv4/tcp_ecn", ecn)
            self.batch(node, "ip", f"link set {port} up", f"addr add 10.0.0.{number}/24 dev {port}")
            self.run(node, "ethtool", "-K", port, "tso", "off", "gso", "off", "gro", "off")
        self.batch("rx", "tc", "qdisc add dev right root netem delay 20ms limit 10000")
        self.batch(
            "mid",
            "tc",
            "qdisc add dev right root handle 1: htb default 3",
            f"class add dev right parent 1: classid 1:3 htb rate {rate}",
            f"qdisc add dev right parent 1:3 handle 3: {queue}",
        )


@dataclass(frozen=True)
class Outcome:
    """The files that a guest wrote."""

    folder: Path
    ended: Ended
    status: list[dict[str, Any]] = field(default_factory=list)

    @property
    def end(self) -> dict[str, Any]:
        assert self.status, (self.folder / "console.log").read_text()
        return self.status[-1]

    def of_line(self, number: int) -> dict[str, Any]:
        (found,) = [entry for entry in self.status if entry.get("line") == number]
        return found

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def samples(self, name: str) -> list[dict[str, Any]]:
        return [
            cast("dict[str, Any]", json.loads(line)) for line in (self.folder / name).read_text().splitlines()
        ]


def boot(
    lab: Lab, script: Script | None, folder: Path, *, seed: int = 1, programs: Sequence[Path] = ()
) -> Outcome:
    """Let a guest execute the script (or find none) in `folder`, which is made; `programs` are put there."""
    folder.mkdir()
    for program in programs:
        shutil.copy(program, folder)
    if script:
        for name, text in script.files.items():
            (folder / name).write_text(text)
        (folder / "script").write_text("".join(f"{line}\n" for line in script.lines))
    ended = run_guest(
        Boot(lab.kernel, lab.rootfs, folder, seed), folder / "console.log", PATIENCE_S, threading.Event()
    )
    status = folder / "status.jsonl"
    lines = status.read_text().splitlines() if status.exists() else []
    return Outcome(folder, ended, [json.loads(line) for line in lines])
