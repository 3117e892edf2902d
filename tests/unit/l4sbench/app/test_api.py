# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The public functions of the package."""

from __future__ import annotations

import pkgutil

import l4sbench

PUBLIC = ("run", "load", "plan", "decide", "compare", "figures")


def test_no_module_has_the_name_of_a_public_function() -> None:
    """Importing such a module would put it in the function's place."""
    assert not {module.name for module in pkgutil.iter_modules(l4sbench.__path__)} & set(PUBLIC)


def test_a_public_function_stays_one_after_everything_is_imported() -> None:
    for name in l4sbench.__all__[1:]:
        before = getattr(l4sbench, name)
        for module in pkgutil.walk_packages(l4sbench.__path__, "l4sbench."):
            if "__main__" not in module.name:
                __import__(module.name)
        assert getattr(l4sbench, name) is before
        assert callable(before)
