# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""p4/ncf as a data plane under test: its program in the interpreter, set up by its control part."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from l4sbench.disk.assets import folder
from tests.p4 import bfrt
from tests.p4.packets import HOSTS
from tests.p4.reference import Outcome, Sent
from tests.p4.tna.machine import Switch
from tests.p4.tna.syntax import Tree, load
from tests.p4.vectors import BOTTLENECKS

NCF = folder("p4") / "ncf"
PROGRAM = NCF / "ncf.p4"
PIPE = 128
"""The first device port of the pipe in use; port 1 of the vectors is the one after."""
CELL_BYTES = 80


@cache
def program() -> Tree:
    """Return the tree of the program."""
    return load(PROGRAM)


@cache
def control() -> ModuleType:
    """Return the control part, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("ncf_control", NCF / "control.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def configuration() -> dict[str, Any]:
    """Return the configuration for the vectors' hosts and bottlenecks."""
    ports = [
        {
            "port": PIPE + port,
            "rate_kbps": settings.capacity_kbps,
            "buffer_bytes": 250_000,
            "bottleneck": settings.bottleneck,
        }
        for port, settings in BOTTLENECKS.items()
    ]
    return {"ports": ports, "hosts": {host.mac.hex(":"): PIPE + host.port for host in HOSTS}}


class P4Plane:
    """A data plane under test."""

    def __init__(self, config: Path) -> None:
        self.machine = Switch(program())
        self.info = bfrt.Info(self.machine)
        self.config = control().read_config(str(config))
        self.switch = control().Switch(bfrt, self.info)
        control().setup(self.switch, self.config)

    def reset(self) -> None:
        """Forget all packets."""
        for register in self.machine.registers.values():
            register.clear()

    def window(self, time_ns: int) -> int:
        """Return the number of the window of a time."""
        return time_ns >> int(control().WINDOW_BIT)

    def clear(self, window: int) -> None:
        """Do the controller's work in a window."""
        self.switch.empty(f"Ingress.window{(window + 1) % 4}")

    def preset(self, port: int, flows: int) -> None:
        """Set the number of elephants of a port."""
        self.switch.set_register("Egress.elephants", PIPE + port, flows)

    def packet(self, time_ns: int, port: int, frame: bytes, depth_bytes: int) -> Outcome:
        """Take a packet in."""
        cells, rest = divmod(depth_bytes, CELL_BYTES)
        assert rest == 0, "depths are whole cells"
        queued = self.machine.ingress(time_ns, PIPE + port, frame)
        if queued is None:
            return Outcome(None, ())
        sent = self.machine.egress(time_ns, queued.port, queued.packet, cells)
        queue = ("mice", "elephants")[queued.queue]
        return Outcome(queue, tuple(Sent(one.port - PIPE, one.packet) for one in sent))
