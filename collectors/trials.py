# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Facts about a trial as a whole -> tables `trials` and `programs`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from collectors.collector import SEPARATOR, BadRawError, Rows
from collectors.hostinfo import read_kernel
from l4sbench.facts.factors import column_of
from l4sbench.traffic.tools import LEAN

if TYPE_CHECKING:
    from l4sbench.program import Program
    from l4sbench.program.trial import EndedTrial

AGAIN: Final = "../../../again"
"""Folder for repeated cells, as seen from a run directory `runs/<matrix>/<time>`: beside `runs`."""

_TOOLS: Final = {"lab-traffic": LEAN}


def parse_trials(trial: EndedTrial) -> Rows:
    """Return table `trials`: one row, however the trial ended."""
    row: dict[str, object] = dict(column_of(name, value) for name, value in trial.cell.factors.items())
    kernels, modules = _kernels(trial)
    row |= {
        "status": trial.status.value,
        "reasons": SEPARATOR.join(trial.reasons) or None,
        "faults": [fault.kind.code for fault in trial.faults],
        "seed": str(trial.seed),
        "testbed": trial.testbed or None,
        "traffic": _traffic(trial),
        "kernels": kernels or ([trial.kernel_release] if trial.kernel_release else None),
        "modules": modules or None,
        "skew_ms": trial.skew_ms,
        "inputs": trial.inputs_digest,
        "folder": trial.raw.parent.name,
    }
    return [row]


def _kernels(trial: EndedTrial) -> tuple[list[str], list[str]]:
    releases: set[str] = set()
    modules: set[str] = set()
    for node, program in trial.programs.items():
        try:
            kernel = read_kernel(trial.raw, node)
        except BadRawError:  # the trial has its row whatever is in its files, and the reason in it
            continue
        if kernel is None:
            continue
        releases.add(kernel.release)
        loaded = (module.name for module in program.modules if module.name in kernel.modules)
        modules |= {f"{name}={kernel.modules[name]}" for name in loaded}
    return sorted(releases), sorted(modules)


def _traffic(trial: EndedTrial) -> str | None:
    runs = (run for program in trial.programs.values() for run in program.flows)
    names = {run.kind.own_tool or _TOOLS.get(run.argv[0], run.argv[0]) for run in runs}
    return ", ".join(sorted(names)) or None


def parse_programs(trial: EndedTrial) -> Rows | None:
    """Return table `programs`: every step of every node as a command line."""
    rerun = _rerun(trial)
    rows: Rows = [
        {"node": node, "step": number, "phase": phase, "command": _command(argv), "rerun": rerun}
        for node, program in trial.programs.items()
        for number, (phase, argv) in enumerate(_steps(program), start=1)
    ]
    return rows or None


_command = lru_cache(maxsize=4096)(shlex.join)  # most trials run the same


def _steps(program: Program) -> Iterator[tuple[str, tuple[str, ...]]]:
    for module in program.modules:
        yield "setup", ("modprobe", module.name, *(f"{key}={value}" for key, value in module.params))
    for key, value in program.sysctls:
        yield "setup", ("sysctl", "-w", f"{key}={value}")
    for link in program.links:
        port = f"@{link.network}"
        yield "setup", ("ip", "addr", "replace", link.address, "dev", port)
        flags = [word for name, on in link.offloads for word in (name, "on" if on else "off")]
        if flags:
            yield "setup", ("ethtool", "-K", port, *flags)
    for beside in program.neighbours:
        to = (beside.ip, "lladdr", beside.mac, "dev", f"@{beside.network}", "nud", "permanent")
        yield "setup", ("ip", "neigh", "replace", *to)
    for route in program.routes:
        yield "setup", ("ip", "route", "replace", route.to, "via", route.via, *route.options)
    for command in (*program.rules, *program.setup):
        yield "setup", command.argv
    for server in program.servers:
        yield "ready", server.argv
    for run in program.flows:
        yield "start", run.argv
    meanwhile = [change.commands for change in program.changes]
    meanwhile += [(*pauses.begin, *pauses.end) for pauses in program.pauses]
    yield from (("change", argv) for commands in meanwhile for argv in commands)
    for reading in program.readback:
        yield "readback", reading.argv


def _rerun(trial: EndedTrial) -> str:
    """Return the command that runs this cell again, in a new run directory beside the folder of all runs."""
    place = ["--new", "--dir", AGAIN]
    return shlex.join(["l4sbench", "run", "matrix.yaml", f"cell={trial.cell.id}", *place])
