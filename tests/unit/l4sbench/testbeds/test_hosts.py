# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Variables of an inventory that name hosts and their nodes, and mistakes in them."""

import pytest

from l4sbench.errors import InputError
from l4sbench.testbeds.ssh.hosts import TO_FILL_IN, hosts_of, settled
from l4sbench.topology import topology

LINE6 = topology("line6")


def test_a_list_may_name_a_node_all() -> None:
    (host,) = hosts_of({"a": {"l4sbench_nodes": ["all"]}}, "hosts.yml")
    assert host.nodes == ("all",)
    assert settled([host], [LINE6]) == (host,)


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"a": {}}, ""),
        ({"a": {"l4sbench_nodes": []}}, "a.l4sbench_nodes"),
        ({"a": {"l4sbench_node": 3}}, "a.l4sbench_node"),
        ({"a": {"l4sbench_node": "router", "l4sbench_ports": "x"}}, "a.l4sbench_ports"),
        ({"a": {"l4sbench_node": "router", "l4sbench_ports": {"net-rx": 1234}}}, "a.l4sbench_ports.net-rx"),
        (
            {"a": {"l4sbench_node": "router", "l4sbench_ports": {"net-rx": TO_FILL_IN}}},
            "a.l4sbench_ports.net-rx",
        ),
        ({"a": {"l4sbench_node": "router", "l4sbench_modules": ["x"]}}, "a.l4sbench_modules"),
        ({"a": {"l4sbench_node": "{{ x }}"}}, "a.l4sbench_node"),
        ({"a": {"l4sbench_node": "router", "l4sbench_kernles": []}}, "a.l4sbench_kernles"),
    ],
)
def test_variables_that_cannot_be_understood(variables: dict[str, dict[str, object]], path: str) -> None:
    with pytest.raises(InputError) as error:
        hosts_of(variables, "hosts.yml")
    assert [problem.path for problem in error.value.problems] == [path]
