# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The raw files of a trial, put together from those of its hosts."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

SOCKETS_FILE: Final = "sockets.jsonl"


def unpack(archive: Path, host: str, raw: Path) -> Mapping[str, Any]:
    """Add a host's raw files to the trial's, and return what it reported of its nodes."""
    if not archive.is_file():
        return {}
    with tempfile.TemporaryDirectory(dir=raw, prefix="unpack-") as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        for node in sorted(Path(folder, "raw").glob("*")):
            node.rename(raw / node.name)
            _gather_sockets(raw / node.name / SOCKETS_FILE, raw / SOCKETS_FILE)
        told = json.loads(Path(folder, "result.json").read_text(encoding="utf-8"))
        kept = raw / "hosts"
        kept.mkdir(exist_ok=True)
        for name in ("result.json", "log"):
            if Path(folder, name).is_file() and Path(folder, name).stat().st_size:
                Path(folder, name).rename(kept / f"{host}.{name}")
    return told if isinstance(told, dict) else {}


def _gather_sockets(own: Path, common: Path) -> None:
    """Append samples to the trial's one file of sockets; every line names its node."""
    if own.is_file():
        with common.open("ab") as out:
            out.write(own.read_bytes())
        own.unlink()


def write_start(raw: Path, told: Mapping[str, Mapping[str, Any]], router: str) -> None:
    """Return the start instant by the clock of the router's captures."""
    for host in told.values():
        node = host.get("nodes", {}).get(router)
        if node and "start_epoch_ns" in node:
            text = json.dumps({"t0_ns": node["start_epoch_ns"]}) + "\n"
            (raw / "start.json").write_text(text, encoding="utf-8")


def skew_ms(told: Mapping[str, Mapping[str, Any]]) -> float:
    """Return how far apart the nodes started: the time between the least and the most late flow."""
    late_ms = [
        float(flow["late_ms"])
        for host in told.values()
        for node in host.get("nodes", {}).values()
        for flow in node.get("flows") or []
    ]
    return max(late_ms) - min(late_ms) if late_ms else 0.0
