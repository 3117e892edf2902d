# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A plan says what would run and why."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.errors import InputError
from l4sbench.facts.traits import CostModel
from l4sbench.matrix import Matrix
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import Plan, as_json, plan
from l4sbench.planning.trials import Reason
from l4sbench.store import Run, StoreView, TrialFolder
from tests.unit.l4sbench import small

COST = CostModel(fixed_s=1.0, per_virtual_s=0.1, per_mbit_s=0.01)


def planned(wanted: Matrix, view: StoreView | None = None, filters: Sequence[str] = ()) -> Plan:
    return plan(wanted.select(filters), view or StoreView(), small.IDENTITY, small.TRAITS, Costs(COST))


def folder_of(plan_: Plan, cell: int, trial: int) -> tuple[str, str]:
    chosen = plan_.cells[cell].cell
    (digest,) = plan_.inputs(small.IDENTITY).digests(chosen, [trial])
    return chosen.id, f"{trial}-{digest}"


def test_everything_is_new_at_first(tmp_path: Path) -> None:
    first = planned(small.matrix(tmp_path))
    assert first.trials == {
        Reason.NEW: 12,
        Reason.ENDED: 0,
        Reason.FAILED_BEFORE: 0,
        Reason.GIVEN_UP: 0,
        Reason.INVALID_BEFORE: 0,
        Reason.INPUTS_CHANGED: 0,
        Reason.NO_CAPTURES: 0,
    }
    assert first.to_run == 12
    # Two seconds at 100 Mbit/s: 1 s fixed, 0.2 s for the time, 2 s for the megabits.
    assert first.work_s == pytest.approx(12 * 3.2)
    assert first.wall_s(4) == pytest.approx(3 * 3.2)
    assert first.wall_s(100) == pytest.approx(3.2)
    assert first.memory_mb(2) == 20


def test_trials_that_ended_without_captures_are_named(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path)
    first = planned(wanted)
    cell_id, one = folder_of(first, 0, 1)
    view = StoreView({cell_id: small.folders(one, "2-0123456789ab")})
    captured = plan(wanted, view, small.IDENTITY, small.TRAITS, Costs(COST), capture=True)
    reasons = [trial.reason for trial in captured.cells[0].trials]
    assert reasons == [Reason.NO_CAPTURES, Reason.INPUTS_CHANGED]
    assert captured.to_run == first.to_run
    assert as_json(captured, 1)["trials"] == {
        **{reason.value: 0 for reason in Reason},
        "new": 10,
        "ended without captures": 1,
        "inputs changed": 1,
    }


def test_every_reason(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path, trials="3")
    first = planned(wanted)
    cell_id, one = folder_of(first, 0, 1)
    _, two = folder_of(first, 0, 2)
    other_id, other = folder_of(first, 1, 2)
    view = StoreView(
        {cell_id: small.folders(one, f"{two}.failed-1", "3-0123456789ab"), other_id: small.folders(other)}
    )
    second = planned(wanted, view)
    reasons = [trial.reason for trial in second.cells[0].trials]
    assert reasons == [Reason.ENDED, Reason.FAILED_BEFORE, Reason.INPUTS_CHANGED]
    assert [trial.reason for trial in second.cells[1].trials] == [Reason.NEW, Reason.ENDED, Reason.NEW]
    assert second.to_run == 16


def test_without_a_testbed_what_stands_is_believed(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path)
    ids = [cell.id for cell in wanted.cells]
    view = StoreView({ids[0]: small.folders("1-aa", "2-aa.failed-1")})
    reasons = [t.reason for t in plan(wanted, view, None, small.TRAITS, Costs(COST)).cells[0].trials]
    assert reasons == [Reason.ENDED, Reason.FAILED_BEFORE]
    view = StoreView(
        {ids[0]: (TrialFolder(1, "aa", "invalid"), *small.folders(*(f"2-aa.failed-{n}" for n in (1, 2, 3))))}
    )
    unknown = plan(wanted, view, None, small.TRAITS, Costs(COST))
    assert [t.reason for t in unknown.cells[0].trials] == [Reason.INVALID_BEFORE, Reason.GIVEN_UP]


def test_filters_choose_cells(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path)
    assert len(planned(wanted, filters=["aqm=codel,fifo"]).cells) == 4
    assert planned(wanted, filters=["aqm=codel"]).needs.queues == {"codel"}
    with pytest.raises(InputError):
        planned(wanted, filters=["aqmm=codel"])


def test_needs_name_what_the_cells_use(tmp_path: Path) -> None:
    wanted = planned(small.matrix(tmp_path)).needs
    assert wanted.queues == {"fifo", "codel", "dualpi2"}
    assert wanted.congestion_controls == {"prague", "cubic"}
    assert wanted.modules == {"tcp_prague"}
    assert wanted.traffic == {"lean"}
    assert wanted.topologies == {"line6"}


def test_rows_follow_the_first_axis(tmp_path: Path) -> None:
    axes = (
        small.AXES
        + "  pairing: [{classic.cc: cubic, classic.ecn: classic}, {classic.cc: bbr1, classic.ecn: 'off'}]\n"
    )
    found = planned(small.matrix(tmp_path, axes))
    assert [row.axes[0].values for row in found.rows] == [(("fifo",),), (("codel",),), (("dualpi2",),)]
    codel = found.rows[1]
    assert [spread.names for spread in codel.axes] == [
        ("aqm",),
        ("buffer_bdp",),
        ("classic.cc", "classic.ecn"),
    ]
    assert codel.axes[2].values == (("cubic", "classic"), ("bbr1", "off"))
    assert (codel.cells, codel.complete, codel.trials[Reason.NEW]) == (4, True, 8)
    assert codel.work_s == pytest.approx(8 * 3.2)
    assert str(found.common["rate"]) == "100mbit"
    assert "aqm" not in found.common


def test_a_row_that_lacks_cells_says_so(tmp_path: Path) -> None:
    wanted = small.matrix(
        tmp_path, "  aqm: [fifo, codel]\n  buffer_bdp: [1, 4]\n  classic.ecn: ['off', classic]\n"
    )
    some = replace(wanted, cells=wanted.cells[:3] + wanted.cells[4:])
    assert [row.complete for row in planned(some).rows] == [False, True]


def test_cautions_are_grouped(tmp_path: Path) -> None:
    # Half a millisecond of buffer is below CoDel's target of 5 ms.
    wanted = small.matrix(tmp_path, "  aqm: [codel]\n  buffer_bdp: [0.05]\n  rtt: [10ms, 11ms]\n")
    found = planned(wanted).cautions
    assert found
    assert all(caution.cells for caution in found)
    assert {cell for caution in found for cell in caution.cells} == {cell.id for cell in wanted.cells}


def test_cautions_that_differ_in_figures_are_one(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path, "  aqm: [codel]\n  buffer_bdp: [0.05, 0.1]\n  rtt: [10ms, 11ms]\n")
    (found,) = planned(wanted).cautions
    assert str(found) == (
        "codel seldom marks, as its aqm.target is not below its buffer: "
        "5ms of queue against 500us at 100mbit in the first, 3 other sizes in others"
    )
    assert found.cells == tuple(cell.id for cell in wanted.cells)


def test_adaptive_trials_are_planned_up_to_the_first_look(tmp_path: Path) -> None:
    found = planned(small.matrix(tmp_path, trials="{min: 3, max: 10, until: decided}"))
    assert found.to_run == 6 * 3
    assert found.most_added == 6 * 7


def test_order_is_shuffled_by_the_seed_alone(tmp_path: Path) -> None:
    found = planned(small.matrix(tmp_path))

    def order(plan_: Plan, seed: int) -> list[tuple[str, int]]:
        return [(cell.cell.id, trial.trial) for cell, trial in plan_.batches[0].in_order(seed)]

    assert order(found, 1) == order(planned(small.matrix(tmp_path)), 1)
    assert order(found, 1) != order(found, 2)
    assert sorted(order(found, 1)) == sorted(order(found, 2))
    assert order(found, 1) != [(cell.cell.id, trial.trial) for cell in found.cells for trial in cell.trials]


PLANE = (
    "  aqm: [fifo, codel, pie, dualpi2]\n  buffer_bdp: [1, 2, 4]\n"
    "  rate: [10mbit, 20mbit, 50mbit]\n  rtt: [5ms, 10ms]\n"
)


def test_a_run_that_spreads_covers_its_plane_evenly_however_far_it_is(tmp_path: Path) -> None:
    found = planned(small.matrix(tmp_path, PLANE, trials="3", extra="spread: [rate, rtt]\n"))
    spread = found.matrix.spread
    assert spread == ("rate", "rtt")
    (batch,) = found.batches
    order = batch.in_order(5, spread)
    assert len(order) == len(found.cells) * 3
    cells = [planned.cell for planned, _ in order]
    for at in range(0, len(order), 3):  # all trials of a cell, then the next cell
        assert [trial.trial for _, trial in order[at : at + 3]] == [1, 2, 3]
        assert len({cell.id for cell in cells[at : at + 3]}) == 1
        points = Counter((cell.rate, cell.rtt) for cell in cells[: at + 3 : 3])
        assert max(points.values()) - (min(points.values()) if len(points) == 6 else 0) <= 1
    queues = Counter(cell.aqm for cell in cells[: 3 * 36 : 3])  # not one queue after the other
    assert min(queues.values()) >= 3
    assert batch.in_order(6, spread) != order
    assert batch.in_order(5, spread) == order


def test_rounds_are_those_of_all_cells_so_that_a_resumed_run_goes_on(tmp_path: Path) -> None:
    found = planned(small.matrix(tmp_path, PLANE, trials="2", extra="spread: [rate, rtt]\n"))
    (batch,) = found.batches
    order = batch.in_order(5, ("rate", "rtt"))
    done = {(planned.cell.id, trial.trial) for planned, trial in order[:31]}
    rest = replace(
        batch,
        cells=tuple(
            cell._replace(
                trials=tuple(
                    trial._replace(reason=Reason.ENDED) if (cell.cell.id, trial.trial) in done else trial
                    for trial in cell.trials
                )
            )
            for cell in batch.cells
        ),
    )
    assert [(cell.cell.id, trial.trial) for cell, trial in rest.in_order(5, ("rate", "rtt"))] == [
        (cell.cell.id, trial.trial) for cell, trial in order[31:]
    ]


def test_json_is_plain(tmp_path: Path) -> None:
    plain = json.loads(json.dumps(as_json(planned(small.matrix(tmp_path)), jobs=2)))
    assert plain["trials_to_run"] == 12
    assert plain["cells"][0]["factors"]["rate"] == "100mbit"
    assert plain["cells"][0]["trials"][0] == {"trial": 1, "reason": "new"}


@pytest.mark.long
def test_100_000_cells_plan_and_resume(tmp_path: Path) -> None:
    axes = "".join(
        f"  {name}: [{', '.join(values)}]\n"
        for name, values in {
            "aqm": ["fifo", "codel", "pie", "fq-codel", "dualpi2"],
            "buffer_bdp": [str(n / 4) for n in range(1, 21)],
            "rtt": [f"{n}ms" for n in range(1, 41)],
            "rate": [f"{n}mbit" for n in range(10, 60, 2)],
        }.items()
    )
    wanted = small.matrix(tmp_path, axes, trials="3")
    assert len(wanted.cells) == 100_000
    first = planned(wanted)
    cells = tmp_path / "run" / "cells"
    inputs = first.inputs(small.IDENTITY)
    for each in wanted.cells:
        (digest,) = inputs.digests(each, [1])
        (cells / each.id / f"1-{digest}").mkdir(parents=True)
    second = planned(wanted, Run(tmp_path / "run").view())
    shutil.rmtree(cells)
    assert second.trials[Reason.ENDED] == 100_000


def test_baselines_are_planned_apart(tmp_path: Path) -> None:
    found = planned(small.matrix(tmp_path, extra="baselines: solo\n"))
    assert (len(found.asked), len(found.baselines), len(found.cells)) == (6, 12, 18)
    assert found.to_run == 36
    assert sum(row.cells for row in found.rows) == 6
    assert all(row.complete for row in found.rows)
    assert str(found.common["classic.cc"]) == "cubic"
    assert not [caution for caution in found.cautions if "no group of this cell" in caution.message]
    plain = as_json(found, 2)["cells"]
    assert isinstance(plain, list)
    assert sum(cell["baseline"] for cell in plain) == 12
