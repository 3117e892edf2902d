# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Nodes behind a bastion, as on FABRIC."""

import os
import socket
from collections.abc import Iterator

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds import nodes
from tests.lab.nodes.hosts import booted, on
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

NAME = f"test-bastion-{os.getpid()}"


@pytest.fixture(scope="module")
def up(able: None) -> Iterator[nodes.NodesStatus]:
    with booted(NAME, bastion=("127.0.0.1", 0)) as state:
        yield state


def test_nodes_are_reached_through_it_and_only_through_it(up: nodes.NodesStatus) -> None:
    assert up.bastion is not None
    with socket.create_connection(up.bastion, timeout=PATIENCE_S) as connection:
        assert connection.recv(4) == b"SSH-"
    assert on(up, "router", "hostname").strip() == "router"
    client = on(up, "router", "echo $SSH_CLIENT").split()[0]
    assert client == next(node.address for node in up.nodes if node.name == "bastion")
    nodes.halt(NAME, "bastion")
    assert on(up, "router", "hostname", check=False) == ""
    assert nodes.up("line6", name=NAME).up
    assert on(up, "router", "hostname").strip() == "router"


def test_it_gives_no_shell(up: nodes.NodesStatus) -> None:
    assert "it only forwards" in on(up, "bastion", "hostname")


def test_much_goes_through_it_whole(up: nodes.NodesStatus) -> None:
    assert len(on(up, "rx-l4s", "head -c 3000000 /dev/zero | tr '\\0' x")) == 3_000_000


def test_a_port_that_is_taken_is_told(up: nodes.NodesStatus) -> None:
    with pytest.raises(TestbedError, match="already in use"), booted(f"{NAME}-2", bastion=up.bastion):
        pass
