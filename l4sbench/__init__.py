# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Is it okay to switch to L4S congestion control? Evidence anyone can rerun.

    ended = l4sbench.run("quickstart", "aqm=fifo,dualpi2", trials=1)
    l4sbench.load(ended).flows

`ask`, `run`, `load`, `plan`, `decide`, `report`, `compare` and `figures` are the public interface.
"""

from typing import TYPE_CHECKING, Any

from l4sbench.version import __version__

if TYPE_CHECKING:
    from l4sbench.app.public import ask, compare, decide, figures, load, plan, report, run

__all__ = ["__version__", "ask", "compare", "decide", "figures", "load", "plan", "report", "run"]


def __getattr__(name: str) -> Any:
    """Import a function when it is first used, as they need most of the package.

    The import is by name, so that lower floors do not depend on the application.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("l4sbench.app.public"), name)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
