# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Secrets of an account stay in its own files: tokens and passphrases are in nothing that anything leaves.

The stand-in quotes each request that it refuses, with its headers, and further secrets, in its errors.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fablib_slices.redaction import learn, redacted
from fablib_slices.slices import Slices
from l4sbench.errors import TestbedError
from l4sbench.store.bundle import write_bundle
from l4sbench.testbeds.fabric import keeping
from tests.fabric.account import environment, l4sbench, may_serve, write_certificate
from tests.fabric.conftest import StandIn
from tests.fabric.test_testbed import Hosts, Sweep, sweep
from tests.patience import PATIENCE_S

__all__ = ["sweep"]  # a fixture of theirs

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own

HOST = f"127.79.{os.getpid() % 250}.1"
REFRESH = "NB2HI4DTHIXS6Y3JNRXWO33OFZXXEZZPN5QXK5DIGI"
PASSPHRASES = {
    "FABRIC_BASTION_KEY_PASSPHRASE": "planted horse",
    "FABRIC_SLICE_PRIVATE_KEY_PASSPHRASE": "planted battery",
}
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----"


@pytest.fixture
def account(tmp_path: Path) -> Iterator[tuple[StandIn, Mapping[str, str]]]:
    """A user's account, of which every secret is planted, and the stand-in."""
    if not may_serve():
        pytest.skip("port 443, which fablib requires, is root's here")
    certificate, key = write_certificate(tmp_path, HOST)
    served = StandIn("--host", HOST, "--port", "443", "--tls", str(certificate), str(key))
    os.environ["SSL_CERT_FILE"] = str(certificate)  # for the tests' own requests
    for name in ("slice_key", "bastion_key"):
        command = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
    bastion = ("tester_0000000000", tmp_path / "bastion_key")
    own = environment(served, HOST, certificate, tmp_path, bastion=bastion, key=tmp_path / "slice_key")
    token = json.loads(Path(own["FABRIC_TOKEN_LOCATION"]).read_text())
    Path(own["FABRIC_TOKEN_LOCATION"]).write_text(json.dumps({**token, "refresh_token": REFRESH}))
    folders = {
        "TMPDIR": str(tmp_path / "tmp"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "FABRIC_LOG_FILE": str(tmp_path / "home" / "fablib.log"),
    }
    (tmp_path / "tmp").mkdir()
    yield served, {**own, **PASSPHRASES, **folders}
    del os.environ["SSL_CERT_FILE"]
    served.close()


def found_in(text: str, secrets: Mapping[str, str]) -> list[str]:
    return [name for name, secret in secrets.items() if secret in text]


def secrets_of(account: Mapping[str, str]) -> dict[str, str]:
    """Return every secret, by what it is: keys by their second line."""
    folder = Path(account["FABRIC_TOKEN_LOCATION"]).parent
    keys = {name: (folder / name).read_text().splitlines()[1] for name in ("slice_key", "bastion_key")}
    token = json.loads(Path(account["FABRIC_TOKEN_LOCATION"]).read_text())
    planted = {"key in an error": KEY.splitlines()[1], "refresh token": REFRESH}
    return {**PASSPHRASES, **keys, **planted, "id token": token["id_token"].rsplit(".", 1)[0]}


def left_in(folder: Path, secrets: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the files below a folder that contain secrets, but for those that are there to hold them."""
    own = {"token.json", "slice_key", "bastion_key", "key.pem"}
    found = {
        str(path.relative_to(folder)): found_in(path.read_bytes().decode("latin-1"), secrets)
        for path in folder.rglob("*")
        if path.is_file() and path.name not in own
    }
    return {path: names for path, names in found.items() if names}


@pytest.mark.long
def test_no_command_shows_or_keeps_a_secret(
    account: tuple[StandIn, Mapping[str, str]], tmp_path: Path
) -> None:
    standin, own = account
    secrets = secrets_of(own)
    echo = f"{' '.join(PASSPHRASES.values())} {REFRESH} {KEY}"
    asked: list[tuple[dict[str, object], int, tuple[str, ...]]] = [
        ({}, 0, ("slice", "up", "mine")),
        ({"create_refused": 99}, 3, ("slice", "up", "other")),
        ({"sliver_fails": {"router": echo}}, 3, ("slice", "up", "broken")),
        ({"renew_refused": 99}, 3, ("slice", "renew", "mine", "--hours", "48")),
        ({"token_expired": True}, 3, ("slice", "status", "mine")),
        ({"token_expired": True, "refresh_refused": True}, 3, ("run", "quickstart", "--on", "fabric:mine")),
        ({}, 3, ("run", "quickstart", "--on", "fabric:mine")),  # there is no bastion
    ]
    said = ""
    for faults, code, command in asked:
        standin.faults(**faults, echo=echo, refresh_token=REFRESH)
        ended = l4sbench(own, *command)
        assert ended.returncode == code, ended.stderr
        assert not found_in(ended.stdout + ended.stderr, secrets), ended.stderr
        said += ended.stderr
    assert said.count("Authorization: Bearer [removed]") >= 3
    secrets |= {"later id token": secrets_of(own)["id token"]}
    assert left_in(tmp_path, secrets) == {}


class Renewing(Hosts):
    """Hosts on which every trial meets a bug of ours while an error of FABRIC is handled."""

    account: Slices | None = None

    def run(self, *_: object) -> None:  # type: ignore[override]
        assert self.account is not None
        try:
            self.account.renew(self.slice_name, 900)
        except TestbedError as error:
            raise KeyError("a bug") from error


@pytest.mark.lab
def test_no_run_keeps_a_secret(
    sweep: Sweep, standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its events, nor the traceback of a bug, nor its bundle."""
    token = sweep.slices._manager.get_id_token()
    secrets = {"id token": token, "key": KEY.splitlines()[1]}
    monkeypatch.setattr(Renewing, "account", sweep.slices)
    monkeypatch.setattr(keeping, "WATCH_S", 0.2)
    sweep.kind = Renewing
    standin.faults(renew_refused=99, echo=KEY)
    with pytest.raises(KeyError, match="a bug") as bug:
        sweep.go()
    (kept,) = sweep.run.path.glob("cells/*/*/raw/traceback.txt")
    for text in (kept.read_text(), "".join(traceback.format_exception(bug.value))):
        assert "Policy Violation: project lease limit" in text
        assert not found_in(text, secrets)
    assert not found_in(f"{sweep.states} {sweep.events}", secrets)
    packed = tmp_path / "packed.tar.gz"
    write_bundle(sweep.run.path, packed)
    with tarfile.open(packed) as bundle:
        bundle.extractall(tmp_path / "bundle", filter="data")
    assert list((tmp_path / "bundle").rglob("traceback.txt"))
    assert left_in(tmp_path, secrets) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Provided token is not valid: Signature has expired", None),
        ("Policy Violation: your project lacks the tag VM.NoLimit", None),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [removed]"),
        ('{"refresh_token": "x y", "a": 1}', '{"refresh_token": [removed] y", "a": 1}'),
        ("refresh_token=abc&b=1", "refresh_token=[removed]&b=1"),
        ("x eyJhbGciOiJub25lIn0.eyJlcG9jaCI6MH0.x y", "x [removed] y"),
        (f"a {KEY} b", "a [removed] b"),
        (KEY[:50], "[removed]"),
        ("learnt%2Fsecret learnt/secret", "[removed] [removed]"),
    ],
)
def test_forms_of_secrets(text: str, expected: str | None) -> None:
    learn("learnt/secret")
    assert redacted(text) == (expected or text)
