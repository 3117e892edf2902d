# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""An inputs digest changes with what a trial does, and with nothing else."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from l4sbench.catalog import Catalog
from l4sbench.facts.cell import Cell
from l4sbench.facts.traits import Identity, TestbedTraits
from l4sbench.planning import inputs
from l4sbench.planning.inputs import TrialInputs
from tests.unit.l4sbench import small

IDENTITY = Identity(
    "virtual", "7.3.4", {"kernel": "k"}, {"tcp_prague": "p", "tcp_other": "o"}, {"lean": "l", "iperf3": "i"}
)


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return small.matrix(tmp_path).cells[0]


def digest(
    cell: Cell,
    trial: int = 1,
    *,
    catalog: Catalog | None = None,
    seed: int = 1,
    identity: Identity = IDENTITY,
    traits: TestbedTraits = small.TRAITS,
) -> str:
    (found,) = TrialInputs(catalog or small.catalog(), seed, identity, traits).digests(cell, [trial])
    return found


def test_a_trial_with_captures_serves_without_and_not_the_other_way_round(cell: Cell) -> None:
    plain, captured = (
        TrialInputs(small.catalog(), 1, IDENTITY, small.TRAITS, capture=capture) for capture in (False, True)
    )
    (own,), (other,) = plain.digests(cell, [1]), captured.digests(cell, [1])
    assert own != other
    assert plain.accepted(cell, [1]) == [(own, other)]
    assert captured.accepted(cell, [1]) == [(other,)]


def test_a_cell_that_captures_has_one_digest(tmp_path: Path) -> None:
    cell = small.matrix(tmp_path, extra="capture: headers\n").cells[0]
    plain, captured = (
        TrialInputs(small.catalog(), 1, IDENTITY, small.TRAITS, capture=capture) for capture in (False, True)
    )
    assert plain.accepted(cell, [1]) == captured.accepted(cell, [1])
    assert len(plain.accepted(cell, [1])[0]) == 1


def test_equal_inputs_have_equal_digests(cell: Cell) -> None:
    assert digest(cell) == digest(Cell.from_json(cell.to_json()))
    assert len(digest(cell)) == inputs.DIGITS


@pytest.mark.parametrize(
    "identity",
    [
        replace(IDENTITY, testbed="ssh"),
        replace(IDENTITY, kernel_release="7.4.0"),
        replace(IDENTITY, common={"kernel": "k2"}),
        replace(IDENTITY, modules={"tcp_prague": "p2", "tcp_other": "o"}),
        replace(IDENTITY, tools={"lean": "l2", "iperf3": "i"}),
    ],
)
def test_what_runs_is_an_input(cell: Cell, identity: Identity) -> None:
    assert digest(cell, identity=identity) != digest(cell)


@pytest.mark.parametrize(
    "identity",
    [
        replace(IDENTITY, modules={"tcp_prague": "p", "tcp_other": "o2"}),
        replace(IDENTITY, modules={"tcp_prague": "p"}),
        replace(IDENTITY, tools={"lean": "l", "iperf3": "i2"}),
    ],
)
def test_what_the_cell_does_not_use_is_none(cell: Cell, identity: Identity) -> None:
    assert digest(cell, identity=identity) == digest(cell)


def test_cell_trial_seed_and_traits_are_inputs(cell: Cell, tmp_path: Path) -> None:
    found = [
        digest(cell),
        digest(small.matrix(tmp_path).cells[1]),
        digest(cell, 2),
        digest(cell, seed=2),
        digest(cell, traits=replace(small.TRAITS, wires=False)),
        digest(cell, traits=replace(small.TRAITS, default_traffic="iperf3")),
        digest(Cell.whole(replace(cell.common.whole(cell.own), group_names=cell.group_names[::-1]))),
    ]
    assert len(set(found)) == len(found)


def test_only_the_catalog_entries_of_the_cell_are_inputs(cell: Cell) -> None:
    catalog = small.catalog()
    assert cell.aqm == "fifo"
    changed = {name: replace(queue, digest="changed") for name, queue in catalog.queues.items()}
    fewer = {"fifo": catalog.queues["fifo"]}
    others = changed | fewer
    assert digest(cell, catalog=replace(catalog, queues=MappingProxyType(fewer))) == digest(cell)
    assert digest(cell, catalog=replace(catalog, queues=MappingProxyType(others))) == digest(cell)
    assert digest(cell, catalog=replace(catalog, queues=MappingProxyType(changed))) != digest(cell)


def test_the_authors_of_programs_are_all_there() -> None:
    here = Path(inputs.__file__).parents[1]
    assert [name for name in inputs.AUTHORS if not (here / name).exists()] == []


def test_what_only_reads_has_no_say_in_programs() -> None:
    here = Path(inputs.__file__).parents[1]
    files = [file for name in inputs.AUTHORS for file in [here / name, *(here / name).glob("*.py")]]
    writers = [
        file for file in files if file.suffix == ".py" and file.name not in {*inputs.READERS, "__init__.py"}
    ]
    assert {file.name for file in files} >= inputs.READERS
    for reader in inputs.READERS:
        module = f"l4sbench.program.{reader.removesuffix('.py')} "
        assert [file for file in writers if module in file.read_text(encoding="utf-8")] == []
