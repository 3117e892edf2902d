# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Facts about testbeds as values: traits and cost of a kind, software of one, needs of a plan."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Traffic = Literal["lean", "iperf3"]

LATE_MS: Final = 5.0
"""A timer that fires later than this counts as late: five DualPI2 steps, or half an RTT of 10 ms."""

MOST_LATE: Final = 0.1
"""Share of late timers of any node above which a trial is invalid; docs/nodes.md explains the choice."""


def late_share(late_ms: Sequence[float]) -> float:
    """Return the share of timers that fired late; where none fired, all of them did."""
    return sum(late > LATE_MS for late in late_ms) / len(late_ms) if late_ms else 1.0


@dataclass(frozen=True)
class CostModel:
    """The cost of one trial in seconds: `fixed_s + virtual_s * (per_virtual_s + per_mbit_s * rate_mbps)`.

    They are seconds of a processor where the traits say `processor_bound`, otherwise seconds by the clock.
    `fixed_s` is the cost of even the shortest trial (boot, collection); `per_virtual_s` is the cost of a
    second of measured time (1 on real hosts, near 0 in virtual time), `per_mbit_s` that of a megabit carried.
    `spread` is the standard deviation of its error where nothing was measured, as a logarithm.
    """

    fixed_s: float = 1.0
    per_virtual_s: float = 1.0
    per_mbit_s: float = 0.0
    spread: float = 0.3

    def running_s(self, virtual_s: float, rate_mbps: float) -> float:
        """Return the part that grows with the trial's length."""
        return virtual_s * (self.per_virtual_s + self.per_mbit_s * rate_mbps)

    def cost_s(self, virtual_s: float, rate_mbps: float) -> float:
        """Return the cost of a trial of `virtual_s` seconds at a bottleneck of `rate_mbps`."""
        return self.fixed_s + self.running_s(virtual_s, rate_mbps)

    def scaled(self, fixed_s: float, factor: float) -> CostModel:
        """Return it with another fixed part, and the growing part times `factor`."""
        return CostModel(fixed_s, self.per_virtual_s * factor, self.per_mbit_s * factor, self.spread)


@dataclass(frozen=True)
class TestbedTraits:
    """Facts about a kind of testbed that plan and engine need before anything runs.

    `wires`: its networks are the lab's own devices (kernels/lab/wire), which do all that factors state of the
    path; others have what `l4sbench.program.refusals` does not refuse, and noise of their own.
    `parallel`: several trials may run at once, at most `slots` of them if there is a limit. `queues`: more
    trials than that may be handed over and wait there, without that time counting against their limits.
    `switches`: the nodes that are switches, each with its hardware addresses by network. `cost` is the cost
    of a trial before any was measured; `processor_bound`: a trial computes from beginning to end, so that its
    cost is processor time; `memory_mb` is the memory of one running trial, unless its connections need more
    (`l4sbench.program.memory`). `slowdown`: a second by the clocks of its hosts takes up to so many of ours,
    as on emulated machines: limits by our clock are that much longer.
    """

    __test__: ClassVar[bool] = False  # not a test class, although pytest would take it for one

    default_traffic: Traffic = "iperf3"
    wires: bool = False
    parallel: bool = False
    slots: int | None = None
    queues: bool = False
    switches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cost: CostModel = CostModel()
    processor_bound: bool = False
    memory_mb: int = 0
    slowdown: float = 1.0

    def workers(self, jobs: int | None = None) -> int:
        """Return how many trials run at once when `jobs` are wanted.

        None: as many as the testbed has places for, or one per core that this process may use. A testbed
        that queues gets a quarter more, so that no place waits for the end of a trial's handling here.
        """
        if not self.parallel:
            return 1
        if self.queues and self.slots is not None:
            return jobs or self.slots + math.ceil(self.slots / 4)
        if self.slots is not None:
            return max(1, min(jobs or self.slots, self.slots))
        return max(1, len(os.sched_getaffinity(0)) if jobs is None else jobs)


@dataclass(frozen=True)
class Identity:
    """A testbed's software, by digest; part of a trial's inputs.

    `common` counts for every trial (kernel, guest userland, sampler), `modules` by kernel module name and
    `tools` by traffic tool (`lean`, `iperf3`) only for the trials that use them: a rebuilt module makes only
    its own trials new. `labs` has the software of further labs, by the value of the factor `lab`.
    """

    testbed: str
    kernel_release: str
    common: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    labs: Mapping[str, Identity] = field(default_factory=dict)

    def of(self, lab: object) -> Identity:
        """Return the software for cells whose factor `lab` has this value; None: they do not have it."""
        return self.labs.get(str(lab), self)


@dataclass(frozen=True)
class Needs:
    """The needs of a plan: names from the catalog, kernel modules, topologies, traffic tools.

    `options` are kernel options without `CONFIG_`, by the catalog entry that needs them; `catalog` are the
    folders from outside that entries come from; with `capture` packets of some trial are captured; `hosts`
    are factors, set in some cell, that only hosts on the wall clock can apply; `executables` are programs of
    the user's own, `labs` labs beside the default one, and `families` the versions of IP of cells.
    """

    topologies: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    congestion_controls: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    traffic: frozenset[str] = frozenset()
    options: Mapping[str, frozenset[str]] = field(default_factory=dict)
    catalog: tuple[Path, ...] = ()
    capture: bool = False
    hosts: frozenset[str] = frozenset()
    executables: frozenset[str] = frozenset()
    labs: frozenset[str] = frozenset()
    families: frozenset[Family] = frozenset({Family.IPV4})


@dataclass(frozen=True)
class Stage:
    """Cells that run on one state of a testbed: one choice of kernels for its hosts.

    Attributes:
        state: Host -> name of the kernel that it runs, of the hosts that may change theirs.
        cells: Ids.
        identity: The software there: as reported when the testbed was last in this state, otherwise named
            after the kernels to boot.
        known: True if it was reported.
    """

    state: Mapping[str, str]
    cells: frozenset[str]
    identity: Identity
    known: bool


@dataclass(frozen=True)
class Stages:
    """The states that the cells of a plan need; which cell needs which does not depend on what runs now.

    Attributes:
        all: In no order; together they have every cell once, except those that no state suits.
        now: Host -> name of the kernel that runs, if known.
        change_s: Approximate wall seconds from one state to the next; hosts restart at the same time.
    """

    all: tuple[Stage, ...]
    now: Mapping[str, str]
    change_s: float
