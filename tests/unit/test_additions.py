# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""docs/add-a-thing.md is true: each addition costs what its table says."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from l4sbench.app import api
from l4sbench.catalog import Catalog
from l4sbench.catalog.switches import switch_programs
from l4sbench.cli import main
from l4sbench.facts.factors import FACTORS
from l4sbench.topology import offered
from l4sbench.traffic import SENDS
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-a-thing.md").read_text(encoding="utf-8")

BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
"""The files that the page shows: a queue and a topology."""

MATRIX = """
matrix: mine
topology: line6
rate: 1mbit
rtt: 40ms
duration: 30s
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [fifo, codel]
"""

CC = """
name: my-vegas
kind: congestion-control
label: Vegas
about: It looks at delay.
kernel_name: vegas
needs: {kernel: "2.6.6", config: [TCP_CONG_VEGAS]}
module: {name: tcp_vegas}
ecn: {default: "off", allowed: ["off", classic], reacts: [classic]}
"""

KIND = """
from __future__ import annotations

from dataclasses import dataclass

from l4sbench.traffic.send import Flow, FlowCommands, Send, factor
from l4sbench.traffic.tools import lean
from l4sbench.text.units import Size


@dataclass(frozen=True, kw_only=True)
class Sips(Send):
    name = "sips"
    about = "one TCP connection that carries little"
    by_tcp = True

    sip: Size = factor("size", "send: sips: payload of each of its connections.", minimum=Size(1))

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        size = ("--bytes", str(self.sip.bytes))
        return lean(flow, ("send", "--cc", flow.kernel_cc, *size), ("receive", *size))
"""

READER = """
from __future__ import annotations

from collectors.reader import Reader


class SipsReader(Reader):
    send = "sips"
    receiver_counts = True
"""

SIPS = """
import sys
from collectors.flows import reader_of
from l4sbench.app import api

_, _, programs = api.programs_of(sys.argv[1])
for program in programs.values():
    for flow in program.flows:
        print(flow.group, flow.send, reader_of(flow.send).receiver_counts, *flow.argv)
"""

COLOURS = """
import sys
from l4sbench.matrix import Matrix
from pathlib import Path

print(*(group.colour for group in Matrix.load(Path(sys.argv[1])).cells[0].groups))
"""

ELSE = {"dctcp": "an ECN mode too", "red": "a colour too", "fq": "a family of queues too"}
"""Names of catalog entries that are words of their own as well."""


ALSO = {
    "bulk": "the kind of which verdicts are made",
    "exec": "a table too",
    "flent": "a table and a program too",
    "pages": "those of the documentation too",
    "requests": "a table too",
    "workload": "a thing that factors name",
}
"""Names of kinds of traffic that are words of their own as well."""


@pytest.fixture
def page_catalog(tmp_path: Path) -> Path:
    """The folder that the page tells to make."""
    entry, _ = BLOCKS
    (folder,) = re.findall(r"^    (mine/\S+)/module\.yml$", PAGE, re.MULTILINE)
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "module.yml").write_text(entry, encoding="utf-8")
    return tmp_path / "mine"


def commands(matrix: Path, catalog: Path, aqm: str) -> list[str]:
    """Every command line of the first cell with that queue."""
    _, _, programs = api.programs_of(matrix, [f"aqm={aqm}"], [catalog])
    return [" ".join(command.argv) for program in programs.values() for command in program.setup]


def test_an_experiment_is_one_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(MATRIX, encoding="utf-8")
    planned = api.plan_of(mine, options=api.RunOptions(runs=tmp_path))
    assert [cell.cell.aqm for cell in planned.plan.cells] == ["fifo", "codel"]
    assert planned.plan.to_run == 6


def test_a_queue_is_one_folder(page_catalog: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(MATRIX.replace("[fifo, codel]", "[codel-slow]"), encoding="utf-8")
    planned = api.plan_of(mine, options=api.RunOptions(catalog=(page_catalog,), runs=tmp_path))
    assert [cell.cell.aqm for cell in planned.plan.cells] == ["codel-slow"]
    (queue,) = [line for line in commands(mine, page_catalog, "codel-slow") if " codel " in line]
    assert re.search(r" codel limit \d+ target 15ms interval 300ms ecn$", queue)
    # the same by the matrix alone
    mine.write_text(mine.read_text(encoding="utf-8") + "catalog: [mine]\n", encoding="utf-8")
    assert [
        cell.cell.aqm for cell in api.plan_of(mine, options=api.RunOptions(runs=tmp_path)).plan.cells
    ] == ["codel-slow"]


def test_a_congestion_control_is_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "my-vegas"
    folder.mkdir(parents=True)
    (folder / "module.yml").write_text(CC, encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    mine.write_text(MATRIX.replace("cubic", "my-vegas"), encoding="utf-8")
    _, _, programs = api.programs_of(mine, [], [tmp_path / "mine"])
    flows = [" ".join(flow.argv) for program in programs.values() for flow in program.flows]
    assert any(re.search(r" vegas\b", flow) for flow in flows)


def test_a_topology_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text = BLOCKS
    (name,) = re.findall(r"^    (\w+\.yml)$", PAGE, re.MULTILINE)
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert main(["explain", "topology", str(tmp_path / name)]) == 0
    assert "flow group web: tx-web - delay - router =net-rx=> rx-web\n" in capsys.readouterr().out
    mine = tmp_path / "mine.yaml"
    mine.write_text(MATRIX.replace("line6", f"./{name}"), encoding="utf-8")
    planned = api.plan_of(mine, options=api.RunOptions(runs=tmp_path))
    assert {cell.cell.topology for cell in planned.plan.cells} == {"three"}
    _, _, programs = api.programs_of(mine)
    assert list(programs) == ["tx-a", "tx-b", "tx-web", "delay", "router", "rx-a", "rx-b", "rx-web"]
    assert [flow.receiver for program in programs.values() for flow in program.flows] == ["rx-a", "rx-b"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the code, to which modules can be added where they belong."""
    place = tmp_path / "copy"
    for part in ("l4sbench", "collectors", "reports"):
        shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("docs", "kernels", "matrices", "p4", "playbooks", "roles", "workloads", "pyproject.toml"):
        (place / part).symlink_to(ROOT / part)
    return place


def ran(copy: Path, group: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run Python there, with the path of a matrix whose group `l4s` has these factors."""
    mine = copy / "mine.yaml"
    text = MATRIX.replace("{cc: prague}", f"{{cc: prague, {group}}}") + "rule: none\n"
    mine.write_text(text, encoding="utf-8")
    words = [sys.executable, *argv, str(mine)]
    return subprocess.run(words, cwd=copy, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_kind_of_traffic_is_one_module(copy: Path) -> None:
    (copy / "l4sbench" / "traffic" / "sips.py").write_text(KIND, encoding="utf-8")
    (copy / "collectors" / "kinds" / "sips.py").write_text(READER, encoding="utf-8")
    done = ran(copy, "send: sips, sip: 20kB", "-c", SIPS)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("l4s sips True lab-traffic send --to ")
    assert first.endswith(" --cc prague --bytes 20000 --flow l4s-0")
    assert second.startswith("classic bulk False lab-traffic send ")
    plan = ("-m", "l4sbench", "plan")
    done = ran(copy, "send: sips", *plan)
    assert done.returncode == 2
    assert "l4s.sip: is missing; l4s.send: sips needs it" in done.stderr
    done = ran(copy, "sip: 1kB", *plan)
    assert "l4s.sip: does not apply to l4s.send: bulk; it applies to sips" in done.stderr


def test_a_factor_of_groups_is_one_field(copy: Path) -> None:
    file = copy / "l4sbench" / "facts" / "groups.py"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    (place,) = (number for number, line in enumerate(lines) if line.startswith("    to: str"))
    lines.insert(place, '    colour: str | None = _factor("str", "Its colour.", choices=("red", "blue"))\n')
    file.write_text("".join(lines), encoding="utf-8")
    done = ran(copy, "colour: red", "-c", COLOURS)
    assert done.stdout.split() == ["red", "None"], done.stderr
    done = ran(copy, "colour: rd", "-m", "l4sbench", "plan")
    assert 'l4s.colour: expected one of red, blue, not "rd"; did you mean red?' in done.stderr


def test_no_code_knows_a_kind_of_traffic() -> None:
    kinds = set(SENDS) - set(ALSO)
    assert len(kinds) >= 3
    own = ("l4sbench/traffic/", "collectors/kinds/")
    assert [found for found in known_to_code(kinds) if not found.startswith(own)] == []


def test_no_code_knows_a_topology() -> None:
    assert known_to_code(set(offered()) - {FACTORS["topology"].default}) == []


def test_no_code_knows_a_queue_or_a_congestion_control() -> None:
    catalog = Catalog.load()
    assert known_to_code({*catalog.queues, *catalog.congestion_controls} - set(ELSE)) == []


def test_no_code_knows_a_parameter_of_a_switch_s_program() -> None:
    """Of queues and congestion controls parameters have names, such as rtt, that much else has too."""
    programs = switch_programs().values()
    names = {name for one in programs for name in (one.rate, *one.takes, *one.constants, *one.lacks)}
    assert "rho" in names
    assert known_to_code(names - {"queues"}) == []  # a table


def known_to_code(names: set[Any]) -> list[str]:
    """Return where these names are texts of the code."""
    # how the published tables call things is data about them
    files = [path for part in ("l4sbench", "collectors", "reports") for path in (ROOT / part).rglob("*.py")]
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!s}"
        for path in files
        if path.parent.name != "published"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    ]


def test_the_page_names_these_tests() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    here = {name for name in globals() if name.startswith("test_")}
    assert named <= here
    assert len(named) >= 3
