# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""lab-traffic, the lean traffic tool, for hosts: compiled here, as one static program, and copied to them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from l4sbench.disk import assets
from l4sbench.errors import TestbedError

NAME: Final = "lab-traffic"
_COMPILE_S: Final = 300.0
_HINT: Final = "apt install make gcc libc6-dev, or let iperf3 send: bulk and paced flows, without bytes"


def source_digest() -> str:
    """Return the digest of what lab-traffic is compiled from."""
    return assets.digest(_source(), suffixes=(".c", ".h", "Makefile"))


def compiled(folder: Path) -> Path:
    """Return the program, compiled into a folder unless it is there from the same source.

    Raises:
        TestbedError: make or a compiler is missing, or the compilation failed.
    """
    path = folder / f"{NAME}-{source_digest()[:16]}"
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-", dir=folder) as work:
        made = Path(work, NAME)
        argv = ["make", "-C", str(_source()), f"OUT={work}", str(made)]
        try:
            ended = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMPILE_S,
                check=False,
                env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
            )
        except OSError as error:
            raise TestbedError(
                f"{NAME} cannot be compiled for the hosts: make: {error.strerror}", _HINT
            ) from error
        except subprocess.TimeoutExpired as error:
            raise TestbedError(
                f"{NAME} cannot be compiled for the hosts: no end within {_COMPILE_S:g} s"
            ) from error
        if ended.returncode or not made.is_file():
            said = (ended.stderr or ended.stdout).strip()[-500:]
            raise TestbedError(f"{NAME} cannot be compiled for the hosts: {said}", _HINT)
        made.replace(path)
    return path


def _source() -> Path:
    return assets.folder("kernels") / "lab" / "guest"
