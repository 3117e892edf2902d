# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Program that applies the programs of a host's nodes; runs on the host, as root.

usage: python3 FOLDER COMMAND [ARG...]

    facts       report kernel, tools, modules and interfaces
    wiring      namespaces, bridges, modules        (stdin: a host's part of a trial)
    tuning      sysctls, links, routes, offloads    (the same)
    bottleneck  queues, read back and compared      (the same)
    echo        round-trip times of the nodes' paths (the same)
    launch      begin a trial, detached             (the same)
    wait TRIAL SECONDS     report a trial's state, at the latest after this many seconds
    stop TRIAL             end a trial
    trials                 list the trials whose files are still here
    files                  write the files of a folder that differ
    pauses SECONDS         measure for how long the host stands still
    teardown               restore the state before the first trial

stdin, where a command reads it, and stdout are JSON. A failure is `{"failed": "reason"}` with exit code 1.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping

import host
from echo import round_trips
from facts import facts
from pauses import pauses
from queues import queues
from system import (
    STATE,
    Failed,
    in_namespace,
    namespace_of,
    namespaces,
    read_json,
    read_text,
    take_all,
    write_whole,
)
from trial import perform
from tuning import remembered, restore, tune
from wiring import load_modules, restore_modules, unload_former, unwire, wire


def main(argv: list[str]) -> int:
    """Run one command."""
    command, *args = argv or ["help"]
    if command == "work":
        return host.work(args[0])
    if command == "node":
        folder = host.TRIALS / args[0]
        return 0 if perform(read_json(folder / "part.json") or {}, args[1], folder) else 1
    if command not in _COMMANDS:
        sys.stderr.write(__doc__ or "")
        return 2
    try:
        answer = _COMMANDS[command](*args)
    except Failed as failure:
        answer = {"failed": failure.reason}
    except (OSError, subprocess.SubprocessError) as error:
        answer = {"failed": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if "failed" in answer else 0


def _part() -> dict[str, Any]:
    plain = json.load(sys.stdin)
    if not isinstance(plain, dict):
        raise Failed("stdin is not a JSON map")
    return plain


def _wiring() -> dict[str, Any]:
    return {"changed": _wired(_part())}


def _wired(part: Mapping[str, Any]) -> list[str]:
    """Wire the host's nodes and load its modules: sysctls and queues of the nodes may be the modules'."""
    return [*unload_former(part), *wire(part), *load_modules(part)]


def _on_nodes(command: str) -> dict[str, Any]:
    """Run a command for every node of the host, each in its namespace, once the host is wired."""
    part = _part()
    changed = _wired(part)
    for node in part["host_nodes"]:
        lines = _on_node(command, part, node)["changed"]
        changed += [f"{node}: {line}" for line in lines] if namespace_of(part, node) else lines
    return {"changed": changed}


def _echo() -> dict[str, Any]:
    """Measure the round-trip times of the paths of every node of the host that has some to measure."""
    part = _part()
    found = {
        node: _on_node("echo", part, node)["round_trips_ms"]
        for node in part["host_nodes"]
        if part["programs"][node].get("echoes")
    }
    return {"round_trips_ms": found}


def _on_node(command: str, part: Mapping[str, Any], node: str) -> dict[str, Any]:
    """Return the result of a command for one node, in its namespace if it has one. Raises Failed."""
    netns = namespace_of(part, node)
    if netns is None:
        return _apply(command, part, node)
    argv = [*in_namespace(netns), sys.executable, str(Path(__file__).parent), f"node-{command}", node]
    ended = subprocess.run(
        argv, input=json.dumps(part), capture_output=True, text=True, timeout=120, check=False
    )
    try:
        reported: dict[str, Any] = json.loads(ended.stdout)
    except ValueError as error:
        raise Failed(f"{node}: {ended.stderr.strip()[-500:]}") from error
    if "failed" in reported:
        raise Failed(f"{node}: {reported['failed']}")
    return reported


def _apply(command: str, part: Mapping[str, Any], node: str) -> dict[str, Any]:
    """Run a command for a node in whose namespace this process is."""
    if command == "echo":
        return {"round_trips_ms": round_trips(part["programs"][node]["echoes"])}
    return {"changed": tune(part, node) if command == "tuning" else queues(part, node, fresh=False)}


def _files() -> dict[str, Any]:
    """Write those files of a folder that differ; other files in it stay."""
    given = _part()
    changed = []
    for name, encoded in sorted(given["files"].items()):
        path, content = Path(given["folder"], name), base64.b64decode(encoded)
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
            changed.append(name)
    return {"changed": changed}


def _teardown() -> dict[str, Any]:
    running = read_text(host.CURRENT)
    if running:
        host.stop(running)
    steps: list[Callable[[], list[str]]] = [partial(unwire, namespaces())]
    steps += [partial(restore, node) for node in remembered()]
    changed = take_all([*steps, restore_modules])
    if not STATE.exists():
        return {"changed": changed}
    shutil.rmtree(STATE, ignore_errors=True)  # this program too, which is loaded in memory
    return {"changed": [*changed, f"{STATE} removed"]}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "facts": lambda: facts(_part()),
    "wiring": _wiring,
    "tuning": lambda: _on_nodes("tuning"),
    "bottleneck": lambda: _on_nodes("bottleneck"),
    "echo": _echo,
    "node-tuning": lambda node: _apply("tuning", _part(), node),
    "node-bottleneck": lambda node: _apply("bottleneck", _part(), node),
    "node-echo": lambda node: _apply("echo", _part(), node),
    "launch": lambda: host.launch(_part()),
    "wait": lambda trial, seconds: host.wait(trial, float(seconds)),
    "stop": host.stop,
    "trials": lambda: {"trials": host.trials()},
    "files": _files,
    "pauses": lambda seconds: {"pauses": pauses(float(seconds))},
    "teardown": _teardown,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
