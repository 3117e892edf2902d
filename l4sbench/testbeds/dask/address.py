# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Addresses of Dask schedulers."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from l4sbench.errors import InputError
from l4sbench.userfiles import short

_SCHEMES: Final = ("tcp", "tls", "ws", "wss")


def check_address(address: str) -> None:
    """Check that this may be the address of a scheduler, or name the file of one.

    Raises:
        InputError: it cannot be.
    """
    hint = "--on dask:tcp://HOST:8786, or its file, such as dask:scheduler.json (l4sbench docs scale)"
    if not address:
        raise InputError("dask needs the address of a scheduler", hint)
    if address.endswith(".json"):
        if not Path(address).is_file():
            raise InputError(f"there is no scheduler file {short(address)}", hint)
        return
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        valid = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port is not None
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f"{short(address)!r} is not a valid address of a Dask scheduler", hint)
