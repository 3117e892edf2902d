# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Inject faults into runs at random instants, and compare every file with that of an undisturbed run.

    python -m tests.attack.killer --faults 20 --seed 1 --folder /tmp/somewhere

A run is 24 trials of the small testbed, each a process that writes files, among them those of a captured
trial, so that the tables have rows. A child process runs it and makes its tables as `l4sbench run` does. This
one kills it, hangs up, fills the disk, moves the folder, or damages what is unfinished. After each fault:

- every file of a trial that ended earlier is as it was (nothing lost or rewritten),
- what a trial that ended since then wrote is what it writes undisturbed (nothing faked),
- the child ended with an exit code that is not a bug's.

When all trials of a run have ended, its tables are those of the undisturbed run, byte for byte, nothing
unfinished is left, and the next run begins. The seed decides which faults come, not the instants at which
they meet the child.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import collectors.assemble
from l4sbench.disk.files import is_temporary
from l4sbench.engine.loop import Order, execute
from l4sbench.engine.testbed import Outcome, TrialStopped
from l4sbench.errors import L4sbenchError, TrialFailed
from l4sbench.facts.events import Status
from l4sbench.facts.faults import Fault, FaultKind
from l4sbench.matrix import Matrix
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import plan
from l4sbench.program.trial import Judgement, TrialSpec
from l4sbench.store import DiskFull, Run, RunMoved, is_full, locked
from l4sbench.store.bundle import unpack_bundle, write_bundle
from tests.patience import PATIENCE_S
from tests.unit.l4sbench import small

CASE: Final = Path(__file__).parents[1] / "cases" / "trials" / "lean-dualpi2" / "raw"
SEED: Final = "L4SBENCH_ATTACK_SEED"
"""Environment variable with the seed."""
DEFAULT_SEED: Final = 20260102
KEEP: Final = "L4SBENCH_ATTACK_KEEP"
"""Environment variable with the folder for what violations left; default: below that for temporary files."""
DISK_MB: Final = 64
_INSIDE: Final = "L4SBENCH_KILLER_DISK"
_TRIALS: Final = "4"
_ENDS_WELL: Final = frozenset({0, 1, 2, 3, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP})

# the files of a captured trial, one by one, and two that name the trial
_SCRIPT: Final = """\
set -e
printf %s "$3" >"$1/a.txt"
cd "$2"
for folder in */; do mkdir "$1/$folder"; done
for file in *.json* */*; do
    [ "$file" = programs.json ] || cp "$file" "$1/$file"
done
sleep "$4"
printf %s "$3" >"$1/b.txt"
"""


class Violation(Exception):  # noqa: N818  (what the attack is after)
    """A finished trial was lost, rewritten or faked, or a child ended by a bug."""


class Testbed(small.SmallTestbed):
    """Runs the script for each trial."""

    __test__ = False

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        argv = [*small.COMMAND, _SCRIPT, "sh", str(raw), str(CASE), small.text_of(spec), str(self.sleep_s)]

        def look() -> None:
            if stop.is_set():
                raise TrialStopped

        small.run_process(argv, look)
        return Outcome(0.1, 0.01, spec.cell.duration.s)


def judge(spec: TrialSpec, raw: Path) -> Judgement:
    """Fail what is not whole; some trials are invalid."""
    wanted = small.text_of(spec)
    if any((raw / name).read_text() != wanted for name in ("a.txt", "b.txt")):
        raise TrialFailed("the files are not whole")
    missing = [path for path in CASE.rglob("*") if not (raw / path.relative_to(CASE)).exists()]
    if missing:
        raise TrialFailed(f"{missing[0].name} is missing")
    if spec.trial == 2:
        return Judgement(Status.INVALID, (Fault.of(FaultKind.CC, "l4s-0", shown="reno", wanted="prague"),))
    return Judgement(Status.OK)


# ---- the child
def run_here(runs: Path, wanted: Matrix, sleep_s: float) -> int:
    """Run what has not ended and make the tables, as `l4sbench run` does; return the exit code."""
    testbed = Testbed(sleep_s=sleep_s)
    found = Run.latest(runs, wanted.name) or small.new_run(runs, wanted)
    with locked(found, "killer") as writer:
        writer.retry(("failed",))
        planned = plan(wanted, writer.view, testbed.identity(), testbed.traits, Costs(testbed.traits.cost))
        writer.keep_matrix(wanted.source)
        result = execute(Order(planned, writer, testbed, judge, jobs=3))
        if not result.interrupted and not isinstance(result.error, DiskFull | RunMoved):
            writer.check_place()
            collectors.assemble.collect(found, wanted.catalog)
        return result.exit_code


def child(work: Callable[[], int], log: Path) -> int:
    """Fork a process that does `work` and ends with what it returns; returns its id.

    Nothing in this process has a thread, so that forking is safe and saves the imports.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 4
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with log.open("a", encoding="utf-8") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        code = work()
    except KeyboardInterrupt:
        code = 130
    except L4sbenchError as error:
        code = error.exit_code
    except BaseException as error:  # noqa: BLE001  (a bug, which the parent finds)
        code = 3 if isinstance(error, OSError) and is_full(error) else 4
        with suppress(OSError):
            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(code)
    return 0


# ---- the attack
@dataclass
class Killer:
    """Attacks runs below `folder`; `disk` is True when that is a file system of its own."""

    folder: Path
    seed: int
    disk: bool
    draw: random.Random = field(init=False)
    done: list[str] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    whole: int = 0
    known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.log = self.folder / "child.log"
        self.wanted = small.matrix(self.folder, trials=_TRIALS)
        self.runs = self.folder / "runs"
        reference = self.folder / "reference"
        self.wait(child(lambda: run_here(reference, self.wanted, 0.0), self.log))
        run = Run.latest(reference, self.wanted.name)
        if run is None:
            raise Violation(f"the undisturbed run failed: {self.log.read_text()}")
        self.raw = {name: raw_digest(run.path / "cells" / name) for name in ended(run.path)}
        self.tables = digests(run.path / "tables")
        self.bundle = self.folder / "reference.tar.gz"
        self.contents = write_bundle(run.path, self.bundle)
        if len(self.raw) != 6 * int(_TRIALS) or not any("flows" in name for name in self.tables):
            raise Violation("the undisturbed run is not whole")

    # ---- one fault
    def attack(self) -> None:
        """Let a child run, inject one fault, and compare."""
        faults: list[Callable[[int], None]] = [
            *(self.send,) * 6,
            self.send_twice,
            self.kill_a_trial,
            self.pause,
            self.second_run,
            self.move_the_run,
            self.rename_an_unfinished_trial,
            *(self.kill_and_damage,) * 3,
            self.kill_an_unpacking,
            *((self.fill_the_disk,) if self.disk else ()),
        ]
        fault = self.draw.choice(faults)
        self.done.append(fault.__name__)
        pid = child(lambda: run_here(self.runs, self.wanted, self.draw.uniform(0.0, 0.1)), self.log)
        time.sleep(self.draw.uniform(0.0, 1.0) ** 2 * 1.5)
        fault(pid)
        self.compare()

    def wait(self, pid: int) -> int:
        """Return the exit code of a child, or minus the number of the signal that ended it."""
        until_s = time.monotonic() + PATIENCE_S
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                break
            if time.monotonic() > until_s:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise Violation(f"a child did not end within {PATIENCE_S:g} s")
            time.sleep(0.005)
        code = os.waitstatus_to_exitcode(status)
        self.codes[code] += 1
        if code not in _ENDS_WELL:
            raise Violation(f"a child ended with {code}: {self.log.read_text()[-2000:]}")
        return code

    def send(self, pid: int) -> None:
        """Send one signal."""
        number = self.draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
        self.done[-1] = f"send {number.name}"
        os.kill(pid, number)
        self.wait(pid)

    def send_twice(self, pid: int) -> None:
        """Send two signals, as an impatient user does."""
        os.kill(pid, self.draw.choice([signal.SIGTERM, signal.SIGHUP, signal.SIGINT]))
        time.sleep(self.draw.uniform(0.0, 0.05))
        os.kill(pid, self.draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        self.wait(pid)

    def kill_a_trial(self, pid: int) -> None:
        """Kill the processes of the trials, as the system does when memory runs out."""
        with suppress(FileNotFoundError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                for trial in (thread / "children").read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(trial), signal.SIGKILL)
        self.wait(pid)

    def pause(self, pid: int) -> None:
        """Stop the process for a moment, as a laptop that sleeps does."""
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.draw.uniform(0.0, 0.3))
        os.kill(pid, signal.SIGCONT)
        self.wait(pid)

    def second_run(self, pid: int) -> None:
        """Start the same command once more."""
        second = child(lambda: run_here(self.runs, self.wanted, 0.0), self.log)
        self.wait(second)
        os.kill(pid, signal.SIGTERM)
        self.wait(pid)

    def move_the_run(self, pid: int) -> None:
        """Move the run directory away, and back when the process has ended."""
        run = self.run()
        if run is None:
            self.wait(pid)
            return
        away = run.rename(self.folder / "away")
        self.wait(pid)
        began = self.run()
        if began is not None and (began / "manifest.json").exists():
            # the process looked for a run after the move, and began one; late writes make no manifest
            shutil.rmtree(began)
        if run.exists():
            raise Violation(f"a run was made where another was moved away: {sorted(run.rglob('*'))}")
        away.rename(run)
        self.latest.unlink()
        self.latest.symlink_to(run.name)

    def rename_an_unfinished_trial(self, pid: int) -> None:
        """Rename the folder of a trial under way."""
        run = self.run()
        for path in sorted(run.glob("cells/*/*.partial")) if run else ():
            with suppress(FileNotFoundError):
                path.rename(path.with_name(f"{path.name}.mine"))
                break
        self.wait(pid)
        for path in sorted(run.glob("cells/*/*.mine")) if run else ():
            shutil.rmtree(path)

    def kill_and_damage(self, pid: int) -> None:
        """Kill the process, then damage what is unfinished or can be made again."""
        os.kill(pid, signal.SIGKILL)
        self.wait(pid)
        run = self.run()
        if run is None:
            return
        time.sleep(0.02)  # for the trials' processes to end
        unfinished = [path for path in sorted(run.glob("cells/*/*.partial/**/*")) if path.is_file()]
        unfinished += [path for path in sorted(run.rglob(".l4sbench-*")) if path.is_file()]
        derived = [run / "lock.json", *sorted(run.glob("tables/*.parquet"))]
        for path in self.draw.sample(unfinished, min(3, len(unfinished))) + self.draw.sample(derived, 1):
            self.damage(path)

    def damage(self, path: Path) -> None:
        """Remove, rename, truncate or overwrite a file."""
        with suppress(FileNotFoundError):
            match self.draw.randrange(4):
                case 0:
                    path.unlink()
                case 1:
                    path.rename(path.with_name(f"{path.name}.partial"))
                case 2:
                    os.truncate(path, path.stat().st_size // 2)
                case _:
                    size = path.stat().st_size
                    path.write_bytes(self.draw.randbytes(size))

    def fill_the_disk(self, pid: int) -> None:
        """Leave no byte on the disk until the process has ended."""
        ballast = self.folder / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        self.wait(pid)
        ballast.unlink()

    def kill_an_unpacking(self, pid: int) -> None:
        """Kill a process that unpacks a bundle; what it unpacked is there as a whole or not at all."""
        runs = self.folder / "unpacked"
        target = runs / self.contents.run
        unpacking = child(lambda: 0 if unpack_bundle(self.bundle, runs) == target else 4, self.log)
        time.sleep(self.draw.uniform(0.0, 0.1))
        os.kill(unpacking, signal.SIGKILL)
        self.wait(unpacking)
        if target.exists() and digests(target) != {n: f.sha256 for n, f in self.contents.files.items()}:
            raise Violation("a run was unpacked in part")
        shutil.rmtree(runs, ignore_errors=True)
        os.kill(pid, signal.SIGKILL)
        self.wait(pid)

    # ---- comparing
    @property
    def latest(self) -> Path:
        """The link to the run directory."""
        return self.runs / self.wanted.name / "latest"

    def run(self) -> Path | None:
        """Return the run directory, once there is one."""
        return self.latest.resolve() if self.latest.exists() else None

    def compare(self) -> None:
        """Compare all files of ended trials with what they were and with the undisturbed run."""
        run = self.run()
        if run is None:
            return
        now: dict[str, str] = {}
        for name in ended(run):
            place = run / "cells" / name
            now |= {f"{name}/{file}": digest for file, digest in digests(place).items()}
            status = json.loads((place / "trial.json").read_text())["status"]
            if status != Status.FAILED and raw_digest(place) != self.raw.get(name):
                raise Violation(f"{name} is not what it is undisturbed")
        for name, digest in self.known.items():
            if now.get(name) != digest:
                raise Violation(f"{name} was {'rewritten' if name in now else 'lost'}")
        self.known = now
        results = {name for name in ended(run) if ".failed-" not in name}
        if results == self.raw.keys():
            self.finish(run)

    def finish(self, run: Path) -> None:
        """Resume the run, which has only its tables to make, compare these, and begin a new run."""
        code = self.wait(child(lambda: run_here(self.runs, self.wanted, 0.0), self.log))
        if code != 0:
            raise Violation(f"a run with nothing to do ended with {code}: {self.log.read_text()[-2000:]}")
        # a file that was renamed is somebody's, and stays: a table beside the new one, what a writer left
        tables = {name: own for name, own in digests(run / "tables").items() if not name.endswith(".partial")}
        if other := sorted(name for name, _ in tables.items() ^ self.tables.items()):
            raise Violation(f"not as in the undisturbed run: {', '.join(dict.fromkeys(other))}")
        unfinished = [path for path in run.rglob(".l4sbench-*") if is_temporary(path.name)]
        if left := [*unfinished, *run.glob("cells/*/*.partial")]:
            raise Violation(f"{left[0]} is left")
        self.whole += 1
        shutil.rmtree(self.runs)
        self.known = {}


def ended(run: Path) -> list[str]:
    """Return the ended trials of a run directory, as `<cell>/<folder>`."""
    found = (path for path in (run / "cells").glob("*/*") if ".partial" not in path.name)
    return sorted(f"{path.parent.name}/{path.name}" for path in found)


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder that is not hidden, by its path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def raw_digest(trial: Path) -> str:
    """Return one digest of all raw files of a trial."""
    return hashlib.sha256(json.dumps(digests(trial / "raw")).encode()).hexdigest()


def keep(folder: Path, seed: int) -> Path:
    """Copy what a violation left, as a disk of its own is gone with its process; return the copy."""
    kept = Path(os.environ.get(KEEP) or Path(tempfile.gettempdir(), "l4sbench-attack"), f"killer-{seed}")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept, symlinks=True, ignore=shutil.ignore_patterns("ballast"))
    return kept


def attack(folder: Path, faults: int, seed: int, *, disk: bool) -> int:
    """Inject so many faults; print the seed and what happened, and return 0 when nothing was lost."""
    began_s = time.monotonic()
    killer: Killer | None = None
    try:
        killer = Killer(folder, seed, disk)
        for _ in range(faults):
            killer.attack()
    except Violation as violation:
        done = killer.done if killer else []
        sys.stdout.write(f"{violation}\nfaults so far: {len(done)}, the last: {', '.join(done[-10:])}\n")
        sys.stdout.write(f"seed {seed}: {SEED}={seed} runs the same faults; kept in {keep(folder, seed)}\n")
        return 1
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{faults} faults, seed {seed}, {took_s:.0f} s, nothing lost, rewritten or faked\n")
    for kind, number in sorted(Counter(killer.done).items()):
        sys.stdout.write(f"{number:5d} {kind}\n")
    codes = ", ".join(f"{number} times {code}" for code, number in sorted(killer.codes.items()))
    sys.stdout.write(f"whole runs: {killer.whole}; exit codes: {codes}\n")
    return 0


def on_a_disk_of_its_own(folder: Path, argv: list[str]) -> None:
    """Continue as the same command with a small file system at `folder`; return where that is impossible."""
    script = f'mount -t tmpfs -o size={DISK_MB}m tmpfs "$1" && shift && exec "$@"'
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        if not shutil.which("unshare"):
            return
        trial = subprocess.run(
            [*unshare, "sh", "-c", script, "sh", str(folder), "true"], capture_output=True, check=False
        )
        if not trial.returncode:
            os.environ[_INSIDE] = str(folder)
            again = [sys.executable, "-m", "tests.attack.killer", *argv]
            os.execvp(unshare[0], [*unshare, "sh", "-c", script, "sh", str(folder), *again])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(os.environ.get(SEED, DEFAULT_SEED)))
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder to work in")
    args = parser.parse_args()
    if os.environ.get(_INSIDE) != str(args.folder):
        on_a_disk_of_its_own(args.folder, sys.argv[1:])
    return attack(args.folder, args.faults, args.seed, disk=os.environ.get(_INSIDE) == str(args.folder))


if __name__ == "__main__":
    sys.exit(main())
