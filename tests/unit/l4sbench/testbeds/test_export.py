# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench plan --export`: the folder holds what a trial by hand needs, and Ansible can read it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from l4sbench.app import api
from l4sbench.cli import main
from l4sbench.errors import InputError
from l4sbench.program import Program
from l4sbench.testbeds.ssh.environment import environment
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.testbeds.ssh.layout import misplaced
from l4sbench.topology import topology
from tests.attack.hostile import crossed
from tests.patience import ran

LINE6 = topology("line6")

GOLDEN = Path(__file__).parents[3] / "cases/export"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "by-hand"
    assert main(["plan", "quickstart", "aqm=dualpi2", "buffer_bdp=1", "--export", str(folder)]) == 0
    return folder


def test_commands_and_settings_are_as_kept(exported: Path) -> None:
    for name in ("README.md", "hosts.yml", "ansible.cfg"):
        assert (exported / name).read_text() == (GOLDEN / name).read_text(), name


def test_every_cell_has_the_programs_of_its_first_trial(exported: Path) -> None:
    cells = sorted((exported / "cells").iterdir())
    assert len(cells) == 2
    plain = json.loads(cells[0].read_text())
    programs = {node: Program.from_json(program) for node, program in plain["l4sbench_programs"].items()}
    assert list(programs) == list(LINE6.by_name)
    assert {flow.argv[0] for program in programs.values() for flow in program.flows} == {"iperf3"}
    rest = {name: value for name, value in plain.items() if name != "l4sbench_programs"}
    assert rest == json.loads((GOLDEN / "cell.json").read_text())


def test_ansible_reads_what_was_exported(exported: Path) -> None:
    variables = read_inventory(exported / "hosts.yml")
    with pytest.raises(InputError, match="is not filled in"):
        hosts_of(variables, "hosts.yml")
    filled = (f"02:00:00:00:00:{number:02x}" for number in range(99))
    for given in variables.values():
        ports = cast("dict[str, str]", given["l4sbench_ports"])
        given["l4sbench_ports"] = {network: next(filled) for network in ports}
    assert misplaced(hosts_of(variables, "hosts.yml"), LINE6) == []
    (cell, *_) = sorted((exported / "cells").iterdir())
    playbooks = sorted(map(str, (exported / "playbooks").glob("*.yml")))
    ended = ansible(exported, "playbook", "-i", "hosts.yml", "--syntax-check", *playbooks, "-e", f"@{cell}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("playbook: ") == len(playbooks)


def ansible(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """A command of Ansible in an exported folder; its hosts are not there."""
    return ran(
        [sys.executable, "-m", "ansible", *argv],
        cwd=folder,
        env={**os.environ, "PATH": environment()["PATH"], "ANSIBLE_NOCOLOR": "1"},
    )


@pytest.mark.parametrize(
    ("playbook", "given", "told"),
    [("trial.yml", "", "-e @cells/CELL.yml"), ("fetch.yml", "l4sbench_results=x", "-e l4sbench_trial=")],
)
def test_a_trial_that_is_not_named_is_asked_for(exported: Path, playbook: str, given: str, told: str) -> None:
    more = ("-e", given) if given else ()
    ended = ansible(exported, "playbook", "-i", "hosts.yml", f"playbooks/{playbook}", *more)
    assert ended.returncode
    assert f"name the trial with {told}" in ended.stdout


def value_of(exported: Path, name: str, *argv: str) -> dict[str, list[Any]]:
    """Return the value of a variable on every host of an exported folder."""
    asked = ("-m", "debug", "-a", f"var={name}", *argv)
    ended = ansible(exported, "adhoc", "all", "--playbook-dir", "playbooks", *asked)
    told = re.findall(r"^(\S+) \| SUCCESS => (\{.*?^\})", ended.stdout, re.MULTILINE | re.DOTALL)
    return {host: json.loads(text)[name] for host, text in told}


def test_a_host_may_be_all_nodes(exported: Path, tmp_path: Path) -> None:
    held = {"one": "all", "other": "router", "two": ["rx-l4s", "delay"]}
    hosts = {name: {"l4sbench_nodes": nodes} for name, nodes in held.items()}
    (inventory := tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    (cell, *_) = sorted((exported / "cells").iterdir())
    given = ("-i", str(inventory), "-e", f"@{cell}", "-e", "@playbooks/vars/part.yml")
    nodes = value_of(exported, "l4sbench_part.host_nodes", *given)
    assert nodes == {"one": list(LINE6.by_name), "other": ["router"], "two": ["rx-l4s", "delay"]}
    modules = value_of(exported, "l4sbench_module_sources", *given)
    named = {host: sorted(module["name"] for module in of) for host, of in modules.items()}
    assert named == {
        "one": ["sch_dualpi2", "tcp_prague"],
        "other": ["sch_dualpi2"],
        "two": ["tcp_prague"],
    }


def test_hosts_build_the_modules_that_their_nodes_need(exported: Path) -> None:
    found = value_of(exported, "l4sbench_module_sources", "-i", "hosts.yml")
    assert {host for host, modules in found.items() if modules} == {
        *("host-tx-l4s", "host-rx-l4s", "host-router")
    }
    (dualpi2,) = found["host-router"]
    assert (dualpi2["name"], dualpi2["linux_file"]) == ("sch_dualpi2", "net/sched/sch_dualpi2.c")
    assert dualpi2["linux_option"] == "NET_SCH_DUALPI2"
    (prague,) = found["host-rx-l4s"]
    assert Path(prague["folder"], "dkms.conf").is_file()
    assert Path(prague["folder"]).is_relative_to(exported)
    assert (prague["name"], prague["kernel"]) == ("tcp_prague", "7.0")


def test_hosts_install_the_programs_that_their_nodes_need(tmp_path: Path) -> None:
    folder = tmp_path / "by-hand"
    changed = ["--set", "path.ecn=bleach", "aqm=fifo", "buffer_bdp=1", "classic.ecn=off"]
    assert main(["plan", "quickstart", *changed, "--export", str(folder)]) == 0
    found = value_of(folder, "l4sbench_tools", "-i", "hosts.yml")
    assert {host: tools for host, tools in found.items() if tools} == {"host-delay": ["nft"]}


def test_an_export_replaces_an_export_and_nothing_else(exported: Path, tmp_path: Path) -> None:
    assert api.export("quickstart", exported, ["aqm=dualpi2", "buffer_bdp=1"]) == 2
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="is not empty and not an export"):
        api.export("quickstart", tmp_path)


def test_another_export_keeps_an_inventory_that_was_filled_in(tmp_path: Path) -> None:
    folder, chosen = tmp_path / "out", ["aqm=dualpi2", "buffer_bdp=1"]
    api.export("quickstart", folder, chosen)
    hosts = folder / "hosts.yml"
    written, filled = hosts.read_text(), "all: {hosts: {one: {l4sbench_nodes: all}}}\n"
    hosts.write_text(filled)
    for _ in range(2):
        api.export("quickstart", folder, chosen)
        assert hosts.read_text() == filled
    api.export("quickstart", folder, chosen, api.RunOptions(on=f"ssh:{hosts}"))
    assert hosts.read_text() == filled
    assert f"-i {hosts} playbooks" in (folder / "README.md").read_text()
    hosts.unlink()
    hosts.symlink_to("../mine.yml")
    api.export("quickstart", folder, chosen)
    assert hosts.readlink() == Path("../mine.yml")
    hosts.unlink()
    api.export("quickstart", folder, chosen)
    assert hosts.read_text() == written


def test_another_export_removes_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    command = ["plan", "quickstart", "aqm=dualpi2", "buffer_bdp=1", "--export", str(folder)]
    assert main(command) == 0
    (result := folder / "results" / "cell" / "host.tar.gz").parent.mkdir(parents=True)
    result.write_text("a trial")
    assert main(command) == 2
    assert capsys.readouterr().err.endswith(
        f"error: {folder} has results of trials, which a new export would remove; "
        f"choose another folder, or move {folder}/results away\n"
    )
    assert result.read_text() == "a trial"
    (folder / "results").rename(tmp_path / "kept")
    (folder / "results").mkdir()
    assert main(command) == 0


def test_an_export_has_a_most_number_of_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = tmp_path / "large.yaml"
    matrix.write_text(crossed({"aqm": 5, "buffer_bdp": 20, "rtt": 21}), encoding="utf-8")
    folder = tmp_path / "by-hand"
    assert main(["plan", str(matrix), "--export", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"error: {matrix}:1:1: 2100 cells exceed the maximum of 2000 for an export; "
        "choose cells by filters, such as aqm=dualpi2\n"
    )
    assert not folder.exists()
    assert main(["plan", str(matrix), "aqm=fifo", "rtt=1ms", "--export", str(folder)]) == 0
    assert len(list((folder / "cells").iterdir())) == 20


def test_an_export_needs_the_programs_of_senders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "by-hand"
    assert main(["plan", "rtc26", "--export", str(folder)]) == 2
    assert capsys.readouterr().err.endswith(
        ":1:1: an export copies the programs of senders, but these are not built: pion, scream; "
        "l4sbench senders build pion scream\n"
    )
    assert not folder.exists()


@pytest.mark.parametrize("how", ["--export", "--on"])
def test_a_group_that_lacks_a_factor_is_reported(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (matrix := tmp_path / "m.yaml").write_text(
        "matrix: m\ntopology: line6\nrate: 10mbit\nrtt: 20ms\nduration: 5s\ntrials: 1\nrule: none\n"
        "flows:\n  a: {cc: cubic}\n  b: {send: workload, cc: cubic, load: 20%}\naxes: {aqm: [fifo]}\n"
    )
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all: {hosts: {one: {ansible_host: 192.0.2.1, l4sbench_nodes: all}}}\n")
    given = str(tmp_path / "out") if how == "--export" else f"ssh:{inventory}"
    assert main(["plan", str(matrix), how, given]) == 2
    assert "b.workload: is missing; b.send: workload needs it" in capsys.readouterr().err


def test_what_is_beside_an_export_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, mine = tmp_path / "out", tmp_path / "out.partial"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    for _ in range(2):
        assert api.export("quickstart", out, ["aqm=dualpi2", "buffer_bdp=1"]) == 2
    assert (mine / "thesis.tex").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.partial"]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is not a folder"):
        api.export("quickstart", tmp_path / "file")
    monkeypatch.chdir(out / "cells")
    for folder in ("..", "."):
        with pytest.raises(InputError, match="is the current folder or above it; choose a folder"):
            api.export("quickstart", folder)


def test_an_inventory_is_checked_and_named(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all: {hosts: {a: {l4sbench_node: router}}}\n")
    with pytest.raises(InputError, match="no host holds this node of line6"):
        api.export("quickstart", tmp_path / "out", options=api.RunOptions(on=f"ssh:{inventory}"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ("ssh", "ssh needs an inventory"),
        ("shs:x", "did you mean ssh"),
        ("virtual:x", "virtual takes nothing"),
    ],
)
def test_testbeds_that_there_are_not(on: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart", "--on", on]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        (
            "all: {hosts: {a: {l4sbench_node: router}, b: {l4sbench_node: router}}}",
            "several hosts hold it: a, b",
        ),
        ("all: {hosts: {a: {l4sbench_node: router}}}", "no host holds this node of line6; give one host"),
        ("all: [a", "Ansible cannot read it: YAML parsing failed: While parsing a flow sequence"),
    ],
)
def test_a_plan_tells_what_is_wrong_with_an_inventory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hosts: str, told: str
) -> None:
    """So that nobody learns it from a run, and before a run changes anything on a host."""
    (tmp_path / "hosts.yml").write_text(f"{hosts}\n")
    for command in ("plan", "run"):
        assert main([command, "quickstart", "--on", f"ssh:{tmp_path}/hosts.yml", "--dir", str(tmp_path)]) == 2
        assert told in capsys.readouterr().err


def test_an_inventory_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in ("plan", "run"):
        assert main([command, "quickstart", "--on", f"ssh:{tmp_path}/no.yml", "--dir", str(tmp_path)]) == 2
        assert f"{tmp_path}/no.yml does not exist" in capsys.readouterr().err


def calls_of_export(folder: Path, *filters: str) -> tuple[int, int]:
    """The number of cells, and that of calls of Python functions that their export takes."""
    calls = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        cells = api.export("quickstart", folder, filters)
    finally:
        sys.setprofile(None)
    return cells, calls


def test_a_cell_is_exported_in_few_calls(tmp_path: Path) -> None:
    """A call for each text of a cell's file would be 6,000 and more."""
    calls_of_export(tmp_path / "warm", "aqm=dualpi2")
    few, calls_of_few = calls_of_export(tmp_path / "few", "aqm=dualpi2", "buffer_bdp=1")
    many, calls_of_many = calls_of_export(tmp_path / "many", "aqm=dualpi2")
    each = (calls_of_many - calls_of_few) / (many - few)
    assert each < 4000, each
