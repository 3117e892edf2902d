# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials that were captured once from real runs (tests/cases/trials), and runs made of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from collectors.validity import judge
from l4sbench.facts.cell import Cell
from l4sbench.facts.events import Status
from l4sbench.facts.faults import FaultKind, stored_fault
from l4sbench.facts.traits import Identity
from l4sbench.matrix import Matrix
from l4sbench.program import Program
from l4sbench.program.trial import EndedTrial, Judgement, TrialSpec
from l4sbench.store import Ending, Run, locked
from l4sbench.topology import topology

INPUTS = "0123456789abcdef"
SEED = 7
KERNEL = "7.3.4-l4slab"


@dataclass(frozen=True)
class CapturedTrial:
    """A captured trial: its cell, its programs, and the folder with its raw files."""

    cell: Cell
    programs: dict[str, Program]
    raw: Path

    def spec(self, number: int = 1, inputs: str = INPUTS) -> TrialSpec:
        """Return what a testbed was given to run it."""
        return TrialSpec(self.cell, number, SEED, self.programs, topology(self.cell.topology), inputs)

    @property
    def ended(self) -> EndedTrial:
        """Return the trial as collectors get it."""
        return EndedTrial(
            cell=self.cell,
            trial=1,
            seed=SEED,
            status=Status.OK,
            faults=(),
            raw=self.raw,
            programs=self.programs,
            inputs_digest=INPUTS,
            testbed="virtual",
            kernel_release=KERNEL,
        )

    def copied(self, folder: Path) -> CapturedTrial:
        """Return the same trial with raw files of its own below a folder, which a test may spoil."""
        return replace(self, raw=shutil.copytree(self.raw, folder / f"1-{INPUTS}" / "raw"))

    def having(self, **factors: Any) -> CapturedTrial:
        """Return the same trial with other factors of the cell (double underscores for dots)."""
        changed = {name.replace("__", "."): value for name, value in factors.items()}
        return replace(self, cell=Cell.of(dict(self.cell.factors) | changed))

    def with_classic_flows(self, number: int) -> CapturedTrial:
        """Return the trial with so many CUBIC flows in place of one, all with its results.

        Its raw files must be its own.
        """
        (run,) = self.programs["tx-classic"].flows
        (server,) = self.programs["rx-classic"].servers
        runs, servers = [], []
        for index in range(number):
            name = f"classic-{index}"
            output = f"flow-{name}.sender.json"
            runs.append(replace(run, flow=name, index=index, output=output, port=6000 + index))
            servers.append(replace(server, id=name, output=f"flow-{name}.receiver.json"))
            for node, end in (("tx-classic", "sender"), ("rx-classic", "receiver")):
                text = (self.raw / node / f"flow-classic-0.{end}.json").read_text()
                (self.raw / node / f"flow-{name}.{end}.json").write_text(text)
        sender = replace(self.programs["tx-classic"], flows=tuple(runs))
        receiver = replace(self.programs["rx-classic"], servers=tuple(servers))
        return replace(self, programs={**self.programs, "tx-classic": sender, "rx-classic": receiver})

    def edit(self, file: str, change: Callable[[Any], None]) -> None:
        """Change a JSON file in place."""
        path = self.raw / file
        plain = json.loads(path.read_text())
        change(plain)
        path.write_text(json.dumps(plain))

    def judged(self) -> Judgement:
        """Return what the validity checks find in the raw files."""
        return judge(self.spec(), self.raw)

    def faults(self) -> list[str]:
        """Return the faults that the validity checks find: the place, the kind's code, and the facts of each.

        Each has a kind, and is the same once it is stored and read.
        """
        judged, told = self.judged(), []
        assert (judged.status is Status.INVALID) == bool(judged.faults)
        for fault in judged.faults:
            plain = json.loads(json.dumps(fault.to_json()))
            assert fault.kind is not FaultKind.OTHER
            assert stored_fault("", plain["kind"], plain["at"], plain["facts"]) == fault
            facts = (f"{fact:.4g}" if isinstance(fact, float) else str(fact) for _, fact in fault.facts)
            told.append(" ".join(filter(None, (fault.at, fault.kind.code, *facts))))
        return told

    def store(self, run: Run, number: int = 1, status: Status = Status.OK, inputs: str = INPUTS) -> Path:
        """Add the trial to a run as an ended one; return its folder."""
        identity = Identity("virtual", KERNEL, {}, {}, {})
        faults = () if status is Status.OK else (stored_fault("because"),)
        with locked(run) as writer, writer.begin(self.spec(number, inputs)) as partial:
            shutil.copytree(self.raw, partial.raw, dirs_exist_ok=True)
            return partial.end(Ending(status, faults, identity, datetime.now(UTC), 1.0))


def captured_trial(name: str) -> CapturedTrial:
    """Return a captured trial; its raw files are only to be read."""
    case = Path(__file__).parent / "cases" / "trials" / name
    plain = json.loads((case / "raw" / "programs.json").read_text())
    return CapturedTrial(
        Cell.from_json(json.loads((case / "cell.json").read_text())),
        {node: Program.from_json(program) for node, program in plain.items()},
        case / "raw",
    )


def as_matrix(name: str, *trials: CapturedTrial) -> tuple[bytes, list[CapturedTrial]]:
    """Return a matrix that has the trials' cells, and the trials as those of its cells.

    Cells that were captured long ago have other ids than the same cells of a matrix of today.
    """
    stated = [{key: str(trial.cell.factors[key]) for key in sorted(trial.cell.given)} for trial in trials]
    lines = [f"matrix: {name}", "rule: pam25", "flows: {l4s: {}, classic: {}}", "include:"]
    source = "\n".join([*lines, *(f"  - {json.dumps(own)}" for own in stated), ""]).encode()
    with TemporaryDirectory() as folder:
        path = Path(folder, "matrix.yaml")
        path.write_bytes(source)
        cells = Matrix.load(path).cells
    return source, [replace(trial, cell=cell) for trial, cell in zip(trials, cells, strict=True)]
