# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Many hostile inputs in one process, through the command line's entry function.

    python -m tests.attack.worker KIND SEED FIRST COUNT FOLDER

prints a line of JSON per case that the oracle objects to and keeps its files below FOLDER.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import re
import resource
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.attack.hostile import ROOT, Case, make_case, make_run
from tests.attack.oracle import HANG_S, Ended, objections

FRESH_MB: Final = 60.0
"""Memory of a process that has begun a command: Python, and what every command loads."""


def perform(argv: tuple[str, ...]) -> Ended:
    """Run one command in this process."""
    from l4sbench.cli import main

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")
    _forget_peak()
    began_s, left_mb = _cpu_s(), max(_memory_mb("VmRSS") - FRESH_MB, 0.0)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as ended:  # --help
            code = ended.code if isinstance(ended.code, int) else 1
    # memory that earlier commands left resident does not count
    return Ended(code, _text(out), _text(err), _cpu_s() - began_s, _memory_mb("VmHWM") - left_mb)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def _cpu_s() -> float:
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def _forget_peak() -> None:
    with contextlib.suppress(OSError):  # else the peak of earlier commands counts, too
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _memory_mb(kind: str) -> float:
    """Return a line of `/proc/self/status`: `VmRSS`, resident memory, or `VmHWM`, its peak."""
    found = re.search(rf"^{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def attack(case: Case) -> list[dict[str, object]]:
    """Run the commands of a case; return what the oracle objects to."""
    here = Path.cwd()
    os.chdir(case.folder)
    found: list[dict[str, object]] = []
    try:
        for argv in case.commands:
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            ended = perform(argv)
            faulthandler.cancel_dump_traceback_later()
            if against := objections(case, argv, ended):
                found.append(
                    {"number": case.number, "argv": argv, "objections": against, "err": ended.err[-2000:]}
                )
    finally:
        os.chdir(here)
    return found


def base_run(folder: Path) -> Path:
    """Return the undamaged run directory that cases are made from; make it if there is none."""
    latest = folder / "runs" / "base" / "latest"
    return latest.resolve() if latest.exists() else make_run(folder / "runs").resolve()


def remember_our_files() -> None:
    """Parse the catalog that ships with l4sbench once, not for every command."""
    from l4sbench.disk import document

    parse, known = document.parse, dict[tuple[bytes, str], document.Document]()

    def remembered(data: bytes, name: str) -> document.Document:
        if not name.startswith(f"{ROOT}/kernels/"):
            return parse(data, name)
        if (data, name) not in known:
            known[data, name] = parse(data, name)
        return known[data, name]

    document.parse = remembered


def main() -> int:
    """Run the cases that the arguments name."""
    remember_our_files()
    kind, seed, first, count, folder = sys.argv[1:]
    if kind == "inventories":
        from tests.attack.loaded import keep_ansible_loaded

        keep_ansible_loaded()
    run = base_run(Path(folder))
    for number in range(int(first), int(first) + int(count)):
        # a folder of its own around each case, in which nothing else may appear
        around = Path(folder, f"{kind}-{seed}-{number}").resolve()
        shutil.rmtree(around, ignore_errors=True)
        print(json.dumps({"began": number}), flush=True)  # noqa: T201
        found = attack(make_case(kind, int(seed), number, around / "case", run))
        if not found:
            shutil.rmtree(around)
        for each in found:
            print(json.dumps(each), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
