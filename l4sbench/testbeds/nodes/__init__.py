# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A local lab of booted nodes: one user-mode kernel per node, in real time, reached by ssh.

The ssh testbed uses it like any other set of hosts. It needs no root and leaves the host's network alone:
bridges and taps are in a network namespace of the lab.
"""

from l4sbench.testbeds.nodes.lab import (
    MEMORY_MB,
    NodesStatus,
    NodeStatus,
    down,
    halt,
    labs,
    measured,
    status,
    up,
)

__all__ = [
    "MEMORY_MB",
    "NodeStatus",
    "NodesStatus",
    "down",
    "halt",
    "labs",
    "measured",
    "status",
    "up",
]
