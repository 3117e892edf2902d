# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Command lines of the traffic tools."""

from __future__ import annotations

import pytest

from l4sbench.errors import InputError
from l4sbench.program.traffic import Flow, commands
from l4sbench.units import Duration


def flow(length: str) -> Flow:
    return Flow("l4s-0", "10.0.5.100", 5001, "prague", Duration.parse(length))


def test_lean() -> None:
    both = commands("lean", flow("60s"))
    assert " ".join(both.sender) == (
        "lab-traffic send --to 10.0.5.100 --port 5001 --seconds 60 --interval 1 --cc prague --flow l4s-0"
    )
    assert " ".join(both.receiver) == "lab-traffic receive --port 5001 --seconds 60 --interval 1"


def test_iperf3() -> None:
    both = commands("iperf3", flow("60s"))
    assert " ".join(both.sender) == "iperf3 -c 10.0.5.100 -p 5001 -t 60 -C prague -i 1 -J"
    assert " ".join(both.receiver) == "iperf3 -s -1 -p 5001 -i 1 -J"


@pytest.mark.parametrize(
    ("length", "written"), [("500ms", "0.5"), ("1h", "3600"), ("1234567.000000001s", "1234567.000000001")]
)
def test_parts_of_seconds_are_kept(length: str, written: str) -> None:
    argv = commands("lean", flow(length)).sender
    assert argv[argv.index("--seconds") + 1] == written


def test_iperf3_refuses_parts_of_seconds() -> None:
    with pytest.raises(
        InputError, match=r"duration: iperf3 runs for whole seconds, .* l4s-0 .* 1\.5s; use traffic"
    ):
        commands("iperf3", flow("1500ms"))


def test_an_unknown_tool_is_an_error() -> None:
    with pytest.raises(InputError, match="netperf is not a valid traffic tool; choose from lean, iperf3"):
        commands("netperf", flow("1s"))
