# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The role kernel, and packages on a machine that updates itself, as many do right after they have booted."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from l4sbench.disk import assets
from tests.lab.playbooks import play

LOCKED = "dpkg: error: dpkg frontend lock was locked by another process with pid 4711"


def test_what_an_interrupted_installation_left_waits_for_one_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    dpkg = tmp_path / "bin" / "dpkg"
    dpkg.parent.mkdir()
    dpkg.write_text(f"""\
#!/bin/sh
echo "$@" >> {asked}
[ "$(wc -l < {asked})" -gt 1 ] && exit
echo "{LOCKED}" >&2
exit 2
""")
    dpkg.chmod(0o755)
    include = {"name": str(assets.folder("roles") / "kernel"), "tasks_from": "packages"}
    tasks = [{"ansible.builtin.include_role": include, "vars": {"kernel_image": {"name": "none"}}}]
    path = f"{dpkg.parent}:/usr/bin:/bin"
    here = {"hosts": "all", "gather_facts": False, "environment": {"PATH": path}, "tasks": tasks}
    (tmp_path / "play.yml").write_text(json.dumps([here]))
    host = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"one": host}}}))
    play(tmp_path / "play.yml", tmp_path / "hosts.json")
    assert asked.read_text() == "--configure -a\n" * 2


def test_apt_waits_for_other_installations() -> None:
    (prepare,) = YAML(typ="safe").load(assets.folder("playbooks") / "prepare.yml")
    assert prepare["module_defaults"]["ansible.builtin.apt"]["lock_timeout"] >= 900
    tasks = [path.read_text() for path in assets.folder("roles").glob("*/tasks/*.yml")]
    assert not any("lock_timeout" in text for text in tasks)
    installing = [text for text in tasks if "'apt-get', 'install'" in text]
    assert installing
    assert all("DPkg::Lock::Timeout=900" in text for text in installing)
