# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parts of kernel modules as libraries of this machine."""

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from l4sbench.disk.assets import folder
from tests.patience import ran


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ctypes.CDLL]:
    """Return a function that compiles and loads a file of kernels/."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")

    def load(name: str) -> ctypes.CDLL:
        target = tmp_path_factory.mktemp("library") / f"{Path(name).stem}.so"
        options = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")
        ran([compiler, *options, "-o", target, folder("kernels") / name], check=True)
        return ctypes.CDLL(str(target))

    return load
