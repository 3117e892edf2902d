# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""That no file of tasks is left out by the tests that execute them on hosts."""

from ruamel.yaml import YAML

from l4sbench.disk import assets
from tests.lab.playbooks import ON_DEBIAN, ON_EMULATED, ON_NODES, ON_SWITCHES


def test_every_file_of_tasks_is_executed_by_some_test() -> None:
    files = [("playbooks", path) for path in assets.folder("playbooks").glob("*.yml")]
    files += [("roles", path) for path in assets.folder("roles").glob("*/tasks/*.yml")]
    assert len(files) > 15
    with_tasks = {
        f"{kind}/{path.relative_to(assets.folder(kind)).as_posix()}"
        for kind, path in files
        if YAML(typ="safe").load(path)
    }
    assert with_tasks == ON_NODES | ON_DEBIAN | ON_EMULATED | ON_SWITCHES
