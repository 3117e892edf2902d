# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs: everything that each node does in one trial, as data; argument lists, never shell text.

    programs(cell, topology, catalog, conditions) -> {node: Program}

is a pure function and the only code that makes tc lines, sysctls and traffic commands. A testbed executes a
program in phases: modules, sysctls, links, routes, rules and setup commands (setup; `reset` first where nodes
are reused); servers (ready); flows and samplers at the start instant (start), and changes at theirs;
read-backs after the last flow.

An argument `@<network>` of a command stands for the node's interface on that network.
"""

from __future__ import annotations

from l4sbench.program.build import path_programs, programs
from l4sbench.program.check import Oddity, findings, oddities, problems
from l4sbench.program.data import (
    CHANGES_FILE,
    Change,
    Command,
    Conditions,
    Expected,
    FlowRun,
    Link,
    Module,
    Neighbour,
    Program,
    Readback,
    ReadKind,
    Route,
    Sampler,
    Server,
)
from l4sbench.program.readback import differences, found_values
from l4sbench.program.wires import DROPS

__all__ = [
    "CHANGES_FILE",
    "DROPS",
    "Change",
    "Command",
    "Conditions",
    "Expected",
    "FlowRun",
    "Link",
    "Module",
    "Neighbour",
    "Oddity",
    "Program",
    "ReadKind",
    "Readback",
    "Route",
    "Sampler",
    "Server",
    "differences",
    "findings",
    "found_values",
    "oddities",
    "path_programs",
    "problems",
    "programs",
]
