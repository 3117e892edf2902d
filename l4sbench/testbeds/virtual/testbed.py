# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The virtual testbed: every trial is one user-mode Linux process in virtual time."""

from __future__ import annotations

import contextlib
import json
import platform
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from l4sbench.disk import assets
from l4sbench.disk.files import remove_tree
from l4sbench.disk.plain import is_real_folder, plain_text
from l4sbench.engine.testbed import Outcome
from l4sbench.errors import Problem, TrialFailed
from l4sbench.facts.traits import Identity, Needs, TestbedTraits
from l4sbench.program import CHANGES_FILE
from l4sbench.program.memory import guest_mb, tcp_mb
from l4sbench.program.uses import Uses, executables, kernel_options
from l4sbench.store.leavings import tidy
from l4sbench.testbeds.virtual import script
from l4sbench.testbeds.virtual.captures import compress_captures
from l4sbench.testbeds.virtual.guest import EPOCH_NS, Boot, Guests, LocalGuests
from l4sbench.testbeds.virtual.lab import HINT
from l4sbench.testbeds.virtual.traits import MEMORY_MB, TRAITS

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from l4sbench.catalog import Catalog
    from l4sbench.program.trial import TrialSpec
    from l4sbench.testbeds.virtual.lab import Lab

_TAIL_CHARS: Final = 2000


class VirtualTestbed:
    """Runs trials in a built lab. Several trials may run at once; each is one process.

    Args:
        lab: The lab to boot.
        catalog: The queues and congestion controls that cells name.
        unbuilt: Kernel modules that a run builds and this lab lacks: no problem for a plan.
        guests: Where guests are booted.
        labs: Further labs, by the value of the factor `lab`; cells with other values boot `lab`.
    """

    def __init__(
        self,
        lab: Lab,
        catalog: Catalog,
        unbuilt: frozenset[str] = frozenset(),
        guests: Guests = LocalGuests(),  # noqa: B008  (a frozen value)
        labs: Mapping[str, Lab] = MappingProxyType({}),
    ) -> None:
        self._lab = lab
        self._labs = labs
        self._catalog = catalog
        self._unbuilt = unbuilt
        self._guests = guests

    @property
    def name(self) -> str:
        """`virtual`."""
        return "virtual"

    @property
    def traits(self) -> TestbedTraits:
        """Traits: wires, many trials at once, processor time as cost."""
        return replace(TRAITS, slots=self._guests.places, queues=self._guests.queues)

    def identity(self) -> Identity:
        """Return digests of the labs' parts, which are equal on every machine that built equal parts."""
        of_labs = {name: self._identity(lab) for name, lab in self._labs.items()}
        return replace(self._identity(self._lab), labs=of_labs)

    def _identity(self, lab: Lab) -> Identity:
        digests = lab.digests
        return Identity(
            testbed=self.name,
            kernel_release=lab.kernel_release,
            common={
                "kernel": digests.kernel,
                "userland": digests.userland,
                "tools": digests.tools,
                "wire": digests.modules[script.WIRE],
                "sink": digests.modules[script.SINK],
                "script": assets.digest(Path(script.__file__)),
            },
            modules=dict(digests.modules)
            | {
                f"CONFIG_{option}": " ".join(digests.modules[name] for name in names)
                for option, names in lab.options.items()
            },
            tools={"lean": digests.tools, "iperf3": digests.userland},
        )

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Return the kernel modules and options that the plan needs and the lab does not have."""
        found = [
            Problem("", name, f"{which} has no such kernel module", HINT)
            for which, lab in self._named()
            for name in sorted(needs.modules - lab.modules.keys() - self._unbuilt)
        ]
        found += [
            Problem(
                "", name, "flent measures by the wall clock: only hosts can do this", "--on ssh:INVENTORY"
            )
            for name in sorted(needs.hosts)
        ]
        for own in (self._catalog.executable(name) for name in sorted(needs.executables)):
            if own.machine != platform.machine():
                message = f"is a program for {own.machine}, and this machine is {platform.machine()}"
                found.append(Problem(str(own.file), own.name, message, "compile it for this machine"))
        folders = (word for folder in needs.catalog for word in ("--catalog", str(folder)))
        command = f"{HINT} {shlex.join(folders)}".rstrip()
        for name, options in sorted(needs.options.items()):
            for which, lab in self._named():
                if lacking := sorted(lab.lacks(options)):
                    what = ", ".join(f"CONFIG_{option}" for option in lacking)
                    message = f"needs {what}, which {which}'s kernel lacks"
                    found.append(Problem("", name, message, command))
        return found

    def _named(self) -> Iterator[tuple[str, Lab]]:
        """Yield every lab with its name in messages."""
        yield "the lab", self._lab
        yield from ((f"the lab {name}", lab) for name, lab in sorted(self._labs.items()))

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        """Boot a guest, let it execute the trial's programs, and leave their output in `raw`.

        Raises:
            TrialFailed: the guest hung, panicked, was killed, or a step in it failed.
            TrialStopped: `stop` was set.
            TestbedError: no guest can be started at all.
        """
        lab = self._labs.get(spec.cell.lab, self._lab)
        used = Uses.of(spec.cell, TRAITS).entries(self._catalog)
        linux = lab.provided_by(kernel_options(used))
        steps = script.guest_script(
            spec.programs, spec.topology, linux, seed=spec.seed, tcp_mb=tcp_mb(spec.cell)
        )
        steps.write(raw)
        self._write_host(lab, spec, raw, linux)
        boot = Boot(lab.kernel, lab.rootfs, raw, spec.seed, memory_mb=guest_mb(spec.cell, MEMORY_MB))
        console = raw / "console.log"
        with self._own_programs(spec, raw / script.PROGRAMS):
            ended = self._guests.run(boot, console, spec.wall_limit_s, stop)
        if left := tidy(raw):  # before anything there is read, or written through a link
            raise TrialFailed(left)
        try:
            _read_status(raw, steps, f"the guest {_manner(ended.returncode)}: {_tail(console)}")
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise TrialFailed(f"the guest's status cannot be read: {type(error).__name__} {error}") from error
        compress_captures(raw)
        virtual_s = spec.cell.length.s
        return Outcome(wall_s=ended.wall_s, cpu_s=ended.cpu_s, virtual_s=virtual_s)

    @contextlib.contextmanager
    def _own_programs(self, spec: TrialSpec, folder: Path) -> Iterator[None]:
        """Put the user's own programs of a trial where the guest finds them, as long as it runs."""
        used = [self._catalog.executable(name) for name in executables(spec.cell)]
        if used:
            folder.mkdir()
        for own in used:
            place = folder / own.handle
            shutil.copyfile(own.file, place)  # no link: what runs in a guest may write there
            place.chmod(0o700)
        try:
            yield
        finally:
            if used and is_real_folder(folder):
                remove_tree(folder)

    def _write_host(self, lab: Lab, spec: TrialSpec, raw: Path, linux: Sequence[str]) -> None:
        """Describe what this trial runs on, for the `hostinfo` collector, without naming the machine.

        Of the modules of Linux, `linux` are those that the trial loads.
        """
        others = set(lab.provided_by(lab.options)).difference(linux)
        host = {
            "testbed": self.name,
            "lab": lab.name,
            "kernel_release": lab.kernel_release,
            "kernel_source": lab.source,
            "kernel_digest": lab.digests.kernel,
            "userland_digest": lab.digests.userland,
            "tools_digest": lab.digests.tools,
            "modules": {name: lab.srcversions[name] for name in sorted(lab.srcversions.keys() - others)},
            "seed": spec.seed,
        }
        (raw / "host.json").write_text(json.dumps(host, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _read_status(raw: Path, steps: script.GuestScript, ended: str) -> None:
    """Write what the status of a guest has for the collectors.

    Raises:
        TrialFailed: the guest did not come to the end of its script (`ended` says how it ended), or a step
            failed.
        LookupError, TypeError, AttributeError, ValueError, RecursionError: a program has written into it.
    """
    status = _status(raw / "status.jsonl")
    last = status[-1] if status else {}
    if not last.get("end"):
        raise TrialFailed(ended)
    if not last.get("ok"):
        raise TrialFailed(steps.explain(str(last.get("reason") or "the guest gave no reason")))
    _write_start(raw, last["t0_ns"])
    _write_changes(raw, steps, status)


def _write_start(raw: Path, t0_ns: int) -> None:
    """Write the start instant by the clock of the captures: nanoseconds since the epoch."""
    (raw / "start.json").write_text(json.dumps({"t0_ns": EPOCH_NS + t0_ns}) + "\n", encoding="utf-8")


def _write_changes(raw: Path, steps: script.GuestScript, status: list[dict[str, Any]]) -> None:
    """Write when events took effect into the folders of their nodes; computing takes no virtual time."""
    t0_ns = status[-1]["t0_ns"]
    started = {step["line"]: step["start_ns"] for step in status if step.get("step") == "at"}
    by_node: dict[str, list[dict[str, object]]] = {}
    for line, (node, change) in steps.changes.items():
        t_ms = (started[line] - t0_ns) / 1e6
        by_node.setdefault(node, []).append({"event": change.event, "factor": change.factor, "t_ms": t_ms})
    for node, taken in by_node.items():
        (raw / node / CHANGES_FILE).write_text(json.dumps(taken) + "\n", encoding="utf-8")


def _status(path: Path) -> list[dict[str, Any]]:
    """Read the status that the guest's init wrote (docs/guest.md), up to a truncated line if any."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        # what was read before a truncated line stays
        found.extend(map(json.loads, plain_text(path).splitlines()))
    return found


def _manner(returncode: int) -> str:
    if returncode < 0:
        return f"was ended by signal {-returncode}"
    return f"ended with exit code {returncode} before its script did"


def _tail(console: Path) -> str:
    text = plain_text(console).strip()
    return text[-_TAIL_CHARS:] or "its console is empty"
