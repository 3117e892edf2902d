# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The round-trip time that a path has by itself: what hosts answer, and what is refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from l4sbench.errors import InputError, TestbedError
from l4sbench.matrix import Matrix
from l4sbench.testbeds.ssh import SshTestbed
from l4sbench.testbeds.ssh.ansible import HostOutcome
from l4sbench.testbeds.ssh.path import rounded
from l4sbench.text.units import Duration
from tests.unit.l4sbench.testbeds.test_ssh_hosts import AWAY, Hosts, hosts, matrix, testbed
from tests.unit.l4sbench.testbeds.test_ssh_stages import LINE6, TWO, inventory

__all__ = ["hosts", "matrix", "testbed"]


NOTHING = dict.fromkeys(LINE6.by_name, HostOutcome("ok", "", {"round_trips_ms": {}}))


def answered(*times: Mapping[str, object]) -> dict[str, HostOutcome]:
    """Return what the first host answers of its nodes; other hosts have nothing to measure."""
    measured = {f"tx-{number}": own for number, own in enumerate(times)}
    return {**NOTHING, "tx-l4s": HostOutcome("ok", "", {"round_trips_ms": measured})}


def test_the_longest_of_several_paths_counts_to_three_digits(hosts: Hosts, testbed: SshTestbed) -> None:
    hosts.answers = [answered({"10.0.5.100": 31.3849}, {"10.0.5.100": 31.4391, "10.0.5.101": 2})]
    assert testbed.measure_path() == Duration(31_400_000)
    assert hosts.plays == ["path"]


@pytest.mark.parametrize(
    ("ms", "ns"), [(0.43289, 433_000), (123.456, 123_000_000), (0.00001, 1000), (9.9996, 10_000_000)]
)
def test_times_are_rounded(ms: float, ns: int) -> None:
    assert rounded(ms) == Duration(ns)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (answered({"10.0.5.100": None}), r"10\.0\.5\.100 does not answer the echo requests of tx-0"),
        (answered({"10.0.5.100": -1}), "its answer is not a measurement: round_trips_ms"),
        (answered({"10.0.5.100": "soon"}), "its answer is not a measurement: round_trips_ms"),
        ({"tx-l4s": AWAY}, "cannot measure the path: .* cannot be reached: no route"),
        (NOTHING, "no host sends flows"),
    ],
)
def test_hosts_that_do_not_measure_are_named(
    hosts: Hosts, testbed: SshTestbed, answers: dict[str, HostOutcome], said: str
) -> None:
    hosts.answers = [answers]
    with pytest.raises(TestbedError, match=said):
        testbed.measure_path()


def test_a_host_that_holds_all_nodes_has_no_path(hosts: Hosts, matrix: Matrix, tmp_path: Path) -> None:
    path = tmp_path / "one.yml"
    path.write_text("all: {hosts: {one: {ansible_host: 192.0.2.11, l4sbench_nodes: all}}}")
    one = SshTestbed(path, matrix.catalog, matrix.cells, cache=tmp_path)
    for look in (one.require_path, one.measure_path):
        with pytest.raises(InputError, match="one: it holds all nodes, and networks within a host"):
            look()
    assert hosts.plays == []
    SshTestbed(inventory(tmp_path, TWO), matrix.catalog, matrix.cells, cache=tmp_path).require_path()
