# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The pauses of hosts: gaps of at least 1 ms in a timer that should fire every 0.1 ms.

The helper measures them (roles/helper/files/helper/pauses.py), here or on the hosts of an inventory.
Their sizes and rate are what `path.pause` and `path.pause_every` give the lab.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, ValidationError

from l4sbench.disk import assets
from l4sbench.errors import TestbedError
from l4sbench.testbeds.ssh import ansible
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.text.models import Strict, first_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_FOR_P99: Final = 100
"""Number of pauses below which their 99 % quantile would be the longest one."""

_BEYOND_S: Final = 60.0
"""Time for connecting and starting, beyond the measurements."""

_Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Pauses(Strict):
    """The pauses of one host.

    Attributes:
        events: Number of timers that fired.
        seconds: Time between the first and the last one.
        pauses: Number of gaps of at least 1 ms.
        sizes_ms: Their sizes in the order in which they came; at most 20,000.
    """

    events: int = Field(ge=0)
    seconds: _Positive
    pauses: int = Field(ge=0)
    sizes_ms: tuple[_Positive, ...] = Field(max_length=20_000)

    @property
    def per_s(self) -> float:
        """Number of pauses per second."""
        return self.pauses / self.seconds if self.seconds else 0.0

    @property
    def median_ms(self) -> float | None:
        """Median size; None without pauses."""
        return self._quantile(0.5)

    @property
    def p99_ms(self) -> float | None:
        """99 % quantile of the sizes; None with fewer than 100 pauses."""
        return self._quantile(0.99) if len(self.sizes_ms) >= LEAST_FOR_P99 else None

    @property
    def max_ms(self) -> float | None:
        """Longest pause; None without pauses."""
        return max(self.sizes_ms, default=None)

    @property
    def share(self) -> float:
        """Share of the time that pauses take; of more pauses than sizes, by the mean of these."""
        if not self.sizes_ms or not self.seconds:
            return 0.0
        known_s = sum(self.sizes_ms) / 1000
        return min(1.0, known_s / self.seconds * (self.pauses / len(self.sizes_ms)))

    def as_values(self) -> dict[str, object]:
        """Return the figures and all sizes as plain data, units in the names."""
        return {
            "events": self.events,
            "seconds": self.seconds,
            "pauses": self.pauses,
            "pauses_per_s": round(self.per_s, 3),
            "median_ms": self.median_ms,
            "p99_ms": self.p99_ms,
            "max_ms": self.max_ms,
            "paused_share": round(self.share, 4),
            "sizes_ms": self.sizes_ms,
        }

    def _quantile(self, q: float) -> float | None:
        ordered = sorted(self.sizes_ms)
        return ordered[math.ceil(q * len(ordered)) - 1] if ordered else None


def pauses_here(seconds: float) -> Pauses:
    """Measure this machine for this long.

    Raises:
        TestbedError: The measurement failed.
    """
    program = assets.folder("roles") / "helper" / "files" / "helper" / "pauses.py"
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(program), str(seconds)],
            capture_output=True,
            text=True,
            timeout=seconds + _BEYOND_S,
            check=True,
        )
        return Pauses.model_validate_json(done.stdout)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise TestbedError(f"cannot measure pauses: {said[-1]}") from error
    except (OSError, subprocess.SubprocessError, ValidationError) as error:
        raise TestbedError(f"cannot measure pauses: {error}") from error


def pauses_on(inventory: Path, seconds: float) -> Mapping[str, Pauses]:
    """Measure the hosts of an inventory that hold nodes, one after the other; the result is by host.

    Raises:
        InputError: The inventory cannot be read, or describes no hosts as docs/ssh.md says.
        TestbedError: A host cannot be reached, or its measurement failed.
    """
    hosts = hosts_of(read_inventory(inventory), str(inventory))
    names = [host.name for host in hosts]
    limit_s = sum(host.slowdown for host in hosts) * seconds + _BEYOND_S
    variables = {"l4sbench_seconds": seconds}
    played = ansible.play("pauses.yml", inventory, names, variables, limit_s=limit_s)
    found, wrong = dict[str, Pauses](), list[str]()
    for name in names:
        outcome = played.hosts[name]
        if outcome.status != "ok":
            wrong.append(f"{name}: {outcome.reason()}")
            continue
        try:
            # what a host answers is data
            found[name] = Pauses.model_validate_json(json.dumps(outcome.answer.get("pauses")))
        except ValidationError as error:
            wrong.append(f"{name}: its answer is not a measurement: {first_problem(error)}")
    if wrong:
        raise TestbedError("; ".join(wrong))
    return found
