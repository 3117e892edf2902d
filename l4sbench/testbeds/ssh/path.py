# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The round-trip time that the path between hosts has by itself, which `rtt: measured` means.

Before any queue is set up the nodes that send flows send echo requests to the receivers. The shortest answer
of each pair counts, of several pairs the longest of these, to three digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from l4sbench.errors import InputError, Problem, TestbedError
from l4sbench.program import path_programs
from l4sbench.testbeds.ssh import ansible
from l4sbench.testbeds.ssh.trialvars import trial_variables
from l4sbench.text.models import first_problem
from l4sbench.text.units import Duration

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell
    from l4sbench.testbeds.ssh.declared import Declared

_LIMIT_S: Final = 300.0
_DIGITS: Final = 3
_LEAST: Final = Duration(1_000)

_Ms = Annotated[float, Field(gt=0, lt=3.6e6, allow_inf_nan=False)]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    round_trips_ms: Mapping[str, Mapping[str, _Ms | None]] = Field(max_length=1000)


def require_path(hosts: Declared) -> None:
    """Raise InputError if the hosts have no path whose round-trip time can be measured."""
    if len(hosts.hosts) == 1:
        message = "it holds all nodes, and networks within a host have no delay of their own"
        hint = "write the rtt as a duration"
        raise InputError([Problem(str(hosts.inventory), hosts.hosts[0].name, message, hint)])
    if hosts.switching:
        raise InputError("the path through a switch cannot be measured", "write the rtt as a duration")


def measure(hosts: Declared, owner: str) -> Duration:
    """Measure the path of the hosts' cells.

    Args:
        hosts: The hosts; they are prepared.
        owner: This controller's name for hosts.

    Raises:
        TestbedError: a host cannot be reached, or a receiver does not answer.
    """
    shapes: dict[object, Cell] = {}
    for cell in hosts.cells:
        shapes.setdefault((cell.topology, cell.family), cell)
    longest_ms = max(_longest_ms(hosts, cell, owner) for cell in shapes.values())
    return rounded(longest_ms)


def rounded(ms: float) -> Duration:
    """Return a measured time to three digits: the last ones of a path differ each time."""
    ns = ms * 1e6
    unit = 10 ** max(0, math.floor(math.log10(ns)) + 1 - _DIGITS)
    return max(_LEAST, Duration(round(ns / unit) * unit), key=lambda one: one.ns)


def _longest_ms(hosts: Declared, cell: Cell, owner: str) -> float:
    place = hosts.catalog.topology(cell.topology)
    programs = path_programs(cell, place, hosts.catalog)
    limit_s = _LIMIT_S * hosts.slowdown
    given = trial_variables(programs, place.of_family(cell.family), "path", owner, limit_s)
    played = ansible.play("path.yml", hosts.inventory, hosts.names, given, limit_s=limit_s)
    if played.wrong:
        raise TestbedError(f"cannot measure the path: {ansible.listed(played.wrong)}")
    found = [pair for name, outcome in played.hosts.items() for pair in _pairs(name, outcome.answer)]
    for node, address, rtt_ms in found:
        if rtt_ms is None:
            hint = "let the experiment's networks carry ICMP, or write the rtt as a duration"
            raise TestbedError(f"{address} does not answer the echo requests of {node}", hint)
    if not found:
        raise TestbedError("cannot measure the path: no host sends flows")
    return max(rtt_ms for *_, rtt_ms in found if rtt_ms is not None)


def _pairs(host: str, answer: Mapping[str, object]) -> Iterator[tuple[str, str, float | None]]:
    """Yield node, address and round-trip time of each measurement of a host, whose answer is data."""
    try:
        read = _Answer.model_validate(dict(answer))
    except ValidationError as error:
        raise TestbedError(f"{host}: its answer is not a measurement: {first_problem(error)}") from error
    for node, own in read.round_trips_ms.items():
        yield from ((node, address, rtt_ms) for address, rtt_ms in own.items())
