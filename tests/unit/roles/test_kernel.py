# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The role kernel, and packages on a machine that updates itself, as many do right after they have booted."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from l4sbench.disk import assets
from l4sbench.testbeds.ssh.environment import environment
from tests.lab.playbooks import play
from tests.patience import ran

LOCKED = "dpkg: error: dpkg frontend lock was locked by another process with pid 4711"


def written(folder: Path, tasks: str, given: dict[str, Any], path: str = "/usr/bin:/bin") -> Path:
    """Write a playbook that does tasks of the role here, and its inventory; return the playbook."""
    include = {"name": str(assets.folder("roles") / "kernel"), "tasks_from": tasks}
    play = {"hosts": "all", "gather_facts": False, "environment": {"PATH": path}}
    play["tasks"] = [{"ansible.builtin.include_role": include, "vars": given}]
    (folder / "play.yml").write_text(json.dumps([play]))
    host = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"one": host}}}))
    return folder / "play.yml"


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
    playbook = written(
        tmp_path, "packages", {"kernel_image": {"name": "none"}}, f"{dpkg.parent}:/usr/bin:/bin"
    )
    play(playbook, tmp_path / "hosts.json")
    assert asked.read_text() == "--configure -a\n" * 2


APART = """\
set -e
for folder in /etc/apt /var/lib/apt /var/cache/apt; do mount -t tmpfs none $folder; done
mkdir -p /etc/apt/sources.list.d /etc/apt/preferences.d /etc/apt/apt.conf.d /var/lib/apt/lists/partial
echo 'APT::Sandbox::User "root";' > /etc/apt/apt.conf.d/own
printf 'Types: deb\\nURIs: file:%s\\nSuites: trixie-backports\\nComponents: main\\nTrusted: yes\\n' "$1" \\
  > /etc/apt/sources.list.d/own.sources
"$2" -m ansible playbook -i "$4" "$3"
ls /etc/apt/sources.list.d /etc/apt/preferences.d
"""


def test_a_suite_that_the_host_has_already_stays_as_it_is(tmp_path: Path) -> None:
    """With other keys than the host's for the same suite apt would read no sources at all."""
    has = subprocess.run(["/usr/bin/python3", "-c", "import apt"], capture_output=True, check=False)
    if has.returncode:
        pytest.skip("no apt, or not its module of Python")
    packages = tmp_path / "archive/dists/trixie-backports/main/binary-amd64/Packages"
    packages.parent.mkdir(parents=True)
    packages.write_bytes(b"")
    total = f"{hashlib.sha256(b'').hexdigest()} 0 main/binary-amd64/Packages"
    release = f"Codename: trixie-backports\nComponents: main\nArchitectures: amd64\nSHA256:\n {total}\n"
    (packages.parents[2] / "Release").write_text(release)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    repository = {"uris": f"file:{tmp_path}/archive", "suites": "trixie-backports", "signed_by": keys}
    sources = {"name": "newer", "pin": True, "repository": repository}
    playbook = written(tmp_path, "sources", {"kernel_sources": sources})
    argv = ["unshare", "--map-root-user", "--mount", "sh", "-c", APART, "sh", f"{tmp_path}/archive"]
    done = ran([*argv, sys.executable, playbook, tmp_path / "hosts.json"], env=os.environ | environment())
    if "unshare" in done.stderr:
        pytest.skip("no user namespaces")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-4:] == [
        "/etc/apt/preferences.d:",
        "l4sbench-newer",
        "/etc/apt/sources.list.d:",
        "own.sources",
    ]


def test_apt_waits_for_other_installations() -> None:
    (prepare,) = YAML(typ="safe").load(assets.folder("playbooks") / "prepare.yml")
    assert prepare["module_defaults"]["ansible.builtin.apt"]["lock_timeout"] >= 900
    tasks = [path.read_text() for path in assets.folder("roles").glob("*/tasks/*.yml")]
    assert not any("lock_timeout" in text for text in tasks)
    installing = [text for text in tasks if "'apt-get', 'install'" in text]
    assert installing
    assert all("DPkg::Lock::Timeout=900" in text for text in installing)
