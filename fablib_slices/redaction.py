# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Secrets of a FABRIC account, which are kept out of everything that is shown or written.

FABRIC's errors may quote the request that failed. They pass through `redacted` before anything else gets
them, and the library's own exceptions are not chained to ours, as tracebacks would print them.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

REMOVED: Final = "[removed]"
"""Text in place of a secret."""

_SHORTEST: Final = 4
_SHORTEST_TOKEN: Final = 12
"""Characters of the shortest passphrase and token that are looked for; shorter ones occur in any text."""
_LONGEST: Final = 3000
"""Characters of an error that are kept."""

_FORMS: Final = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]*){1,4}"),  # a JSON Web Token (RFC 7519)
    re.compile(r"(\bbearer\s+)[^\s\"']+", re.IGNORECASE),
    re.compile(r"((?:_token|passphrase|password|_secret)[\"']*\s*[:=]\s*)[\"']*[^\s\"',;&}]+", re.IGNORECASE),
)
_SECRET_VARIABLE: Final = re.compile(r"(?:FABRIC|CILOGON)_\w*(?:PASSPHRASE|PASSWORD|TOKEN)")
_known: set[str] = set()


def learn(*secrets: object, shortest: int = _SHORTEST) -> None:
    """Remove these texts from now on, except for those that are too short; other values are ignored."""
    for secret in secrets:
        if isinstance(secret, str) and len(secret) >= shortest:
            _known.update((secret, quote(secret, safe=""), json.dumps(secret)[1:-1]))


def learn_account(fablib: Any) -> None:
    """Learn the secrets of an account: passphrases that fablib or the environment has, tokens in its file."""
    learn(fablib.get_bastion_key_passphrase(), fablib.get_default_slice_private_key_passphrase())
    learn(*(value for name, value in os.environ.items() if _SECRET_VARIABLE.fullmatch(name)))
    try:
        plain = json.loads(Path(fablib.get_token_location()).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return
    if isinstance(plain, dict):
        learn(*(value for key, value in plain.items() if "token" in key), shortest=_SHORTEST_TOKEN)


def learn_tokens(manager: Any) -> None:
    """Learn the tokens that a client of the orchestrator has now; each use may bring new ones."""
    learn(manager.get_id_token(), manager.get_refresh_token(), shortest=_SHORTEST_TOKEN)


def redacted(text: str) -> str:
    """Return a text without secrets, of a length that an error may have."""
    return without_secrets(text)[:_LONGEST]


def without_secrets(text: str) -> str:
    """Return a text without secrets: known ones, and what has the form of one."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, REMOVED)
    for form in _FORMS:
        text = form.sub(lambda found: f"{found[1] if found.re.groups else ''}{REMOVED}", text)
    return text
