# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench kernel`: build the package of one kernel for all hosts."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from l4sbench.cli.options import Subparsers, add_command, add_kernel_source, add_subcommands
from l4sbench.cli.terminal import answer, as_path, say


def add_parser(commands: Subparsers) -> None:
    """Add the command and its subcommand to the parser."""
    parser = add_command(
        commands,
        "kernel",
        None,
        help="build a kernel package for hosts",
        examples=("l4sbench kernel build",),
    )
    building = add_command(
        add_subcommands(parser),
        "build",
        build,
        help="build image and headers of one kernel for Debian 12 and 13 and Ubuntu 22.04 and 24.04",
        examples=(
            "l4sbench kernel build",
            "l4sbench kernel build --kernel-tree ~/src/net-next --config FILE",
        ),
    )
    add_kernel_source(building)
    building.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="configuration to start from (default: Debian's for clouds, of the source's version)",
    )
    building.add_argument("--force", action="store_true", help="build them again")


def build(args: argparse.Namespace) -> int:
    """Build the packages; print their paths."""
    from l4sbench.cli.progress import build_progress
    from l4sbench.errors import TestbedError
    from l4sbench.testbeds.ssh import ownkernel
    from l4sbench.testbeds.virtual.lab import BuildStep
    from l4sbench.testbeds.virtual.lab import source as sources
    from l4sbench.testbeds.virtual.lab.aptsources import debian_archives, read_sources
    from l4sbench.testbeds.virtual.lab.cache import Cache

    if args.config is not None and not args.config.is_file():
        raise TestbedError(f"no configuration {args.config}: no such file")
    cache = Cache.open()
    archives = debian_archives(read_sources())
    with build_progress("host kernel") as on_progress:

        def report(message: str, fraction: float | None) -> None:
            on_progress(BuildStep("packages", message, fraction))

        named = args.tarball, args.kernel_tree
        source = sources.chosen(cache, *named, lambda: archives, report)
        base = args.config or ownkernel.base_config(cache, archives, source, report)
        jobs = args.jobs or len(os.sched_getaffinity(0))
        package = ownkernel.build(cache, source, base, jobs, report, force=args.force)
    say(f"Linux {package.note.release}, from {package.note.source}")
    for file in package.files:
        answer(as_path(file))
    return 0
