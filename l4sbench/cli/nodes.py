# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench lab up` and `lab down`: a lab of booted nodes that are reachable by ssh."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from l4sbench.cli.options import Subparsers, add_command, count
from l4sbench.cli.terminal import answer, answer_json, as_command, say, warn
from l4sbench.errors import TestbedError

if TYPE_CHECKING:
    from l4sbench.testbeds.nodes import NodesStatus

_LEAST_MB = 128


def add_parsers(own: Subparsers) -> None:
    """Add the subcommands of `lab`."""
    starting = add_command(
        own,
        "up",
        up,
        help="boot a real-time machine for every node of a topology and print an Ansible inventory",
        examples=(
            "l4sbench lab up",
            "ansible -i $(l4sbench lab up) nodes -m ping",
            "ssh -F ~/.cache/l4sbench/nodes/line6/ssh_config router",
        ),
    )
    starting.add_argument(
        "--topology", default="line6", metavar="NAME", help="topology, by name or file (default: line6)"
    )
    starting.add_argument("--name", metavar="LAB", help="name of the lab (default: the topology's)")
    starting.add_argument(
        "--memory",
        type=_megabytes,
        metavar="MB",
        help="memory limit of one node (default: 512)",
    )
    starting.add_argument(
        "--bastion",
        nargs="?",
        const=("127.0.0.1", 0),
        type=_address,
        metavar="ADDRESS:PORT",
        help="reach the nodes through a bastion, as on FABRIC (default: any free port of 127.0.0.1)",
    )
    starting.add_argument(
        "--no-measure",
        dest="measure",
        action="store_false",
        help="do not measure which rates the nodes carry, which takes 10 s after booting them",
    )
    starting.add_argument("--json", action="store_true", help="print nodes and files as JSON")
    ending = add_command(
        own,
        "down",
        down,
        help="stop the nodes and remove their files",
        examples=("l4sbench lab down",),
    )
    ending.add_argument("--name", default="line6", metavar="LAB", help="name of the lab (default: line6)")


def _megabytes(text: str) -> int:
    number = count(text)
    if number < _LEAST_MB:
        raise argparse.ArgumentTypeError(f"a node needs at least {_LEAST_MB} MB")
    return number


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid ADDRESS:PORT, such as 127.0.0.1:2222")
    return host, int(port)


def up(args: argparse.Namespace) -> int:
    """Boot the nodes that are not running, measure what they carry, and print the path of the inventory."""
    from l4sbench.cli.progress import build_progress
    from l4sbench.testbeds.nodes import MEMORY_MB, measured
    from l4sbench.testbeds.nodes import up as boot

    with build_progress() as on_progress:
        state = boot(
            args.topology,
            on_progress,
            name=args.name,
            memory_mb=args.memory or MEMORY_MB,
            bastion=args.bastion,
        )
    if args.measure:
        try:
            state = measured(state.folder.name)
        except TestbedError as error:
            warn(str(error))
    if not state.fresh:
        warn("the nodes run an earlier build; restart them with `l4sbench lab down` and `l4sbench lab up`")
    if args.json:
        answer_json(as_values(state))
        return 0
    say(f"{len(state.nodes)} nodes are up: {', '.join(node.name for node in state.nodes)}")
    if state.ssh_config is not None:
        say(f"  {as_command('ssh', '-F', state.ssh_config, state.nodes[0].name)}")
    if state.capacity is not None:
        say(f"  {state.capacity}")
    answer(str(state.inventory))
    return 0


def down(args: argparse.Namespace) -> int:
    """Stop the nodes."""
    from l4sbench.testbeds.nodes import down as end

    say(f"removed lab {args.name}" if end(args.name) else f"lab {args.name} does not exist")
    return 0


def show(states: tuple[NodesStatus, ...]) -> None:
    """Print the nodes for `lab status`."""
    for state in states:
        running = sum(node.running for node in state.nodes)
        old = "" if state.fresh else ", of an earlier build"
        answer(f"nodes of {state.name}: {running} of {len(state.nodes)} running{old}")
        if state.bastion is not None:
            answer(f"  through a bastion at {state.bastion[0]} port {state.bastion[1]}")
        for node in state.nodes:
            how = "running" if node.running else (node.ended or "not running")
            answer(f"  {node.name:12} {node.address:16} {how}")
        if state.capacity is not None:
            answer(f"  {state.capacity}")
        if state.inventory is not None:
            answer(f"  {state.inventory}")
        if not state.up:
            name = "" if state.name == state.topology else f" --name {state.name}"
            answer(f"  boot missing nodes: l4sbench lab up{name}; remove the lab: l4sbench lab down{name}")


def as_values(state: NodesStatus) -> dict[str, object]:
    """Return a lab of nodes as `--json` prints it."""
    return {
        "name": state.name,
        "topology": state.topology,
        "up": state.up,
        "fresh": state.fresh,
        "inventory": None if state.inventory is None else str(state.inventory),
        "bastion": state.bastion,
        "carries": None if state.capacity is None else state.capacity.model_dump(),
        "ssh_config": None if state.ssh_config is None else str(state.ssh_config),
        "nodes": [
            {
                "name": node.name,
                "address": node.address,
                "address_6": node.address_6,
                "running": node.running,
                "ended": node.ended,
                "console": str(node.console),
            }
            for node in state.nodes
        ],
    }
