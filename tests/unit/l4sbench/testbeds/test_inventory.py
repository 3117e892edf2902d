# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Inventories are data: reading one executes nothing, and no name or text becomes a pattern or a template.

Ansible is the real one. Where a playbook runs, its hosts are reached without ssh, and a script takes the
place of their Python, so of the helper.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from l4sbench.cli import main
from l4sbench.errors import InputError, TestbedError
from l4sbench.testbeds.ssh import inventory as module
from l4sbench.testbeds.ssh.ansible import Played, play
from l4sbench.testbeds.ssh.facts import read_facts
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.testbeds.ssh.inventory import read_inventory
from tests.patience import PATIENCE_S

SCRIPT = '#!/bin/sh\ntouch {}\necho \'{{"_meta": {{"hostvars": {{}}}}}}\'\n'
FACTS = {"kernel_release": "7.3.4", "tools": {"tc": "6.18"}, "distribution": "debian 13"}


# ---- reading
def test_ipv6_literals_name_hosts_with_and_without_ports(tmp_path: Path) -> None:
    yaml, ini = tmp_path / "hosts.yml", tmp_path / "hosts"
    yaml.write_text(
        'all: {vars: {l4sbench_node: router}, hosts: {"2001:db8::1": , "[2001:db8::2]:2222": , "::1": , '
        '"fe80::1%eth0": , "192.0.2.1": , "node-[1:2].example.org": }}\n'
    )
    ini.write_text("2001:db8::1 l4sbench_node=router\n[2001:db8::2]:2222 l4sbench_node=delay\n")
    variables = read_inventory(yaml)
    assert variables["2001:db8::2"]["ansible_port"] == 2222
    assert {host.name for host in hosts_of(variables, "")} == {
        *("2001:db8::1", "2001:db8::2", "::1", "fe80::1%eth0", "192.0.2.1"),
        *("node-1.example.org", "node-2.example.org"),
    }
    assert [host.name for host in hosts_of(read_inventory(ini), "")] == ["2001:db8::1", "2001:db8::2"]


def test_reading_executes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a program, nor settings and plugins in the current folder, nor a template."""
    planted = tmp_path / "planted"
    given = tmp_path / "given"
    given.mkdir()
    monkeypatch.chdir(given)
    (given / "ansible.cfg").write_text("[defaults]\nvars_plugins = plugins\ninventory_plugins = plugins\n")
    (given / "plugins").mkdir()
    (given / "plugins" / "evil.py").write_text(f"open({str(planted)!r}, 'w')\n")
    template = "{{ lookup('pipe', 'touch " + str(planted) + "') }}"
    (given / "hosts.yml").write_text(
        json.dumps({"all": {"hosts": {"a": {"l4sbench_node": "router", "ansible_host": template}}}})
    )
    (given / "hosts.yml").chmod(0o755)  # as on file systems without modes
    assert read_inventory(Path("hosts.yml"))["a"]["ansible_host"] == template
    for name in ("hosts", "folder/hosts.sh"):
        program = given / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(SCRIPT.format(planted))
        program.chmod(0o755)
        with pytest.raises(InputError, match="is a program, and inventories are not executed"):
            read_inventory(program)
        with pytest.raises(InputError, match="is a program, and inventories are not executed"):
            read_inventory(given / "folder" if "/" in name else program)
    assert not planted.exists()


def test_a_plan_executes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted = tmp_path / "planted"
    name = "{{ lookup('pipe', 'touch " + str(planted) + "') }}"
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": {name: {"l4sbench_node": "router"}}}}))
    for command in (["plan", "quickstart"], ["run", "quickstart", "--dir", str(tmp_path)]):
        assert main([*command, "--on", f"ssh:{path}"]) == 2
        assert "is not a valid name of a host" in capsys.readouterr().err
    assert not planted.exists()


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "pipe")
    (tmp_path / "own" / "group_vars").mkdir(parents=True)
    (tmp_path / "own" / "hosts.yml").write_text("all:\n")
    os.mkfifo(tmp_path / "own" / "group_vars" / "all")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "folder", tmp_path / "own" / "hosts.yml"):
        with pytest.raises(InputError, match="is not a regular file"):
            read_inventory(path)
    with pytest.raises(InputError, match=r"cannot read inventory .*: File name too long"):
        read_inventory(tmp_path / ("x" * 300))


def test_a_link_to_itself_is_no_inventory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hosts.yml"
    path.symlink_to(path)
    assert main(["plan", "quickstart", "--on", f"ssh:{path}"]) == 2
    assert f"error: inventory {path} does not exist" in capsys.readouterr().err


def test_an_error_of_ansible_itself_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all:\n  hosts:\n    a: {l4sbench_node: !!binary aGVsbG8=}\n")
    with pytest.raises(InputError) as caught:
        read_inventory(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: Ansible cannot read it: Object of type ")
    assert "\n" not in message


def test_large_inventories_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "sparse.yml").open("wb") as file:
        file.truncate(module.MOST_BYTES + 1)
    with pytest.raises(InputError, match=r"sparse.yml is larger than 16 MB"):
        read_inventory(tmp_path / "sparse.yml")
    monkeypatch.setattr(module, "MOST_FILES", 2)
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.yml").touch()
    with pytest.raises(InputError, match="has more than 2 files"):
        read_inventory(folder)


def test_a_short_file_that_expands_is_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT_S", 600.0)  # on a busy machine the limit of CPU time comes late
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path = tmp_path / "bomb.yml"
    path.write_text("all:\n  hosts:\n    a:\n" + "".join(f"      {line}\n" for line in lines))
    with pytest.raises(InputError, match="takes more than 6 s of CPU time or 800 MB of memory to parse"):
        read_inventory(path)


# ---- playing
def played(folder: Path, answer: object, hosts: tuple[str, ...] = ("router",), **more: Any) -> Played:
    """Run the playbook that prepares hosts; on them the helper prints this answer."""
    python = folder / "python"
    (folder / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    python.write_text(f"#!/bin/sh\nexec cat {folder}/answer\n")
    python.chmod(0o755)
    local = {"ansible_connection": "local", "ansible_become": False, "l4sbench_python": str(python)}
    given = {name: {**local, "l4sbench_node": name} for name in (*hosts, "other")}
    path = folder / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": given}, "router": {"hosts": {"other": None}}}))
    return play("prepare.yml", path, hosts, {"l4sbench_install": False, **more}, limit_s=PATIENCE_S)


def test_hosts_are_chosen_by_name_and_not_by_pattern(tmp_path: Path) -> None:
    """Not even a group of the same name is chosen."""
    names = ("2001:db8::1", "fe80::1%eth0", "all", "router")
    outcome = played(tmp_path, FACTS, names)
    assert {name: told.status for name, told in outcome.hosts.items()} == dict.fromkeys(names, "ok")


def test_variables_are_no_templates(tmp_path: Path) -> None:
    text = "{{ lookup('pipe', 'touch " + str(tmp_path / "planted") + "') }}"
    outcome = played(tmp_path, FACTS, l4sbench_asked={"config": [text], text: text})
    assert outcome.hosts["router"].status == "ok", outcome
    assert not (tmp_path / "planted").exists()


def test_an_answer_is_data(tmp_path: Path) -> None:
    """A host can change neither its own variables nor another host's, nor have a text evaluated."""
    planted = tmp_path / "planted"
    template = "{{ lookup('pipe', 'touch " + str(planted) + "') }}"
    variables = {"l4sbench_python": f"touch {planted};", "l4sbench_modules": {"x": "/etc/passwd"}}
    answer = {
        **FACTS,
        "asked_s": [1.0, 2.0],
        "kernel_release": template,
        "ansible_facts": variables,
        "add_host": {"host_name": "router", "host_vars": variables},
        "add_group": "all",
        "results": 3,
        "_ansible_no_log": True,
        "changed": "yes",
        "failed_when_result": True,
    }
    outcome = played(tmp_path, answer)
    told = outcome.hosts["router"]
    assert told.status == "ok", told
    assert "Copy the prebuilt modules" not in outcome.output.replace("skipping", "")
    answered = dict(told.answer)
    began_s, ended_s = answered.pop("asked_s")  # the action's own, whatever the host gave
    assert 1e9 < began_s <= ended_s
    assert {**answered, "_ansible_no_log": False} == {
        **FACTS,
        "kernel_release": template,
        "changed": False,
        "changes": [],
        "_ansible_no_log": False,
    }
    assert not planted.exists()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ('{"kernel_release": "' + "x" * (1 << 20) + '"}', "the helper's answer is longer than 1 MB"),
        ('{"a":' * 100_000, "the helper's answer is nested too deeply"),
        ("no answer at all", "the helper failed"),
        ({"failed": ["a", {"b": 1}]}, "['a', {'b': 1}]"),
    ],
    ids=["long", "deep", "none", "list"],
)
def test_answers_that_cannot_be_used(tmp_path: Path, answer: object, told: str) -> None:
    outcome = played(tmp_path, answer).hosts["router"]
    assert outcome.status == "failed"
    assert told in outcome.message
    assert len(outcome.message) < 3000


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([], "a: : Input should be a valid dictionary"),
        ({"kernel_release": "7\n\x1b[31m"}, "a: kernel_release: String should match"),
        ({"kernel_release": "7" * 5000}, "a reported malformed facts: kernel_release: String should have"),
        ({"kernel_release": "7", "time_s": float("nan")}, "time_s: Input should be a finite number"),
        ({"kernel_release": "7", "interfaces": [3]}, "interfaces.0: Input should be"),
    ],
)
def test_facts_that_cannot_be_used(answer: object, told: str) -> None:
    with pytest.raises(TestbedError) as raised:
        read_facts(answer, "a")
    assert told.removeprefix("a: ") in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_results_come_from_their_place_alone(tmp_path: Path) -> None:
    """A host that says that its results are another file, or huge, or says nonsense, fails with a message."""
    ended = {"state": "ended", "ok": True, "sha256": "0" * 64, "bytes": 1, "results": "/etc/hostname"}
    answers: dict[str, tuple[dict[str, object], str]] = {
        "a": (ended, "/var/lib/l4sbench/trials/no-such-trial/results.tar.gz"),
        "b": ({**ended, "bytes": 3 << 30}, "the results are larger than 2 GB"),
        "c": ({**ended, "sha256": ["x"]}, "the helper's answer has no checksum"),
        "d": ({"state": ["lost"], "reason": {"x": 1}}, "{'x': 1}"),
        "e": ({}, "the helper's answer has no state"),
    }
    hosts = {}
    for name, (answer, _) in answers.items():
        python = tmp_path / f"python-{name}"
        (tmp_path / name).write_text(json.dumps(answer))
        python.write_text(f"#!/bin/sh\nexec cat {tmp_path / name}\n")
        python.chmod(0o755)
        hosts[name] = {
            "ansible_connection": "local",
            "ansible_become": False,
            "l4sbench_python": str(python),
            "l4sbench_node": name,
        }
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": hosts}}))
    given = {"l4sbench_trial": "no-such-trial", "l4sbench_results": str(tmp_path / "results")}
    outcome = play("fetch.yml", path, tuple(hosts), given, limit_s=PATIENCE_S)
    for name, (_, told) in answers.items():
        assert outcome.hosts[name].status == "failed"
        assert told in outcome.hosts[name].message
    assert not list((tmp_path / "results").glob("*"))


def test_a_host_that_is_silent_is_unfinished(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 1000\n")
    ssh.chmod(0o755)
    path = tmp_path / "hosts.yml"
    host = {"ansible_ssh_executable": str(ssh), "l4sbench_node": "router"}
    path.write_text(json.dumps({"all": {"hosts": {"silent": host}}}))
    given = {"l4sbench_install": False}
    outcome = play("prepare.yml", path, ("silent",), given, limit_s=5)  # expires: it never answers
    assert {host: found.status for host, found in outcome.wrong.items()} == {"silent": "unfinished"}
    assert outcome.hosts["silent"].message.endswith(" did not end within 5 s")
