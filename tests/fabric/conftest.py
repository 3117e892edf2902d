# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A stand-in orchestrator in its own process, and slices that talk to it by real HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fablib_slices import Access, Slices
from tests.lab.conftest import lab
from tests.patience import PATIENCE_S

__all__ = ["lab"]  # a fixture of theirs

STANDIN = Path(__file__).with_name("standin.py")


def matrix_text(name: str, *queues: str, rate: str = "25mbit", duration: str = "10s") -> str:
    """Return a matrix file: Prague and Cubic, one trial for each queue."""
    return f"""\
matrix: {name}
topology: line6
rate: {rate}
rtt: 10ms
duration: {duration}
trials: 1
rule: pam25
flows:
  l4s: {{cc: prague}}
  classic: {{cc: cubic}}
axes:
  aqm: [{", ".join(queues)}]
"""


class StandIn:
    """The stand-in's process, its faults and the requests to it."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(STANDIN), *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.wait(PATIENCE_S)
            raise RuntimeError(f"the stand-in ended with {self.process.returncode}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def call(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data=data, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def faults(self, **faults: object) -> None:
        self.call("/_faults", faults)

    def creates(self) -> int:
        return self.calls("/slices/creates")

    def calls(self, path: str) -> int:
        """Return the number of requests for a path."""
        return sum(call[1] == path for call in self.call("/_state")["calls"])

    def slices(self) -> Mapping[str, str]:
        """Return the state of every slice that ever existed, by id."""
        return {own: one["state"] for own, one in self.call("/_state")["slices"].items()}

    def alive_names(self) -> list[str]:
        """Return the names of slices whose machines exist."""
        found = self.call("/_state")["slices"].values()
        return [one["name"] for one in found if one["state"] in {"StableOK", "Configuring"}]

    def alive(self, name: str) -> bool:
        """Return True if machines of a slice of this name exist."""
        return name in self.alive_names()

    def lease_s(self, name: str) -> float:
        """Return the remaining lease of the newest slice of this name."""
        found = [one for one in self.call("/_state")["slices"].values() if one["name"] == name]
        return (datetime.fromisoformat(found[-1]["lease_end"]) - datetime.now(UTC)).total_seconds()

    def renewals(self) -> int:
        """Return the number of granted renewals."""
        calls = self.call("/_state")["calls"]
        return sum("/renew/" in path and status == 200 for _, path, status in calls)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary home directory, in which fablib makes folders when it is imported."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def _standin() -> Iterator[StandIn]:
    standin = StandIn()
    yield standin
    standin.close()


@pytest.fixture
def standin(_standin: StandIn) -> StandIn:
    """Return the stand-in without faults; slices of other tests have other names."""
    _standin.faults()
    return _standin


@pytest.fixture
def access(tmp_path: Path) -> Access:
    key = tmp_path / "slice_key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(key)], check=True, timeout=PATIENCE_S
    )
    return Access("bastion.example.org", "tester_0000000000", key, key, key.with_suffix(".pub"))


def manager_of(standin: StandIn) -> Any:
    """Return fablib's client for the stand-in, with a fresh token."""
    from fabrictestbed.fabric_manager_v2 import FabricManagerV2

    told = standin.call("/_token")
    return FabricManagerV2(
        credmgr_host=standin.url,
        orchestrator_host=standin.url,
        core_api_host=standin.url,
        id_token=told["token"],
        project_id=told["project"],
        auto_refresh=False,
        no_write=True,
    )


@pytest.fixture
def slices(standin: StandIn, access: Access) -> Slices:
    """Return the account's slices at the stand-in."""
    return Slices(manager_of(standin), access, standin.call("/_token")["project"])
