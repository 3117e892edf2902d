# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Memory of guests, by what is under way in a trial."""

from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.app.api import load_matrix
from l4sbench.facts.traits import CostModel
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import plan
from l4sbench.program.memory import guest_mb, tcp_mb
from l4sbench.store import StoreView
from tests.unit.l4sbench import small

HEAD = "matrix: m\nduration: 2s\nrule: none\naqm: fifo\n"

EVENTS = "events: {step: {at: 1s, rate: 1gbit}, far: {at: 1500ms, rtt: 200ms}}\n"
FLOOD = "{send: connect-flood, cc: cubic, size: 50B, rate: 1gbit}"


@pytest.mark.parametrize(
    ("text", "of_tcp", "of_guest"),
    [
        ("rate: 100mbit\nrtt: 10ms\nflows: {one: {cc: cubic}}\n", 192, 512),
        ("rate: 1gbit\nrtt: 10ms\nbuffer_bdp: 4\nflows: {one: {cc: cubic}}\n", 192, 512),
        # 25 MB per BDP, nine of them under way
        ("rate: 1gbit\nrtt: 200ms\nbuffer_bdp: 8\nflows: {one: {cc: cubic}}\n", 1717, 2048),
        ("rate: 1gbit\nrtt: 2ms\nbuffer_bdp: 1\nflows: {one: {cc: cubic, rtt: 200ms}}\n", 381, 768),
        (
            "rate: 10mbit\nrtt: 20ms\nbuffer_bdp: 1\nflows: {one: {cc: cubic}}\n" + EVENTS,
            381,
            768,
        ),
        (
            f"rate: 10mbit\nrtt: 10ms\nflows: {{one: {{cc: cubic}}, many: {FLOOD}}}\n",
            768,
            1024,
        ),
        ("rate: 100mbit\nrtt: 10ms\nflows: {one: {cc: cubic, count: 400}}\n", 192, 512),
        ("rate: 100mbit\nrtt: 10ms\nflows: {one: {cc: cubic, count: 1000}}\n", 192, 1024),
    ],
    ids=["usual", "within", "large", "own RTT", "events", "flood", "many", "most"],
)
def test_what_is_under_way_needs_memory(tmp_path: Path, text: str, of_tcp: int, of_guest: int) -> None:
    (tmp_path / "m.yaml").write_text(HEAD + text)
    matrix = load_matrix(tmp_path / "m.yaml")
    (cell,) = matrix.cells
    assert (tcp_mb(cell), guest_mb(cell, 512)) == (of_tcp, of_guest)
    guests = replace(small.TRAITS, memory_mb=512)
    planned = plan(matrix, StoreView(), small.IDENTITY, guests, Costs(CostModel()))
    assert planned.memory_mb(1) == of_guest
    assert (
        plan(matrix, StoreView(), small.IDENTITY, replace(guests, memory_mb=0), Costs(CostModel())).memory_mb(
            1
        )
        == 0
    )
