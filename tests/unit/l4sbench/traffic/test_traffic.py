# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Command lines of the traffic tools."""

from __future__ import annotations

from typing import Any

import pytest

from l4sbench.errors import InputError
from l4sbench.text.units import Duration, Percent, Rate, Size
from l4sbench.traffic import SENDS, Flow
from l4sbench.traffic.family import Family
from l4sbench.traffic.send import slow_start_rounds


def flow(length: str) -> Flow:
    return Flow("l4s-0", "10.0.5.100", 5001, "prague", Duration.parse(length))


def bulk(length: str, tool: str) -> tuple[str, str]:
    both = SENDS["bulk"].of({}).commands(flow(length), tool)
    return " ".join(both.sender), " ".join(both.receiver)


def test_lean() -> None:
    assert bulk("60s", "lean") == (
        "lab-traffic send --to 10.0.5.100 --port 5001 --seconds 60 --interval 1 --cc prague --flow l4s-0",
        "lab-traffic receive --port 5001 --seconds 60 --interval 1",
    )


def test_iperf3() -> None:
    assert bulk("60s", "iperf3") == (
        "iperf3 -c 10.0.5.100 -p 5001 -t 60 -C prague -i 1 -J",
        "iperf3 -s -1 -p 5001 -i 1 -J",
    )


@pytest.mark.parametrize(
    ("length", "written"), [("500ms", "0.5"), ("1h", "3600"), ("1234567.000000001s", "1234567.000000001")]
)
def test_parts_of_seconds_are_kept(length: str, written: str) -> None:
    words = bulk(length, "lean")[0].split()
    assert words[words.index("--seconds") + 1] == written


def test_iperf3_refuses_parts_of_seconds() -> None:
    with pytest.raises(
        InputError, match=r"duration: iperf3 runs for whole seconds, .* l4s-0 .* 1\.5s; use traffic"
    ):
        bulk("1500ms", "iperf3")


def of(tool: str, send: str, **factors: Any) -> tuple[str, str]:
    kind = SENDS[send]
    cc = "reno" if kind.by_tcp else ""
    both = kind.of(factors).commands(Flow("x-0", "10.0.5.100", 5003, cc, Duration(10**10)), tool)
    return " ".join(both.sender), " ".join(both.receiver)


TO = "--to 10.0.5.100 --port 5003 --seconds 10 --interval 1"
HERE = "--port 5003 --seconds 10 --interval 1"


def test_every_kind_of_traffic_has_its_commands() -> None:
    rate, size = Rate(9_800_000), Size(50)
    assert of("lean", "bulk", bytes=Size(30_000_000)) == (
        f"lab-traffic send {TO} --cc reno --bytes 30000000 --flow x-0",
        f"lab-traffic receive {HERE} --bytes 30000000",
    )
    assert of("lean", "paced", rate=rate, codepoint="ect1") == (
        f"lab-traffic pace {TO} --size 1472 --frames 9800000/12112 --codepoint 1 --flow x-0",
        f"lab-traffic count {HERE} --size 1472",
    )
    assert of("lean", "syn-flood", rate=rate, codepoint="ect0") == (
        f"lab-traffic pace {TO} --syn --frames 9800000/432 --codepoint 2 --flow x-0",
        f"lab-traffic count {HERE} --syn",
    )
    assert of("lean", "requests", period=Duration(10**8), size=size) == (
        f"lab-traffic request {TO} --size 50 --every-ns 100000000 --cc reno --answer --flow x-0",
        f"lab-traffic answer {HERE} --size 50 --answer",
    )
    each, every = "--size 50 --reply 500", "--every-ns 1000000000 --cc reno"
    assert of("lean", "pages", period=Duration(10**9), size=size) == (
        f"lab-traffic pages {TO} {each} --objects 50 --connections 6 {every} --flow x-0",
        f"lab-traffic answer {HERE} {each}",
    )
    page = of("lean", "pages", period=Duration(10**9), size=size, objects=7, connections=2)[0]
    assert " --objects 7 --connections 2 " in page
    assert of("lean", "connect-flood", rate=Rate(3_880_000), size=size) == (
        f"lab-traffic request {TO} --size 50 --every-ns 800000 --cc reno --flow x-0",
        f"lab-traffic answer {HERE} --size 50",
    )


TO6 = "--to fd4c:3453:46::a00:564 --port 5003 --seconds 10 --interval 1"


def of6(tool: str, send: str, **factors: Any) -> tuple[str, str]:
    kind = SENDS[send]
    cc = "reno" if kind.by_tcp else ""
    flow = Flow("x-0", "fd4c:3453:46::a00:564", 5003, cc, Duration(10**10), family=Family.IPV6)
    both = kind.of(factors).commands(flow, tool)
    return " ".join(both.sender), " ".join(both.receiver)


def test_receivers_of_ipv6_are_told_and_rates_count_its_longer_header() -> None:
    rate, size = Rate(9_800_000), Size(50)
    assert of6("lean", "bulk") == (
        f"lab-traffic send {TO6} --cc reno --flow x-0",
        f"lab-traffic receive {HERE} --ipv6",
    )
    assert of6("lean", "paced", rate=rate, codepoint="ect1") == (
        f"lab-traffic pace {TO6} --size 1452 --frames 9800000/12112 --codepoint 1 --flow x-0",
        f"lab-traffic count {HERE} --size 1452 --ipv6",
    )
    assert of6("lean", "syn-flood", rate=rate, codepoint="ect0") == (
        f"lab-traffic pace {TO6} --syn --frames 9800000/592 --codepoint 2 --flow x-0",
        f"lab-traffic count {HERE} --syn --ipv6",
    )
    # 94 bytes of a SYN, 86 of four other segments, and the payload
    assert "--every-ns 1000000 " in of6("lean", "connect-flood", rate=Rate(3_904_000), size=size)[0]
    assert " -b 2814000 " in of6("iperf3", "paced", rate=Rate(3_000_000), size=Size(938), codepoint="ect0")[0]
    assert of6("flent", "flent", test="rrul")[0].startswith("flent rrul -6 -H fd4c:3453:46::a00:564 ")
    assert of6("flent", "flent", test="rrul")[1] == "netserver -D -6 -p 5003"
    assert of6("flent", "flent", test="udp_flood")[1] == "iperf -s -u -V"


def test_a_workload_is_read_from_a_file() -> None:
    assert of("lean", "workload", workload="web-search", load=Percent.parse("80%")) == (
        f"lab-traffic request {TO} --schedule %input --cc reno --flow x-0",
        f"lab-traffic answer {HERE}",
    )


def test_iperf3_paces_the_payload_so_that_the_frames_have_the_rate() -> None:
    sender, receiver = of("iperf3", "paced", rate=Rate(3_000_000), size=Size(958), codepoint="ect0")
    assert sender == (
        "iperf3 -c 10.0.5.100 -p 5003 -t 10 -u -b 2874000 -l 958 -S 2 --pacing-timer 100 -i 1 -J"
    )
    assert receiver == "iperf3 -s -1 -p 5003 -i 1 -J"


def test_a_test_of_flent_has_the_flow_s_name_and_its_server() -> None:
    sender, receiver = of("flent", "flent", test="ping")
    how = "-4 -H 10.0.5.100 --netperf-control-port 5003 -l 10 -d 0 -t x-0 -D %folder -r /dev/null"
    assert (sender, receiver) == (f"flent ping {how}", "irtt server")
    assert of("flent", "flent", test="udp_flood")[1] == "iperf -s -u"
    assert of("flent", "flent", test="rrul") == (f"flent rrul {how}", "netserver -D -4 -p 5003")


def test_every_kind_says_what_it_needs_and_takes() -> None:
    assert {name: (kind.needs(), kind.takes()) for name, kind in SENDS.items()} == {
        "bulk": ((), ("bytes",)),
        "connect-flood": (("rate", "size"), ()),
        "exec": (("exec_sender",), ("exec_receiver", "codepoint")),
        "flent": (("test",), ()),
        "pages": (("period", "size"), ("objects", "connections")),
        "paced": (("rate", "codepoint"), ("size",)),
        "requests": (("period", "size"), ()),
        "syn-flood": (("rate", "codepoint"), ()),
        "workload": (("workload", "load"), ()),
    }


@pytest.mark.parametrize(
    ("payload_bytes", "rounds"),
    [(1, 1), (14_480, 1), (14_481, 2), (3 * 14_480, 2), (3 * 14_480 + 1, 3), (1_000_000, 7)],
)
def test_slow_start_doubles_a_window_of_ten_segments(payload_bytes: int, rounds: int) -> None:
    assert slow_start_rounds(payload_bytes, 1448) == rounds


def test_round_trips_of_a_connection_and_of_a_page() -> None:
    period = Duration(10**9)
    workload = SENDS["workload"].of({"workload": "transfers", "load": Percent.parse("10%")})
    assert workload.round_trips(100_000, 1448) == 1 + 3
    assert SENDS["requests"].of({"period": period, "size": Size(50)}).round_trips(50, 1448) == 2
    page = SENDS["pages"].of({"period": period, "size": Size(20_000)})
    assert page.round_trips(50 * 20_000, 1448) == 9 + 2
    assert SENDS["bulk"].of({}).round_trips(50, 1448) is None


def test_a_factor_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="codepoint"):
        SENDS["paced"].of({"rate": Rate(10**6)})
