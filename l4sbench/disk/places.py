# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The folder of what must last on this machine: records of slices, and who is trusted."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """Return the user's state folder for l4sbench.

    A server of FABRIC's JupyterHub keeps `work` below the home directory, and loses all else with a restart.
    """
    from platformdirs import user_state_path

    kept = Path.home() / "work"
    if "JUPYTERHUB_USER" in os.environ and "XDG_STATE_HOME" not in os.environ and kept.is_dir():
        return kept / ".l4sbench"
    path: Path = user_state_path("l4sbench", appauthor=False)
    return path
