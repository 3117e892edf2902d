# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A host's part of a trial, detached from the connection that starts it: launch, wait, stop, result.

A trial's folder holds `part.json` (the instructions), `log`, `raw/`, then `result.json`, `results.tar.gz`,
`results.sha256` and `rc`; `done` is written last. After a dropped connection `wait` is called again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, Mapping

from system import (
    STATE,
    Failed,
    boot_id,
    ended_from_outside,
    in_namespace,
    namespace_of,
    read_json,
    read_text,
    run,
    write_whole,
)
from wiring import load_modules, unload_former, wire

TRIALS = STATE / "trials"
LOCK = STATE / "lock"
CURRENT = STATE / "current"
KEPT = 20
"""Number of ended trials that a host keeps for later fetches, where there is room."""
SPARE_BYTES = 100 << 20
"""Free space that a trial gets beyond what the largest of the kept ones takes."""
FULL_BYTES = 1 << 20
STALE_S = 60.0
"""Time without a `wait` after which a trial may be ended in favour of another one."""


def launch(part: Mapping[str, Any]) -> dict[str, Any]:
    """Begin a host's part of a trial and return at once. Raises Failed when the host is in use."""
    trial = str(part["id"])
    folder = _folder(trial)
    TRIALS.mkdir(parents=True, exist_ok=True)
    ended = _make_room(str(part["owner"]))
    shutil.rmtree(folder, ignore_errors=True)
    _forget_oldest()
    folder.mkdir()
    write_whole(folder / "boot_id", boot_id())
    write_whole(folder / "asked", "")
    write_whole(folder / "part.json", json.dumps(part))
    CURRENT.write_text(trial, encoding="utf-8")
    _detach([sys.executable, str(Path(__file__).parent), "work", trial], folder / "log", trial)
    return {"id": trial, "ended": ended}


def _folder(trial: str) -> Path:
    if not trial or not all(c.isalnum() or c in "-_." for c in trial) or trial.startswith("."):
        raise Failed(f"{trial!r} is not a valid id of a trial")
    return TRIALS / trial


def _forget_oldest() -> None:
    """Remove the oldest ended trials: captures of a few may fill a disk, and then no other trial begins."""
    kept = sorted(TRIALS.iterdir(), key=lambda path: path.stat().st_mtime)
    needed = max(map(_size, kept), default=0) + SPARE_BYTES
    while kept and (len(kept) > KEPT or shutil.disk_usage(TRIALS).free < needed):
        shutil.rmtree(kept.pop(0), ignore_errors=True)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _detach(argv: list[str], log: Path, trial: str) -> None:
    """Start a process that outlives this one and the connection."""
    if Path("/run/systemd/system").is_dir() and shutil.which("systemd-run"):
        unit = f"l4sbench-{hashlib.sha256(trial.encode()).hexdigest()[:12]}"
        out = f"append:{log}"
        properties = ("--property", f"StandardOutput={out}", "--property", f"StandardError={out}")
        environment = f"--setenv=L4SBENCH_STATE={STATE}"
        run(["systemd-run", "--quiet", "--collect", "--unit", unit, environment, *properties, *argv])
        return
    with log.open("ab") as end:
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=end, stderr=end, start_new_session=True, close_fds=True
        )


def _make_room(owner: str) -> str:
    """End a running trial if it is ours or abandoned, and return its id."""
    if not _busy():
        return ""
    running = read_text(CURRENT)
    folder = TRIALS / running
    whose = (read_json(folder / "part.json") or {}).get("owner")
    try:
        idle_s = time.time() - (folder / "asked").stat().st_mtime
    except OSError:
        idle_s = STALE_S
    if whose != owner and idle_s < STALE_S:
        raise Failed(f"this host runs a trial of another controller ({running})")
    stop(running)
    return running


def _busy() -> bool:
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def stop(trial: str) -> dict[str, Any]:
    """End a trial and everything it started here, if it still runs."""
    folder = _folder(trial)
    pid = read_text(folder / "pid")
    if pid and str(folder.name) in read_text(f"/proc/{pid}/cmdline"):
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(int(pid), number)
            except ProcessLookupError:
                break
            deadline = time.monotonic() + 5
            while _busy() and time.monotonic() < deadline:
                time.sleep(0.05)
    return {"id": trial, "running": _busy()}


def work(trial: str) -> int:
    """Do a host's part of a trial, detached; write all results to files."""
    folder = _folder(trial)
    part = read_json(folder / "part.json") or {}
    signal.signal(signal.SIGTERM, ended_from_outside)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_whole(folder / "pid", str(os.getpid()))
        result: dict[str, Any] = {"ok": False, "reason": "", "secondary": False, "missed": False}
        result["nodes"] = {}
        try:
            try:
                result["changed"] = [*unload_former(part), *wire(part), *load_modules(part)]
            except Failed as failure:  # the nodes report it to the others
                write_whole(folder / "part.json", json.dumps({**part, "broken": failure.reason}))
            result.update(_perform(part, folder))
        except Failed as failure:
            result.update(reason=failure.reason, secondary=failure.secondary, missed=failure.missed)
        write_whole(folder / "result.json", json.dumps(result))
        digest = _pack(folder)
        write_whole(folder / "results.sha256", digest)
        write_whole(folder / "rc", "0" if result["ok"] else "1")
        write_whole(folder / "done", "")
    return 0 if result["ok"] else 1


def _perform(part: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Start one process per node, each in its namespace, and wait for all of them."""
    own = [sys.executable, str(Path(__file__).parent), "node", part["id"]]
    children = {}
    for node in part["host_nodes"]:
        argv = [*in_namespace(namespace_of(part, node)), *own, node]
        children[node] = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + float(part["limit_s"])
    late = []
    try:
        for node, child in children.items():
            try:
                child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                late.append(node)
    finally:
        for child in children.values():
            if child.poll() is None:
                child.terminate()
        for child in children.values():
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
    nodes = {node: read_json(folder / f"{node}.json") or {} for node in children}
    nodes = {n: _silent(n, folder, late) if n in late or not own else own for n, own in nodes.items()}
    # causes before their consequences
    wrong = sorted(
        (n for n in nodes.values() if not n["ok"]), key=lambda n: (not n["missed"], n["secondary"])
    )
    reason = f"{wrong[0]['node']}: {wrong[0]['reason']}" if wrong else ""
    kind = {mark: bool(wrong and wrong[0][mark]) for mark in ("secondary", "missed")}
    return {"ok": not wrong, "reason": reason, **kind, "nodes": nodes}


def _silent(node: str, folder: Path, late: list[str]) -> dict[str, Any]:
    said = read_text(folder / "log")[-500:]
    reason = "no end within the trial's limit" if node in late else f"ended without a result: {said}"
    return {"node": node, "ok": False, "reason": reason, "secondary": False, "missed": False}


def _pack(folder: Path) -> str:
    """Pack the raw files and the result into one archive, and return its SHA-256."""
    partial = folder / "results.tar.gz.partial"
    with tarfile.open(partial, "w:gz", compresslevel=1) as archive:
        for name in ("result.json", "log", "raw"):
            if (folder / name).exists():
                archive.add(folder / name, name)
    digest = hashlib.sha256(partial.read_bytes()).hexdigest()
    partial.replace(folder / "results.tar.gz")
    return digest


def wait(trial: str, seconds: float) -> dict[str, Any]:
    """Return a trial's state, at the latest after this many seconds: running, ended, lost or unknown."""
    folder = _folder(trial)
    deadline = time.monotonic() + seconds
    while True:
        if not (folder / "part.json").exists():
            return {
                "state": "unknown",
                "reason": "the host was restarted, or its trials were removed",
            }
        os.utime(folder / "asked")
        if (folder / "done").exists():
            return _reported(folder)
        if boot_id() != read_text(folder / "boot_id"):
            return {"state": "lost", "reason": "the host was restarted during the trial"}
        begun = (folder / "pid").exists()
        if begun and not _busy() and not (folder / "done").exists():
            full = shutil.disk_usage(folder).free < FULL_BYTES
            said = "the disk is full" if full else read_text(folder / "log")[-500:]
            return {"state": "lost", "reason": f"the trial's process was killed: {said}"}
        if time.monotonic() > deadline:
            return {"state": "running"}
        time.sleep(0.1)


def _reported(folder: Path) -> dict[str, Any]:
    result = read_json(folder / "result.json") or {}
    return {
        "state": "ended",
        "ok": result.get("ok"),
        "reason": result.get("reason"),
        "secondary": result.get("secondary"),
        "missed": result.get("missed"),
        "results": str(folder / "results.tar.gz"),
        "bytes": (folder / "results.tar.gz").stat().st_size,
        "sha256": read_text(folder / "results.sha256"),
    }


def trials() -> list[dict[str, Any]]:
    """Return the trials whose files are still on this host, newest first."""
    if not TRIALS.is_dir():
        return []
    folders = sorted(TRIALS.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    return [{"id": folder.name, **wait(folder.name, 0)} for folder in folders]
