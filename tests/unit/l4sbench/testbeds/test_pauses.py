# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pauses of hosts: what counts as one, what is computed from them, what hosts may answer."""

import pytest
from pydantic import ValidationError

from l4sbench.testbeds.ssh.pauses import Pauses, pauses_here


def gaps(*sizes_ms: float, seconds: float = 10.0) -> Pauses:
    """Return these pauses of 10 s."""
    return Pauses(events=1000, seconds=seconds, pauses=len(sizes_ms), sizes_ms=sizes_ms)


def test_figures_of_pauses() -> None:
    few = gaps(3.0, 1.0, 4.0, 2.0)
    assert (few.per_s, few.median_ms, few.max_ms, few.share) == (0.4, 2.0, 4.0, 0.001)
    assert few.p99_ms is None  # of fewer than 100 it would be the longest
    many = gaps(*(float(size) for size in range(1, 101)))
    assert (many.median_ms, many.p99_ms, many.max_ms) == (50.0, 99.0, 100.0)


def test_more_pauses_than_sizes_take_their_share_by_the_mean() -> None:
    some = Pauses(events=1000, seconds=10.0, pauses=40, sizes_ms=(1.0, 3.0))
    assert some.share == pytest.approx(0.008)


def test_a_host_without_pauses_has_no_sizes() -> None:
    none = gaps()
    assert (none.pauses, none.per_s, none.median_ms, none.p99_ms, none.max_ms) == (0, 0.0, None, None, None)
    assert gaps(seconds=0.0).per_s == 0.0


def test_plain_values_have_units_in_their_names() -> None:
    assert gaps(2.0).as_values() == {
        "events": 1000,
        "seconds": 10.0,
        "pauses": 1,
        "pauses_per_s": 0.1,
        "median_ms": 2.0,
        "p99_ms": None,
        "max_ms": 2.0,
        "paused_share": 0.0002,
        "sizes_ms": (2.0,),
    }


@pytest.mark.parametrize(
    "changed",
    [{"pauses": -1}, {"seconds": "nan"}, {"sizes_ms": [-1.0]}, {"sizes_ms": [1.0] * 20_001}, {"more": 1}],
)
def test_answers_of_hosts_are_checked(changed: dict[str, object]) -> None:
    plain = gaps(2.0).model_dump()
    Pauses.model_validate(plain)
    with pytest.raises(ValidationError):
        Pauses.model_validate({**plain, **changed})


def test_this_machine_is_measured_without_root() -> None:
    found = pauses_here(0.2)
    assert 0 < found.events <= 2001  # 10 kHz at most, fewer where the machine was busy
    assert found.pauses == len(found.sizes_ms)
    assert all(size >= 1 for size in found.sizes_ms)
