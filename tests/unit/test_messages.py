# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Bad input files of every kind and exactly what the user reads: <case>.yml, <case>.txt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fablib_slices import load_slice_file
from l4sbench.app.prepare import require_possible
from l4sbench.catalog.reader import read_entry
from l4sbench.catalog.senders import read_sender
from l4sbench.disk.document import read
from l4sbench.disk.workloads import read_workload
from l4sbench.errors import InputError, Problem
from l4sbench.facts.traits import CostModel, TestbedTraits
from l4sbench.matrix import Matrix
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import plan
from l4sbench.store import StoreView
from l4sbench.testbeds import ssh
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.testbeds.ssh.images import read_image
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.topology import find_topology
from reports.compare import load_margins
from reports.published.claims import load_study
from reports.published.standards import load_margins as load_limits
from reports.published.standards import load_sheet
from reports.published.standards.candidates import load_candidate
from reports.result.regret import load_prevalence
from reports.result.rules import read_rule

if TYPE_CHECKING:
    from collections.abc import Callable

from l4sbench.catalog import Catalog

ROOT: Final = Path(__file__).parents[2]
ERRORS: Final = ROOT / "tests" / "errors"


def planned(path: Path, catalog: Catalog) -> object:
    """Plan the cells of a matrix for a testbed that has everything."""
    costs = Costs(CostModel(fixed_s=1.0, per_virtual_s=0.1, per_mbit_s=0.01))
    return plan(Matrix.load(path, catalog), StoreView(), None, TestbedTraits(default_traffic="lean"), costs)


READERS: Final[dict[str, Callable[[Path, Catalog], object]]] = {
    "cells": planned,
    "claims": lambda path, _: load_study(str(path)),
    "hosts": lambda path, catalog: require_possible(Matrix.load(path, catalog), ssh.TRAITS),
    "images": lambda path, _: read_image(path),
    "limits": lambda path, _: load_limits(path),
    "inventories": lambda path, _: hosts_of(read_inventory(path), str(path)),
    "margins": lambda path, _: load_margins(path),
    "matrix": Matrix.load,
    "modules": lambda path, _: read_entry(path),
    "prevalence": lambda path, _: load_prevalence(path),
    "rules": lambda path, _: read_rule(path),
    "senders": lambda path, _: load_candidate(path),
    "slices": lambda path, _: load_slice_file(path),
    "stacks": lambda path, _: read_sender(path),
    "standards": lambda path, _: load_sheet(str(path)),
    "topologies": lambda path, _: find_topology(str(path)),
    "workloads": lambda path, _: read_workload(path),
}
CASES: Final = sorted(
    path.relative_to(ERRORS)
    for kind in READERS
    for path in (ERRORS / kind).iterdir()
    if path.suffix != ".txt"
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_message(case: Path, small_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ERRORS / case.parent)
    with pytest.raises(InputError) as raised:
        READERS[case.parts[0]](Path(case.name), small_catalog)
    assert raised.value.exit_code == 2
    assert f"{raised.value}\n" == Path(case.stem + ".txt").read_text(encoding="utf-8")


def test_every_message_has_its_file() -> None:
    messages = {path.relative_to(ERRORS).with_suffix("") for path in ERRORS.rglob("*.txt")}
    assert messages == {case.with_suffix("") for case in CASES}


GOOD: Final = {
    "images": ROOT / "kernels" / "images" / "debian-stock.yml",
    "margins": ROOT / "reports" / "compare" / "default.yml",
    "modules": ROOT / "kernels" / "tcp_prague" / "module.yml",
    "rules": ROOT / "reports" / "result" / "rules" / "l4sbench1.yml",
    "stacks": ROOT / "senders" / "quinn" / "sender.yml",
    "standards": ROOT / "reports" / "published" / "standards" / "rfc9331.yml",
    "topologies": ROOT / "matrices" / "topologies" / "parking-lot.yml",
}
JUNK: Final = [None, True, -1, 10**30, 0.5, "", "x" * 300, "{limit", "*", [], {}, [[1]], {"a": {"b": 1}}]


def damaged(tree: Any, path: tuple[Any, ...], junk: object) -> Any:
    """Return the tree with `junk` at `path`; a path that is not there ends where it leaves the tree."""
    if not path or not isinstance(tree, dict | list) or not tree:
        return junk
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key = keys[path[0] % len(keys)]
    copied = tree.copy()
    copied[key] = damaged(tree[key], path[1:], junk)
    return copied


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(GOOD)),
    path=st.lists(st.integers(0, 30), min_size=1, max_size=4).map(tuple),
    junk=st.sampled_from(JUNK),
)
def test_every_problem_has_a_position(
    kind: str, path: tuple[int, ...], junk: object, tmp_path: Path, small_catalog: Catalog
) -> None:
    """A damaged file can be read, or all its problems have a line and column."""
    file = tmp_path / GOOD[kind].name
    file.write_text(json.dumps(damaged(read(GOOD[kind]).content, path, junk)))
    problems: tuple[Problem, ...] = ()
    try:
        READERS[kind](file, small_catalog)
    except InputError as error:
        problems = error.problems
    place = re.compile(rf"{re.escape(str(file))}:\d+:\d+")
    assert all(place.fullmatch(problem.where) for problem in problems)


SECRET: Final = "k3y:$y$j9T$Zq/0.Lw8Xc7Vb6Nm5.As4Df3Gh2Jk1Qw0Er9Ty8Ui7Op6-Pa5Sd4Fg3Hj2Kl1"
FOREIGN: Final = {
    "shadow": f"root:{SECRET}:20263:0:99999:7:::\n{SECRET}:!*:20263::::::\n",
    "map": f"{SECRET}: {SECRET}\nnested: {{{SECRET!r}: [{SECRET!r}, {{{SECRET!r}: {SECRET!r}}}]}}\n",
    "twice": f"{SECRET!r}: 1\n{SECRET!r}: 2\nin: {{{SECRET!r}: 1, {SECRET!r}: 2}}\n",
    "json": json.dumps({SECRET: [SECRET, {SECRET: SECRET}]}),
    "list": f"- {SECRET!r}\n- {SECRET!r}\n",
    "alias": f"a: *{re.sub('[^a-zA-Z0-9]', '', SECRET)}\n",
    "anchors": f"a: &{SECRET} 1\nb: [&{SECRET} 2, }}\n",
    "tag": f"a: !{re.sub('[^a-zA-Z0-9]', '', SECRET)} 1\nb: !{SECRET.replace('$', '')}!x 2\n",
    "directive": f"%YAML {re.sub('[^a-zA-Z0-9]', '', SECRET)}\n---\na: 1\n",
    "number": f"a: {'7' * 400}\nb: {'1' * 30}.5e999\nrate:  {'9' * 25}\n",
    "expression": f"name: expression\nrelease:  '(?P<{SECRET}'\nrate:  '{SECRET}'\n",
    "ini": f"[all]\n{SECRET} l4sbench_node={SECRET}\n[{SECRET}\n",
    "hosts": f"[all]\na l4sbench_node={SECRET} ansible_connection={SECRET} l4sbench_nodee={SECRET}\n",
    "host": f"all: {{hosts: {{{SECRET!r}: {{l4sbench_node: {SECRET!r}}}}}}}\n",
}
"""Files that are none of ours, each with a text that nobody is to see."""


def quoted_at_length(message: str, content: str, path: Path) -> list[str]:
    """Return what a message has in common with a file beyond 20 characters."""
    rest = message.replace(str(path), "")
    windows = {rest[start : start + 21] for start in range(len(rest) - 20)}
    return sorted(window for window in windows if window in content)


ANSIBLES: Final = frozenset({"shadow", "ini", "hosts", "host"})
"""Those that Ansible reads, which takes a second each."""


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in READERS for name in FOREIGN if kind != "inventories" or name in ANSIBLES],
)
def test_messages_quote_little_of_a_foreign_file(
    kind: str, name: str, tmp_path: Path, small_catalog: Catalog
) -> None:
    path = tmp_path / f"{name}{'' if kind == 'inventories' else '.yml'}"
    path.write_text(FOREIGN[name])
    with pytest.raises(InputError) as raised:
        READERS[kind](path, small_catalog)
    assert quoted_at_length(str(raised.value), FOREIGN[name], path) == []


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from([*sorted(GOOD), "matrix"]),
    path=st.lists(st.integers(0, 30), min_size=1, max_size=5).map(tuple),
    junk=st.sampled_from(
        [SECRET, SECRET.lower(), [SECRET], {SECRET: 1}, {SECRET: SECRET}, {"a": {SECRET: SECRET}}]
    ),
)
@example(kind="topologies", path=(6,), junk={SECRET: SECRET})
def test_messages_quote_little_of_damaged_files(
    kind: str, path: tuple[int, ...], junk: object, tmp_path: Path, small_catalog: Catalog
) -> None:
    good = GOOD.get(kind, ROOT / "matrices" / "quickstart.yaml")
    file = tmp_path / good.name
    file.write_text(json.dumps(damaged(read(good).content, path, junk)))
    message = ""
    try:
        READERS[kind](file, small_catalog)
    except InputError as error:
        message = str(error)
    assert quoted_at_length(message, f"{SECRET} {SECRET.lower()}", file) == []
