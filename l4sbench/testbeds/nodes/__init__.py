# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A local lab of booted nodes: one user-mode kernel per node, in real time, reached by ssh.

For the ssh testbed it is a set of hosts like any other. Nothing here needs root, and nothing of the host's
network is touched: bridges and taps live in a network namespace of the lab's own.
"""

from l4sbench.testbeds.nodes.lab import MEMORY_MB, NodesStatus, NodeStatus, down, halt, labs, status, up
from l4sbench.testbeds.nodes.plan import plan_lab

__all__ = ["MEMORY_MB", "NodeStatus", "NodesStatus", "down", "halt", "labs", "plan_lab", "status", "up"]
