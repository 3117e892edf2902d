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

SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
LOCKED = "dpkg: error: dpkg frontend lock was locked by another process with pid 4711"


def written(folder: Path, tasks: str, given: dict[str, Any], path: str = SYSTEM) -> Path:
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
    playbook = written(tmp_path, "packages", {"kernel_image": {"name": "none"}}, f"{dpkg.parent}:{SYSTEM}")
    play(playbook, tmp_path / "hosts.json")
    assert asked.read_text() == "--configure -a\n" * 2


APART = """\
set -e
for own in /etc/apt /var/lib/apt /var/cache/apt /var/lib/dpkg /var/log; do mount -t tmpfs none $own; done
mkdir -p /etc/apt/sources.list.d /etc/apt/preferences.d /etc/apt/apt.conf.d /var/lib/apt/lists/partial
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers
echo 'APT::Sandbox::User "root";' > /etc/apt/apt.conf.d/own
cp "$1/status" /var/lib/dpkg/status
cp "$1/own.sources" /etc/apt/sources.list.d
"$2" -m ansible playbook -i "$1/hosts.json" "$1/play.yml" >&2
ls /etc/apt/sources.list.d /etc/apt/preferences.d
dpkg-query --show
"""
"""Does a playbook on this machine with an archive and installed packages of its own."""
CONTROL = """\
Package: linux-image-amd64
Version: {version}
Architecture: all
Maintainer: nobody <nobody@example.org>
Description: the newest kernel
"""


def done_apart(folder: Path, tasks: str, given: dict[str, Any]) -> list[str]:
    """Do tasks of the role where version 1 of a package is installed, and the archive has version 2.

    Returns the sources and preferences of apt, and the installed packages, afterwards.

    Args:
        folder: Where to do it.
        tasks: The file of tasks.
        given: Its variables.
    """
    has = subprocess.run(["/usr/bin/python3", "-c", "import apt"], capture_output=True, check=False)
    if has.returncode:
        pytest.skip("no apt, or not its module of Python")
    suite, made = folder / "archive/dists/trixie-backports", folder / "made/DEBIAN"
    index = suite / "main/binary-amd64/Packages"
    index.parent.mkdir(parents=True)
    made.mkdir(parents=True)
    (made / "control").write_text(CONTROL.format(version=2))
    package = folder / "archive/linux.deb"
    ran(["dpkg-deb", "--root-owner-group", "--build", made.parent, package], check=True)
    about = f"Size: {package.stat().st_size}\nSHA256: {sha256(package)}\nFilename: linux.deb\n"
    index.write_text(f"{CONTROL.format(version=2)}{about}")
    total = f"{sha256(index)} {index.stat().st_size} main/binary-amd64/Packages"
    (suite / "Release").write_text(
        "Suite: trixie-backports\nCodename: trixie-backports\nComponents: main\nArchitectures: amd64\n"
        f"NotAutomatic: yes\nButAutomaticUpgrades: yes\nSHA256:\n {total}\n"
    )
    installed = CONTROL.format(version=1).replace("Version", "Status: install ok installed\nVersion")
    (folder / "status").write_text(installed)
    of = f"URIs: file:{folder}/archive\nSuites: trixie-backports\nComponents: main\nTrusted: yes\n"
    (folder / "own.sources").write_text(f"Types: deb\n{of}")
    written(folder, tasks, given)
    argv: list[str | Path] = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        APART,
        "sh",
        folder,
        sys.executable,
    ]
    done = ran(argv, env=os.environ | environment())
    if "unshare" in done.stderr:
        pytest.skip("no user namespaces")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_suite_that_the_host_has_already_stays_as_it_is(tmp_path: Path) -> None:
    """With other keys than the host's for the same suite apt would read no sources at all."""
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    repository = {"uris": f"file:{tmp_path}/archive", "suites": "trixie-backports", "signed_by": keys}
    given = {"kernel_sources": {"name": "newer", "pin": True, "repository": repository}}
    found = done_apart(tmp_path, "sources", given)
    assert found[:4] == [
        "/etc/apt/preferences.d:",
        "l4sbench-newer",
        "/etc/apt/sources.list.d:",
        "own.sources",
    ]


def test_a_package_for_an_older_kernel_is_upgraded(tmp_path: Path) -> None:
    """Of Ubuntu's kernels for new hardware and Debian's from backports the name of the package stays."""
    image = {"name": "newer", "packages": ["linux-image-{flavour}"]}
    image["repository"] = {"uris": f"file:{tmp_path}/archive", "suites": "trixie-backports"}  # type: ignore[assignment]
    given = {"kernel_image": image, "kernel_facts": {"kernel_release": "6.12.1-amd64", "machine": "x86_64"}}
    assert done_apart(tmp_path, "packages", given)[-2:] == ["linux-image-amd64", "2"]


def test_apt_waits_for_other_installations() -> None:
    (prepare,) = YAML(typ="safe").load(assets.folder("playbooks") / "prepare.yml")
    assert prepare["module_defaults"]["ansible.builtin.apt"]["lock_timeout"] >= 900
    tasks = [path.read_text() for path in assets.folder("roles").glob("*/tasks/*.yml")]
    assert not any("lock_timeout" in text for text in tasks)
    installing = [text for text in tasks if "'apt-get', 'install'" in text]
    assert installing
    assert all("DPkg::Lock::Timeout=900" in text for text in installing)
