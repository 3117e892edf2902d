# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs on a testbed that changes its kernels: cells that need the same ones run together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from l4sbench.engine.loop import Engine, Order, RunResult, execute, under_way
from l4sbench.errors import PlaceLost, TrialFailed
from l4sbench.facts import events
from l4sbench.facts.traits import Identity, Stage
from l4sbench.planning.plan import ReadyBatch, StagedBatch

if TYPE_CHECKING:
    from l4sbench.planning.plan import Plan
    from l4sbench.store import RunWriter

Enter: TypeAlias = Callable[[Stage, threading.Event], Identity]
"""Brings the testbed into a state, see `l4sbench.testbeds.staged.Staged`."""


def execute_stages(order: Order, enter: Enter) -> RunResult:
    """Do as `l4sbench.engine.loop.execute` does, with a testbed that enters a state before each batch.

    When it cannot, the trials of the batch fail with its reason, and the next batch is entered. A plan for a
    testbed that may change none of its kernels is executed as it is.
    """
    if not order.plan.staged:
        return execute(order)
    with under_way(order) as engine:
        for batch in order.plan.staged:
            _run_batch(engine, order.plan, order.writer, batch, enter)
    return engine.result


def _run_batch(engine: Engine, plan: Plan, writer: RunWriter, batch: StagedBatch, enter: Enter) -> None:
    stage, remembered = batch.stage, plan.inputs(batch.stage.identity)
    if stage.known:
        batch = engine.with_further(batch, remembered)
    if not batch.to_run:
        return
    reason = ""
    try:
        ready = plan.entered(batch, _entered(engine, batch, enter), writer.view)
    except TrialFailed as failure:
        reason, ready = failure.reason, ReadyBatch(batch.cells, remembered)
    engine.correct(batch, ready)
    more, more_s = ready.to_run - batch.to_run, ready.work_s - batch.work_s
    engine.tell(events.StageEntered, reason, more, more_s, engine.control.jobs * batch.change_s)
    engine.run(ready, not_ready=reason)


def _entered(engine: Engine, batch: StagedBatch, enter: Enter) -> Identity:
    while True:
        engine.tell(events.StageBegun, batch.stage.state, batch.changes, batch.to_run)
        with suppress(PlaceLost):  # it is entered again, with the places that are left
            return engine.alone("the change of its kernels", partial(enter, batch.stage))
