# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The machine of counted instructions as a testbed: a trial is a boot of it, with all nodes in namespaces."""

import hashlib
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from l4sbench.disk import assets
from l4sbench.engine.testbed import Outcome
from l4sbench.errors import Problem
from l4sbench.facts.traits import CostModel, Identity, Needs, TestbedTraits
from l4sbench.program.trial import TrialSpec
from l4sbench.testbeds.ssh.lean import source_digest
from l4sbench.testbeds.ssh.results import skew_ms, unpack, write_start
from l4sbench.testbeds.ssh.testbed import MEET_S
from l4sbench.testbeds.ssh.trialvars import trial_variables
from tests.lab.icount.machine import Image, machine, run

HOST = "one"
TRAITS = TestbedTraits(cost=CostModel(fixed_s=300.0, per_virtual_s=30.0))
"""Costs are those of a busy machine, as the limit of a trial's time follows from them."""


class IcountTestbed:
    """Machines of counted instructions, one trial at a time.

    Args:
        image: What they boot.
        folder: Folder for their files: console, archive of results.
    """

    def __init__(self, image: Image, folder: Path) -> None:
        self._image = image
        self._folder = folder

    @property
    def name(self) -> str:
        """Return `icount`."""
        return "icount"

    @property
    def traits(self) -> TestbedTraits:
        """Return its traits."""
        return TRAITS

    def identity(self) -> Identity:
        """Return the software of the machine."""
        image, nothing = self._image, Path()
        argv = machine(nothing, nothing, nothing, nothing, nothing, 0)
        return Identity(
            testbed=self.name,
            kernel_release=image.release,
            common={
                "helper": assets.digest(assets.folder("roles") / "helper" / "files", suffixes=(".py",)),
                "kernel": image.version,
                "machine": hashlib.sha256("\0".join(argv).encode()).hexdigest(),
                "root": image.digest,
            },
            modules=image.modules,
            tools={"iperf3": image.digest, "lean": source_digest()},
        )

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Return what of our modules the machine lacks."""
        hint = "tools/module_headers.py trixie-backports --keep DIR builds them"
        lacking = sorted(needs.modules - self._image.modules.keys())
        return [Problem("", "icount", f"kernel module {name} is missing", hint) for name in lacking]

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        """Run one trial. Its machine's entropy is seeded by the trial's seed."""
        began = time.monotonic()
        virtual_s = max(
            (flow.start.s + flow.seconds for program in spec.programs.values() for flow in program.flows),
            default=0.0,
        )
        name = f"{re.sub('[^A-Za-z0-9_.-]', '-', spec.cell.id)[:100]}.{spec.trial}"
        nodes = tuple(spec.topology.by_name)
        given = trial_variables(spec.programs, spec.topology, name, self.name, virtual_s + MEET_S)
        shared = ("owner", "networks", "programs", "router", "meet", "limit_s")
        own = {"id": name, "host_nodes": list(nodes), "ports": {}}
        results = run(
            self._image,
            {**own, **{key: given[f"l4sbench_{key}"] for key in shared}},
            seed=spec.seed,
            folder=self._folder / name,
            limit_s=spec.wall_limit_s,
            stop=stop,
        )
        report = {HOST: unpack(results, HOST, nodes, raw)}
        write_start(raw, report, spec.topology.router)
        wall_s = time.monotonic() - began
        return Outcome(
            wall_s=wall_s,
            cpu_s=wall_s,
            virtual_s=(spec.cell.warmup.ns + spec.cell.duration.ns) / 1e9,
            skew_ms=skew_ms(report),
        )
