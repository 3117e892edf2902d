# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: beginning and end, of the module and of connections."""

from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.prague.experiment import PORT, RX, Experiment
from tests.lab.prague.life import (
    check_codepoints_of_a_socket_that_becomes_ipv4,
    check_connections_leave_nothing,
    check_unloading,
    connections,  # noqa: F401  (a fixture)
    serve,
)

pytestmark = pytest.mark.lab


def test_unloading(lab: Lab, tmp_path: Path) -> None:
    """Refused while a flow runs; afterwards clean, and the module can be loaded again."""
    this = Experiment()
    this.flow(2)
    check_unloading(this, "tcp_prague", lab, tmp_path)


def test_connections_leave_nothing_behind(lab: Lab, tmp_path: Path, connections: Path) -> None:  # noqa: F811
    """Prague at both ends, hence 20,000 sockets: one leaked record of 64 B each would be 1.3 MB."""
    this = Experiment(rtt_ms=1)
    this.programs.append(connections)
    check_connections_leave_nothing(this, "prague", "tcp_prague", lab, tmp_path)


def test_a_socket_that_became_reno_is_prague_again_on_its_next_connection(
    lab: Lab,
    tmp_path: Path,
    connections: Path,  # noqa: F811
) -> None:
    this = Experiment()
    this.programs.append(connections)
    this.set("tx", "net/ipv4/tcp_congestion_control", "prague")
    this.set("rx", "net/ipv4/tcp_ecn", 0)
    serve(this)
    this.start()
    this.at("tx", 0, "/trial/connections", "rejoin", RX, PORT, 2, out="names")
    this.at("rx", 1000, "busybox", "sh", "-c", "echo 3 > /proc/sys/net/ipv4/tcp_ecn")
    outcome = this.end(lab, tmp_path)
    assert (outcome.folder / "names").read_text().split() == ["prague-reno", "prague"]


def test_a_socket_that_becomes_ipv4_goes_on(lab: Lab, tmp_path: Path, connections: Path) -> None:  # noqa: F811
    this = Experiment()
    this.programs.append(connections)
    check_codepoints_of_a_socket_that_becomes_ipv4(this, "prague", lab, tmp_path)
