# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Which workers may run a lab."""

from typing import Any

import pytest

from l4sbench.testbeds.dask.answers import Facts
from l4sbench.testbeds.dask.worker import facts, unfit

OURS = Facts(
    machine="x86_64",
    libc="glibc",
    libc_version=(2, 36),
    python="3.11",
    l4sbench="0.1.0",
    code="abc",
    zlib="1.3.1",
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"libc_version": (2, 40)}, ""),
        ({"libc_version": (3, 0)}, ""),
        ({"zlib": "1.2"}, ""),
        ({"machine": "aarch64"}, "its architecture is aarch64, the lab's is x86_64"),
        ({"libc": "musl"}, "its C library is musl, the lab's is glibc"),
        ({"libc_version": (2, 9)}, "its glibc is 2.9, the lab needs 2.36 or newer"),
        ({"l4sbench": "0.2.0"}, "its l4sbench is 0.2.0 (abc), this one is 0.1.0 (abc)"),
        ({"code": "def"}, "its l4sbench is 0.1.0 (def), this one is 0.1.0 (abc)"),
        ({"python": "3.13"}, "its Python is 3.13, this one is 3.11"),
    ],
)
def test_a_worker_that_cannot_run_the_lab_is_named_with_the_reason(
    change: dict[str, Any], reason: str
) -> None:
    assert unfit(OURS.model_copy(update=change), OURS) == reason


def test_this_machine_is_fit_for_its_own_lab() -> None:
    assert unfit(facts(), facts()) == ""
    assert facts().machine
    assert facts().libc_version
