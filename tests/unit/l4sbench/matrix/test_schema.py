# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The JSON Schema that editors use: current, valid, and of one mind with the loader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from l4sbench.disk.document import read
from l4sbench.matrix import json_schema
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[4]
SCHEMA = Draft202012Validator(json_schema())
# what only the catalog, the flow groups or other files can tell
SHAPELY = {
    "axis-shapes",
    "bad-exclude",
    "bad-include",
    "bare-numbers",
    "ecn-boolean",
    "ecn-words",
    "everything-at-once",
    "group-names",
    "group-outside-flows",
    "list-outside-axes",
    "no-name",
    "not-a-map",
    "out-of-range",
    "sends",
    "settings",
    "trials-range",
    "unknown-keys",
    "wrong-units",
}


def test_the_file_is_current() -> None:
    """If this fails: python -m l4sbench.matrix > matrices/matrix.schema.json"""
    written = (ROOT / "matrices" / "matrix.schema.json").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "l4sbench.matrix"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert made.stdout == written
    assert json.loads(written) == json_schema()


def test_it_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("file", sorted((ROOT / "matrices").glob("*.yaml")), ids=lambda file: file.stem)
def test_it_accepts_every_shipped_matrix(file: Path) -> None:
    assert [error.message for error in SCHEMA.iter_errors(read(file).content)] == []


@pytest.mark.parametrize("case", sorted(SHAPELY))
def test_it_refuses_what_an_editor_can_know_to_be_wrong(case: str) -> None:
    assert not SCHEMA.is_valid(read(ROOT / "tests" / "errors" / "matrix" / f"{case}.yaml").content)


@pytest.mark.parametrize("file", sorted((ROOT / "matrices").glob("*.yaml")), ids=lambda file: file.stem)
def test_editors_find_the_schema_of_our_matrices(file: Path) -> None:
    first = next(line for line in file.read_text(encoding="utf-8").splitlines() if "SPDX" not in line)
    assert first == "# yaml-language-server: $schema=matrix.schema.json"
    assert (file.parent / "matrix.schema.json").is_file()
