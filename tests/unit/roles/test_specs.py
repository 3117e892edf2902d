# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What roles say of themselves is so: `meta/argument_specs.yml`, `defaults/main.yml` and README agree."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROLES = sorted(path for path in (Path(__file__).parents[3] / "roles").iterdir() if path.is_dir())


def read(path: Path) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(path)) if path.exists() else {}


def options(role: Path) -> dict[str, Any]:
    specs = read(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: option for entry in specs.values() for name, option in entry["options"].items()}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_specs_have_the_defaults_of_the_role(role: Path) -> None:
    stated = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert stated == read(role / "defaults/main.yml")
    for name, option in options(role).items():
        assert ("default" in option) != option.get("required", False), name
        assert name.startswith(f"{role.name}_"), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_readme_has_every_variable_with_its_default(role: Path) -> None:
    text = (role / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", text, re.MULTILINE))
    assert options(role).keys() <= rows.keys()
    for name, option in options(role).items():
        default = option.get("default")
        if isinstance(default, bool | int | str):
            assert str(default).lower() in rows[name].replace("`", " ").split(), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_entry_points_are_tasks(role: Path) -> None:
    entries = read(role / "meta/argument_specs.yml")["argument_specs"]
    assert entries.keys() <= {path.stem for path in (role / "tasks").glob("*.yml")}
