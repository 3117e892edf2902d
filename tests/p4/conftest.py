# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The program in the interpreter, for tests of `p4/`."""

import json
import shutil
from pathlib import Path

import pytest

from tests.p4.plane import P4Plane, configuration


@pytest.fixture(autouse=True, scope="session")
def _preprocessor() -> None:
    if shutil.which("cpp") is None:
        pytest.skip("no C preprocessor (package cpp)")


@pytest.fixture(scope="session")
def one_plane(tmp_path_factory: pytest.TempPathFactory) -> P4Plane:
    """The data plane; it is made once."""
    config = tmp_path_factory.mktemp("ncf") / "ports.json"
    config.write_text(json.dumps(configuration()), encoding="utf-8")
    return P4Plane(config)


@pytest.fixture
def plane(one_plane: P4Plane) -> P4Plane:
    """The data plane, without a packet so far."""
    one_plane.reset()
    return one_plane


@pytest.fixture
def ports_file(tmp_path: Path) -> Path:
    """The configuration for the vectors, in a file of its own."""
    path = tmp_path / "ports.json"
    path.write_text(json.dumps(configuration()), encoding="utf-8")
    return path
