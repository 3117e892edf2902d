# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Is it okay to switch to L4S congestion control? Evidence anyone can rerun."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from l4sbench.app.api import load, run

__version__ = "0.1.0"
__all__ = ["__version__", "load", "run"]


def __getattr__(name: str) -> Any:
    """Import `run` and `load` when they are first used, as they need most of the package.

    The import is by name, so that lower floors do not depend on the application.
    """
    if name not in ("load", "run"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("l4sbench.app.api"), name)
