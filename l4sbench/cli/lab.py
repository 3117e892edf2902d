# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench lab`: build the lab of the virtual testbed, print its state, explore it; boot nodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from l4sbench.cli import kernels, nodes
from l4sbench.cli.options import (
    Subparsers,
    add_catalog,
    add_command,
    add_kernel_source,
    add_lab,
    add_matrix,
    add_subcommands,
    lab_name,
)
from l4sbench.cli.terminal import answer, answer_json, as_table, say
from l4sbench.facts.factors import DEFAULT_LAB

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.testbeds.virtual.lab import LabStatus
    from l4sbench.topology import Topology

DEBUG_LAB = "debug"
"""Name of the lab that `lab build --debug` makes."""


def add_parser(commands: Subparsers) -> None:
    """Add the command and its subcommands to the parser."""
    parser = add_command(
        commands,
        "lab",
        None,
        help="build the lab, print its state, explore it, boot nodes for ssh",
        examples=(
            "l4sbench lab build",
            "l4sbench lab status",
            "l4sbench lab shell quickstart aqm=dualpi2",
            "l4sbench lab up",
        ),
    )
    own = add_subcommands(parser)
    building = add_command(
        own,
        "build",
        build,
        help="build kernel, guest userland, tools and modules into the cache",
        examples=(
            "l4sbench lab build",
            "l4sbench lab build --kernel-tree ~/src/net-next",
            "l4sbench lab build --name mine --kernel-tree ~/src/net-next --keep-tree",
            "l4sbench lab build --debug                    (then: run --lab debug)",
        ),
    )
    add_kernel_source(building)
    building.add_argument(
        "--name",
        type=lab_name,
        help="build a lab beside the default one (run --lab NAME)",
    )
    building.add_argument(
        "--keep-tree",
        action="store_true",
        help="keep the built tree (2 GB), so that the next build compiles only changes; for git work trees",
    )
    building.add_argument(
        "--debug",
        action="store_true",
        help="build a kernel that reports errors of modules (KASAN, kmemleak, lockdep): the lab `debug`",
    )
    building.add_argument("--force", action="store_true", help="rebuild every part, from the newest sources")
    add_catalog(building)
    state = add_command(
        own,
        "status",
        status,
        help="print which parts of the lab are built",
        examples=("l4sbench lab status --json",),
    )
    state.add_argument("--json", action="store_true", help="print the state as JSON")
    looking = add_command(
        own,
        "shell",
        shell,
        help="open a shell, or run commands, in a guest with a cell's nodes, links and queues but no flows",
        examples=(
            "l4sbench lab shell quickstart aqm=dualpi2",
            "router tc -s qdisc                            (inside: a node's name runs a command there)",
            "l4sbench lab shell quickstart aqm=dualpi2 -- router tc -s qdisc",
            "echo 'tx-l4s ping -c 3 rx-l4s' | l4sbench lab shell quickstart",
        ),
    )
    add_matrix(looking)
    add_lab(looking, "lab of a cell that states none")
    looking.set_defaults(words=())  # what follows --, see l4sbench.cli
    kernels.add_parsers(own)
    nodes.add_parsers(own)


def build(args: argparse.Namespace) -> int:
    """Build missing parts."""
    from l4sbench.catalog import Catalog
    from l4sbench.cli.progress import build_progress
    from l4sbench.program.uses import kernel_options
    from l4sbench.testbeds.virtual.lab import BuildOptions
    from l4sbench.testbeds.virtual.lab import build as make

    name = args.name or (DEBUG_LAB if args.debug else DEFAULT_LAB)
    options = BuildOptions(
        tarball=args.tarball,
        kernel_tree=args.kernel_tree,
        jobs=args.jobs,
        force=args.force,
        name=name,
        keep_tree=args.keep_tree,
        debug=args.debug,
        needs=frozenset(kernel_options(Catalog.load(args.catalog).entries)),
    )
    with build_progress() as on_progress:
        lab = make(options, on_progress)
    named = "" if name == DEFAULT_LAB else f" {name}"
    say(f"The lab{named} is ready: Linux {lab.kernel_release}, from {lab.source}")
    return 0


def status(args: argparse.Namespace) -> int:
    """Print the state of the lab; return 3 if no lab is built for the current sources."""
    from l4sbench.testbeds.nodes import labs
    from l4sbench.testbeds.virtual.lab import status as look

    state, booted = look(), labs()
    if args.json:
        answer_json(_as_values(state) | {"nodes": [nodes.as_values(each) for each in booted]})
    else:
        _print(state)
        nodes.show(booted)
    return 0 if state.lab else 3


def shell(args: argparse.Namespace) -> int:
    """Boot the first matching cell; connect the terminal to its guest, or run commands in virtual time."""
    from l4sbench.app.api import load_matrix, programs_of
    from l4sbench.program.uses import Uses, kernel_options
    from l4sbench.testbeds.virtual import shell as shells
    from l4sbench.testbeds.virtual.lab import Lab
    from l4sbench.testbeds.virtual.traits import TRAITS

    cell, topology, programs = programs_of(args.matrix, args.filters, args.catalog)
    catalog = load_matrix(args.matrix, args.catalog).catalog
    options = kernel_options(Uses.of(cell, TRAITS).entries(catalog))
    lab = Lab.locate(needs=options, name=args.lab if cell.lab == DEFAULT_LAB else cell.lab)
    if args.words or not sys.stdin.isatty():
        commands = shells.commands_of(args.words) if args.words else shells.piped_commands()
        ended = shells.run_commands(lab, programs, topology, commands, options)
        for stream, text in ((sys.stderr, ended.err), (sys.stdout, ended.out)):
            stream.buffer.write(text)
            stream.flush()
        return ended.code
    for line in _banner(cell, topology, catalog):
        say(line)
    return shells.open_shell(lab, programs, topology, options)


def _banner(cell: Cell, topology: Topology, catalog: Catalog) -> Iterator[str]:
    """Yield the nodes of a guest with their addresses, and commands to try."""
    yield cell.id
    rows = [
        {"node": node.name, "addresses": ", ".join(f"{a.ip} on {a.network}" for a in node.addresses)}
        for node in topology.nodes
    ]
    yield from (f"  {line}" for line in as_table(rows))
    yield "a node's name runs a command there, or a shell; names resolve; exit ends the guest. To try:"
    for port in topology.bottlenecks:
        yield f"  {port.node} tc -s qdisc show dev {port.network}"
    for group, pair in topology.place(cell.nodes).items():
        cc = cell.factors.get(f"{group}.cc")
        if cc is None:
            continue
        name = catalog.congestion_control(str(cc)).kernel_name
        server, client = f"{pair.receiver} iperf3 -s -1 -D", f"{pair.sender} iperf3 -c {pair.receiver}"
        yield f"  {server}; {client} -C {name} -t 5"


def _print(state: LabStatus) -> None:
    if state.lab:
        answer(f"ready: Linux {state.lab.kernel_release}, from {state.lab.source}")
        for name, srcversion in sorted(state.lab.srcversions.items()):
            answer(f"  module {name} {srcversion}")
    else:
        answer(f"not ready: {state.reason}")
        answer("  build it with l4sbench lab build")
    if state.building:
        answer(f"building: {state.building}")
    answer(f"cache {state.cache}: {sum(part.size_bytes for part in state.parts) / 1e6:.0f} MB")
    for part in state.parts:
        if part.used:
            answer(f"  {part.kind:13} {part.size_bytes / 1e6:6.0f} MB  {part.path.name}")
    for kind in dict.fromkeys(part.kind for part in state.parts):
        others = [part for part in state.parts if part.kind == kind and not part.used]
        if others:
            size_mb = sum(part.size_bytes for part in others) / 1e6
            whose = "for booted nodes" if kind == "node-userland" else f"of {len(others)} other builds"
            answer(f"  {kind:13} {size_mb:6.0f} MB  {whose}")


def _as_values(state: LabStatus) -> dict[str, object]:
    lab = state.lab
    return {
        "ready": lab is not None,
        "reason": state.reason,
        "kernel_release": lab.kernel_release if lab else None,
        "source": lab.source if lab else None,
        "modules": dict(lab.srcversions) if lab else {},
        "cache": str(state.cache),
        "building": str(state.building) if state.building else None,
        "parts": [
            {"kind": part.kind, "path": str(part.path), "size_bytes": part.size_bytes, "used": part.used}
            for part in state.parts
        ],
    }
