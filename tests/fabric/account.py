# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""An account as a user has one: fablib's own configuration by its environment, TLS, a token file."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.fabric.conftest import StandIn
from tests.patience import ran

ROOT = Path(__file__).parents[2]


"""Time limit of a command, on a machine that is busy with other work."""


def l4sbench(account: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in the account's home."""
    return ran([sys.executable, "-m", "l4sbench", *arguments], cwd=account["HOME"], env=dict(account))


IMAGES = {
    name: {"description": name, "default_user": user}
    for name, user in {
        "default_debian_12": "debian",
        "default_debian_13": "debian",
        "default_ubuntu_22": "ubuntu",
        "default_ubuntu_24": "ubuntu",
    }.items()
}
"""Images that FABRIC offers; fablib's own table lacks default_debian_13."""


def write_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """Make a certificate for an address, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, private


def may_serve() -> bool:
    """Return True if this process may use port 443, which fablib requires."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    return os.geteuid() == 0 or lowest <= 443


def environment(
    standin: StandIn, host: str, certificate: Path, folder: Path, *, bastion: tuple[str, Path], key: Path
) -> Mapping[str, str]:
    """Return the environment of a user with an account at the stand-in.

    Args:
        standin: What answers for FABRIC.
        host: Its address.
        certificate: Its certificate.
        folder: Where token file, home and state go.
        bastion: Login at the bastion, and the key to it.
        key: Private key of the machines; its public one stands beside it.
    """
    told = standin.call("/_token")
    expires = (datetime.now(UTC) + timedelta(hours=4)).strftime("%Y-%m-%d %H:%M:%S %z")
    token = folder / "token.json"
    token.write_text(
        json.dumps({"id_token": told["token"], "refresh_token": "refresh", "expires_at": expires})
    )
    home = folder / "home"
    images = home / ".fabric" / "cache" / "os_images.json"  # as fablib keeps FABRIC's list for a day
    images.parent.mkdir(parents=True, exist_ok=True)
    images.write_text(json.dumps(IMAGES))
    return os.environ | {
        "HOME": str(home),
        "XDG_STATE_HOME": str(folder / "state"),
        "REQUESTS_CA_BUNDLE": str(certificate),
        **{f"FABRIC_{name}_HOST": host for name in ("CREDMGR", "ORCHESTRATOR", "CORE_API", "BASTION", "AM")},
        "FABRIC_TOKEN_LOCATION": str(token),
        "FABRIC_PROJECT_ID": told["project"],
        "FABRIC_BASTION_USERNAME": bastion[0],
        "FABRIC_BASTION_KEY_LOCATION": str(bastion[1]),
        "FABRIC_SLICE_PRIVATE_KEY_FILE": str(key),
        "FABRIC_SLICE_PUBLIC_KEY_FILE": f"{key}.pub",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
