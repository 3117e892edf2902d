# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The SDE's client module for control.py on the stand-in of a switch: the interpreter's tables behind a port.

Clients are processes of their own, and share tables by a file: `run` writes `tables.json` at its first read
of the switch's clock, which follows the setup, and others begin with what it holds. `counters.json` in the
stand-in's folder, if there is one, is what the hardware counts.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

HOME = Path(__file__).parents[5]
sys.path.insert(0, (HOME / "project").read_text(encoding="utf-8"))

from tests.p4 import bfrt  # noqa: E402
from tests.p4.bfrt import *  # noqa: E402, F403
from tests.p4.plane import program  # noqa: E402
from tests.p4.tna.machine import Switch  # noqa: E402
from tests.patience import PATIENCE_S  # noqa: E402

TABLES = HOME / "tables.json"
WRITES = sys.argv[1] in ("setup", "run")


class Told(bfrt.Info):
    """The tables, which are written to a file once they are set up."""

    written = False

    def table_get(self, name: str) -> bfrt.DriverTable | bfrt.ProgramTable | bfrt.RegisterTable:
        if WRITES and name == "Ingress.clock" and not self.written:
            self.written = True
            self.write()
        table = super().table_get(name)
        counters = HOME / "counters.json"
        if isinstance(table, bfrt.DriverTable) and table.schema.counts and counters.exists():
            for *at, counted in json.loads(counters.read_text(encoding="utf-8")).get(name, []):
                table.entries[tuple(at)] = counted
        return table

    def write(self) -> None:
        tables: dict[str, list[object]] = {
            table: [[*at, data] for at, data in self.entries(table).items()] for table in self.tables
        }
        for name, table in self.tables.items():
            if isinstance(table, bfrt.ProgramTable):
                tables[name] = [[row.tests, row.action.name, row.arguments] for row in table.table.rows]
        partial = TABLES.with_suffix(".partial")
        partial.write_text(json.dumps(tables), encoding="utf-8")
        partial.replace(TABLES)

    def read(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not TABLES.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        for name, rows in json.loads(TABLES.read_text(encoding="utf-8")).items():
            table = self.tables[name]
            for row in rows:
                if isinstance(table, bfrt.ProgramTable):
                    tests, action, arguments = row
                    table.table.add([tuple(test) for test in tests], action, arguments)
                elif isinstance(table, bfrt.DriverTable):
                    *at, data = row
                    table.entries[tuple(at)] = data


class ClientInterface:
    """A connection to the server, which must listen."""

    def __init__(self, grpc_addr: str, client_id: int, device_id: int) -> None:
        host, _, port = grpc_addr.rpartition(":")
        socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()
        if device_id or "SDE_INSTALL" not in os.environ:
            raise ValueError(device_id)

    def bfrt_info_get(self, name: str) -> Told:
        if name != "ncf":
            raise ValueError(name)
        made = Told(Switch(program()))
        if WRITES:
            TABLES.unlink(missing_ok=True)
        else:
            made.read()
        return made

    def bind_pipeline_config(self, name: str) -> None:
        if name != "ncf":
            raise ValueError(name)
