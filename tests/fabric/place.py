# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A place like FABRIC: the stand-in orchestrator by TLS, machines that boot, and a bastion before them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from l4sbench.errors import TestbedError
from l4sbench.testbeds import nodes
from l4sbench.testbeds.nodes.checks import node_checks
from l4sbench.testbeds.virtual.lab import Lab
from tests.fabric.account import environment, l4sbench, may_serve, write_certificate
from tests.fabric.conftest import StandIn
from tests.lab.nodes import hosts
from tests.patience import PATIENCE_S


def require_nodes() -> None:
    """Skip where nothing can boot, or port 443, which fablib insists on, is root's."""
    try:
        Lab.locate()
    except TestbedError as error:
        pytest.skip(str(error))
    missing = [check for check in node_checks() if not check.ok]
    if missing or not may_serve():
        pytest.skip("; ".join(f"{check.name}: {check.detail}" for check in missing) or "port 443 is root's")


def machines_of(lab: nodes.NodesStatus) -> dict[str, dict[str, Any]]:
    """Return a lab's nodes as the stand-in hands them out."""
    assert lab.inventory is not None
    listed = YAML(typ="safe").load(lab.inventory)["all"]["children"]["nodes"]["hosts"]
    return {
        node.name: {"address": node.address, "ports": dict(listed[node.name]["l4sbench_ports"])}
        for node in lab.nodes
        if node.name in listed
    }


@dataclass
class Place:
    """The stand-in, a user's account there, and the labs whose nodes are the machines."""

    standin: StandIn
    account: Mapping[str, str]
    host: str

    @property
    def home(self) -> Path:
        """The working directory of commands."""
        return Path(self.account["HOME"])

    def l4sbench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return l4sbench(self.account, *arguments)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Command]:
        """Start a command, and end it afterwards."""
        log = self.home / "command.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "l4sbench", *arguments],
                stdin=subprocess.DEVNULL,
                env=dict(self.account),
                cwd=self.home,
                stdout=out,
                stderr=out,
            )
        try:
            yield Command(process, log)
        finally:
            process.kill()
            process.wait(PATIENCE_S)

    def trials(self, matrix: str) -> dict[str, tuple[str, int]]:
        """Return every ended trial of the latest run: its status, and the time of its file."""
        found = sorted((self.home / "runs" / matrix / "latest" / "cells").glob("*/*/trial.json"))
        return {
            f"{path.parent.parent.name}/{path.parent.name}": (
                json.loads(path.read_text())["status"],
                path.stat().st_mtime_ns,
            )
            for path in found
            if not path.parent.name.endswith(".partial")
        }

    def drop_connections(self) -> int:
        """End every connection through the bastion, and return their number."""
        ended = 0
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"ssh" and b"-W" in words and words[-2].endswith(f"@{self.host}".encode()):
                os.kill(int(process.name), signal.SIGKILL)
                ended += 1
        return ended


@dataclass
class Command:
    """A running command, and its output."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """Its output so far, on stdout and stderr."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self) -> int:
        """Return its exit code, once it has ended."""
        return self.process.wait(PATIENCE_S)

    def wait_until(self, what: Callable[[], bool]) -> None:
        """Wait until a condition is true; the command must not end before."""
        ends = time.monotonic() + PATIENCE_S
        while not what():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < ends, self.said
            time.sleep(0.3)


def flows_on(lab: nodes.NodesStatus) -> bool:
    """Return True if a trial is in the middle of its flows."""
    return hosts.on(lab, "tx-l4s", "pgrep -c iperf3 || true", check=False).strip() not in {"", "0"}


def power_off(lab: nodes.NodesStatus) -> None:
    """End all machines at once; a bastion stays."""
    for node in lab.nodes:
        if node.name != "bastion":
            nodes.halt(lab.name, node.name)


def made_anew(lab: nodes.NodesStatus) -> nodes.NodesStatus:
    """Boot other machines at the same addresses: empty, and with new host keys."""
    nodes.down(lab.name)
    for key in (lab.folder / "host-keys").iterdir():
        if not key.name.startswith("bastion"):
            key.unlink()
    return nodes.up("line6", name=lab.name, bastion=lab.bastion)


@contextmanager
def one_lab(name: str, host: str) -> Iterator[nodes.NodesStatus]:
    """Boot a lab whose bastion is at this address; skip if that is not possible."""
    require_nodes()
    with hosts.booted(name, bastion=(host, 22)) as state:
        yield state


@contextmanager
def place_of(lab: nodes.NodesStatus, host: str, folder: Path) -> Iterator[Place]:
    """Start the stand-in at the address of a lab's bastion; its machines are the lab's nodes."""
    bastion, machine = lab.folder / "id_bastion", lab.folder / "id_ecdsa"
    with place(host, folder, machines_of(lab), bastion, machine) as found:
        yield found


@contextmanager
def place(host: str, folder: Path, machines: object, bastion_key: Path, machine_key: Path) -> Iterator[Place]:
    """Start the stand-in at an address whose port 22 is the bastion's.

    Args:
        host: The address.
        folder: Where the account's home, token and certificate go.
        machines: As the stand-in takes it.
        bastion_key: Private key for the bastion.
        machine_key: Private key for the machines.
    """
    listed = folder / "machines.json"
    listed.write_text(json.dumps(machines))
    certificate, key = write_certificate(folder, host)
    served = ("--host", host, "--port", "443", "--tls", str(certificate), str(key))
    os.environ["SSL_CERT_FILE"] = str(certificate)  # for the tests' own questions
    standin = StandIn(*served, "--machines", str(listed))
    try:
        bastion = ("debian", bastion_key)
        account = environment(standin, host, certificate, folder, bastion=bastion, key=machine_key)
        yield Place(standin, account, host)
    finally:
        del os.environ["SSL_CERT_FILE"]
        standin.close()
