# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Addresses of Dask schedulers."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from l4sbench.disk.userfiles import is_file, read_json, short
from l4sbench.errors import InputError, TestbedError

_SCHEMES: Final = ("tcp", "tls")
_HINT: Final = "--on dask:tcp://HOST:8786, or its file, such as dask:scheduler.json (l4sbench docs scale)"


def check_address(address: str) -> None:
    """Check that this may be the address of a scheduler, or name the file of one.

    Raises:
        InputError: it cannot be.
    """
    if not address:
        raise InputError("dask needs the address of a scheduler", _HINT)
    if address.endswith(".json"):
        if not is_file(Path(address)):
            raise InputError(f"there is no scheduler file {short(address)}", _HINT)
    elif not _is_valid(address):
        raise InputError(f"{short(address)!r} is not a valid address of a Dask scheduler", _HINT)


def scheduler_of(address: str) -> str:
    """Return the address of a scheduler, with its scheme, from itself or from the name of its file.

    Raises:
        TestbedError: the file is not that of a scheduler.
    """
    if not address.endswith(".json"):
        return _with_scheme(address)
    hint = "name the file that `dask scheduler --scheduler-file` writes while it runs"
    try:
        plain = read_json(Path(address))
    except InputError as error:
        raise TestbedError(f"the scheduler file cannot be used: {error}", hint) from error
    found = plain.get("address") if isinstance(plain, dict) else None
    if not isinstance(found, str) or not _is_valid(found):
        raise TestbedError(f"{address} has no valid address of a Dask scheduler", hint)
    return _with_scheme(found)


def _with_scheme(address: str) -> str:
    return address if "://" in address else f"tcp://{address}"


def _is_valid(address: str) -> bool:
    try:
        parts = urlsplit(_with_scheme(address))
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port is not None
    except ValueError:
        return False
