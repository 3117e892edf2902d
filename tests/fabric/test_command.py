# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The command, with fablib as a user has it: its own configuration, tokens and TLS, nothing replaced."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.fabric.account import ROOT, environment, l4sbench, may_serve, write_certificate
from tests.fabric.conftest import StandIn
from tests.patience import PATIENCE_S, ran

HOST = f"127.77.{os.getpid() % 250}.1"
"""fablib always talks to port 443, so that parallel test runs need addresses of their own."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StandIn, Path]]:
    if not may_serve():
        pytest.skip("port 443, which fablib insists on, is root's here")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = write_certificate(folder, HOST)
    standin = StandIn("--host", HOST, "--port", "443", "--tls", str(certificate), str(key))
    os.environ["SSL_CERT_FILE"] = str(certificate)  # for the tests' own questions
    yield standin, certificate
    del os.environ["SSL_CERT_FILE"]
    standin.close()


@pytest.fixture
def account(tls: tuple[StandIn, Path], tmp_path: Path) -> Mapping[str, str]:
    """Return the environment of a user with an account: token file, keys, bastion login."""
    standin, certificate = tls
    standin.faults()
    for name in ("slice_key", "bastion_key"):
        command = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
    bastion = ("tester_0000000000", tmp_path / "bastion_key")
    return environment(standin, HOST, certificate, tmp_path, bastion=bastion, key=tmp_path / "slice_key")


def command(account: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return l4sbench(account, "slice", *arguments)


def test_a_slice_from_plan_to_down(account: Mapping[str, str], tls: tuple[StandIn, Path]) -> None:
    planned = command(account, "plan", "rehearsal", "--cores", "2")
    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.startswith("slice rehearsal at TACC, 24 h")
    assert "machines at TACC have IPv6 addresses only" in planned.stderr
    avoiding = command(dict(account) | {"FABRIC_AVOID": "TACC,UCSD"}, "plan", "rehearsal", "--cores", "2")
    assert avoiding.stdout.startswith("slice rehearsal at STAR, 24 h"), avoiding.stderr
    assert "FABRIC makes machines of 4 cores, 16 GB memory and 100 GB disk for 2 cores" in planned.stderr

    made = command(account, "up", "rehearsal", "--cores", "2")
    assert made.returncode == 0, made.stderr
    inventory = Path(made.stdout.strip())
    assert inventory.is_file()
    assert "rehearsal: StableOK" in made.stderr
    # reserving works without a bastion, reaching machines does not
    assert "warning: the bastion refuses tester_0000000000@" in made.stderr
    listed = ran(
        [Path(sys.executable).with_name("ansible-inventory"), "-i", inventory, "--list"],
        env=dict(account),
        check=True,
    )
    hosts = json.loads(listed.stdout)["_meta"]["hostvars"]
    assert hosts["router"]["ansible_user"] == "debian"  # fablib's own table lacks the image
    assert sorted(hosts["router"]["l4sbench_ports"]) == ["net-mid", "net-rx"]
    kept = json.loads(inventory.with_name("slice.json").read_text())
    assert kept["spec"]["vms"][0]["cores"] == 2
    assert kept["versions"]["fabrictestbed-extensions"]

    state = command(account, "status", "rehearsal", "--json")
    assert json.loads(state.stdout)["state"] == "StableOK"

    assert "as when it was reserved" in command(account, "renew", "--help").stdout
    again = command(account, "renew", "rehearsal")
    assert again.returncode == 0, again.stderr
    assert re.search(", in (24 h 0|23 h 5.) min", again.stdout)
    renewed = command(account, "renew", "rehearsal", "--hours", "800")
    assert renewed.returncode != 0
    assert "leases beyond 14 days need the project tag Slice.NoLimitLifetime" in renewed.stderr

    slot = command(account, "when", "rehearsal", "--site", "STAR", "--hours", "12")
    assert re.match(r"STAR: from .* UTC, in (5 h|4 h 5).*, until ", slot.stdout), slot.stderr
    bundle = Path(account["HOME"], "bundle.tar.gz")
    bundle.write_bytes(b"\x1f\x8b")
    publish = ("publish", str(bundle), "--title", "L4S rehearsal")
    # the second file is another version of the same artifact
    first, second = command(account, *publish), command(account, *publish)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    (artifact,) = tls[0].call("/_state")["artifacts"]
    assert first.stdout.strip() == second.stdout.strip() == artifact["uuid"]
    assert [one["filename"] for one in artifact["versions"]] == ["bundle.tar.gz"] * 2

    recorded = command(account, "record", "rehearsal", "answers", "--no-machines")
    assert recorded.returncode == 0, recorded.stderr
    files = {path.name: path.read_text() for path in Path(account["HOME"], "answers").iterdir()}
    assert json.loads(files["list-slices.json"])[0]["state"] == "StableOK"
    assert "star-w1.fabric-testbed.net" in files["poa-cpuinfo.json"]
    everything = "".join(files.values())
    secrets = ("tester", "example.org", "rehearsal", "eyJ", account["FABRIC_PROJECT_ID"], "2001:db8::f")
    assert [secret for secret in secrets if secret in everything.replace("user-1@example.org", "")] == []

    assert command(account, "down", "rehearsal").returncode == 0
    again = command(account, "down", "rehearsal")
    assert (again.returncode, again.stderr) == (0, "slice rehearsal does not exist\n")
    assert command(account, "status", "rehearsal").returncode == 3


@pytest.mark.long
def test_slices_of_a_run_with_several_are_not_forgotten(
    account: Mapping[str, str], tls: tuple[StandIn, Path]
) -> None:
    for name in ("two-1", "two-2"):
        assert command(account, "up", name).returncode == 0
    told = command(account, "down", "two")
    assert told.returncode == 0
    assert told.stderr.splitlines() == [
        "slice two does not exist",
        "warning: two-1, two-2 still exist; delete with l4sbench slice down two-1 two-2",
    ]
    gone = command(account, "down", "two-1", "two-2")
    assert gone.stderr.splitlines() == ["deleted slice two-1", "deleted slice two-2"]
    assert not {"two-1", "two-2"} & set(tls[0].alive_names())


def test_without_an_account_the_error_says_what_to_do(account: Mapping[str, str], tmp_path: Path) -> None:
    told = command(dict(account) | {"FABRIC_TOKEN_LOCATION": str(tmp_path / "none.json")}, "status", "mine")
    assert told.returncode == 3
    assert "cannot use FABRIC" in told.stderr
    assert "token" in told.stderr
    assert "Traceback" not in told.stderr


TAKES_UP = """
import sys
from fablib_slices import Slices

slices = Slices.connect()
slices.find("nobody")
print("ready", flush=True)
sys.stdin.readline()
print(slices.find("nobody"), slices.token_expires(), flush=True)
"""


def test_a_new_token_in_its_file_is_taken_up_by_what_runs(
    account: Mapping[str, str], tls: tuple[StandIn, Path]
) -> None:
    standin, _ = tls
    with subprocess.Popen(
        [sys.executable, "-c", TAKES_UP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(account),
        cwd=account["HOME"],
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        standin.faults(epoch=1, refresh_refused=True)
        expires = "2099-01-01 00:00:00 +0000"
        new = {"id_token": standin.call("/_token")["token"], "expires_at": expires}
        Path(account["FABRIC_TOKEN_LOCATION"]).write_text(json.dumps(new))
        said, _ = process.communicate("\n", timeout=PATIENCE_S)
    assert process.returncode == 0
    assert said.startswith("None 20")


def test_a_bastion_that_lets_nobody_in_is_told_before_anything_is_reserved(
    account: Mapping[str, str], tls: tuple[StandIn, Path]
) -> None:
    before = tls[0].creates()
    lost = dict(account) | {"FABRIC_BASTION_KEY_LOCATION": "/nowhere/key"}
    for given, said in ((lost, "key /nowhere/key does not exist"), (account, "Connection refused")):
        told = l4sbench(given, "run", "quickstart", "--on", "fabric:nokey")
        assert told.returncode == 3
        assert told.stderr.count("error:") == 1
        assert said in told.stderr
    assert tls[0].creates() == before


def test_offline_needs_no_account(home: Path, tmp_path: Path) -> None:
    bare = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    graph = tmp_path / "slice.graphml"
    planned = command(bare, "plan", "rehearsal", "--offline", "--site", "STAR", "--graph", str(graph))
    assert planned.returncode == 0, planned.stderr
    assert "<graphml" in graph.read_text()[:400]
    assert planned.stdout.count("default_debian_13") == 6
    assert "default_debian_13 was not booted on FABRIC yet" in planned.stderr
    wrong = command(bare, "plan", "rehearsal", "--offline", "--image", "default_ubuntu_42")
    assert wrong.returncode == 2
    assert wrong.stderr.count("did you mean") == 1
    named = tmp_path / "slice.yaml"
    named.write_text("slice: planned\nswitch: {node: router, program: ncf}\n")
    switch = command(bare, "plan", str(named), "--offline")
    assert switch.returncode == 0, switch.stderr
    for given in (str(named), "planned"):  # options beside a file are checked like those beside a name
        told = command(bare, "plan", given, "--offline", "--kernel", "newest")
        assert (told.returncode, told.stderr.partition(";")[0]) == (
            2,
            'error: kernel: "newest" is not a valid kernel',
        )
    refused = l4sbench(bare, "run", "quickstart", "--on", f"fabric:{named}")
    assert refused.returncode == 2
    assert "there is no program for switches with the queue codel; choose from ncf" in refused.stderr
