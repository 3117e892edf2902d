# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Keys that machines get, as ssh-keygen makes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fablib_slices.access import Access
from l4sbench.errors import TestbedError
from tests.patience import PATIENCE_S


def access(key: Path) -> Access:
    return Access("bastion.example.org", "tester", key, key, Path(f"{key}.pub"))


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_a_key_that_fabric_takes(tmp_path: Path, kind: str) -> None:
    key = tmp_path / "key"
    command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(key)]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    assert access(key).public_key() == Path(f"{key}.pub").read_text().strip()


def test_a_key_that_it_does_not_take_is_told_before_it_is_sent(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=PATIENCE_S
    )
    with pytest.raises(
        TestbedError, match=r"key.pub is ssh-ed25519; FABRIC accepts RSA and ECDSA.*create_sliver_keys"
    ):
        access(key).public_key()
    with pytest.raises(TestbedError, match=r"cannot read the slice key: .*none.pub"):
        access(tmp_path / "none").public_key()
    Path(f"{key}.pub").write_text("")
    with pytest.raises(TestbedError, match=r"is empty"):
        access(key).public_key()


@pytest.mark.parametrize(
    ("passphrase", "mode", "said"),
    [
        ("", 0o644, "bad permissions; only you may read it: chmod 600 "),
        (
            "a secret",
            0o600,
            "incorrect passphrase.*; a run cannot ask for a passphrase: .* ssh-keygen -p -f ",
        ),
    ],
)
def test_a_key_that_ssh_would_ignore_is_told_before_any_login(
    tmp_path: Path, passphrase: str, mode: int, said: str
) -> None:
    key = tmp_path / "key"
    command = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", passphrase, "-f", str(key)]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    key.chmod(mode)
    with pytest.raises(TestbedError, match=f"ssh cannot use the bastion key: .*{said}{key}"):
        access(key).check(tmp_path / "known_hosts")
