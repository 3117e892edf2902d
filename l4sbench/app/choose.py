# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Which testbed `--on` names: `virtual`, `ssh:INVENTORY`, or `fabric[:SLICE]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from l4sbench.engine.testbed import Testbed
    from l4sbench.matrix import Matrix
    from l4sbench.traits import TestbedTraits

TESTBEDS: Final = ("virtual", "ssh", "fabric")


def kind_of(on: str) -> tuple[str, str]:
    """A testbed's name and what stands behind its colon.

    Raises:
        InputError: there is no such testbed, or it needs another word behind its name.
    """
    kind, colon, where = on.partition(":")
    if kind not in TESTBEDS:
        raise InputError(
            f"there is no testbed {on}; there is {', '.join(TESTBEDS)}", did_you_mean(kind, TESTBEDS)
        )
    if kind == "ssh" and not where:
        raise InputError(
            "ssh needs an inventory", "--on ssh:hosts.yml (docs/ssh.md; `l4sbench lab up` has one)"
        )
    if kind == "virtual" and colon:
        raise InputError(f"virtual takes nothing behind its name, not {where!r}", "--on virtual")
    return kind, where


def traits_of(on: str, slices: int = 1) -> TestbedTraits:
    """Facts about the testbed of that name, without looking at it. Raises InputError."""
    kind, _ = kind_of(on)
    if kind == "fabric":
        from l4sbench.testbeds import fabric

        return fabric.traits(slices)
    if kind == "ssh":
        from l4sbench.testbeds import ssh

        return ssh.TRAITS
    from l4sbench.testbeds import virtual

    return virtual.TRAITS


def open_testbed(
    on: str,
    matrix: Matrix,
    modules: Mapping[str, Path],
    *,
    capture: bool = False,
    contact: bool = True,
    slices: int = 1,
    work_s: float = 0.0,
    on_state: Callable[[str], None] = lambda _: None,
) -> Testbed:
    """The testbed of that name, for a matrix.

    Args:
        on: As on the command line.
        matrix: What is to run there.
        modules: Folders with the source of kernel modules from outside; a lab has them built where they are
            not yet.
        capture: Keep the packets of every trial.
        contact: Whether hosts may be asked; else what they told last time counts.
        slices: How many slices of FABRIC share out the trials.
        work_s: Wall seconds that what is left to run takes one after another, for leases and tokens.
        on_state: Told what becomes of slices, for people.

    Raises:
        InputError: there is no such testbed.
        TestbedError: there is nothing to run on yet.
    """
    kind, where = kind_of(on)
    if slices > 1 and kind != "fabric":
        raise InputError(f"{kind} has no slices", "--slices goes with --on fabric")
    if kind == "fabric":
        from l4sbench.testbeds.fabric import FabricTestbed

        return FabricTestbed(
            where,
            matrix,
            slices=slices,
            capture=capture,
            contact=contact,
            work_s=work_s,
            on_state=on_state,
        )
    if kind == "ssh":
        from l4sbench.testbeds.ssh import SshTestbed

        return SshTestbed(Path(where), matrix.catalog, matrix.cells, capture=capture, contact=contact)
    from l4sbench.testbeds.virtual import VirtualTestbed
    from l4sbench.testbeds.virtual.lab import Lab, with_modules

    return VirtualTestbed(with_modules(Lab.locate(), modules), capture=capture)
