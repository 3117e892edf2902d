# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs for switches: `p4/<kind of queue>`, whose `module.yml` states what a switch with it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import Field

from l4sbench.catalog.files import Key, Name  # noqa: TC001  (pydantic reads them)
from l4sbench.disk import assets
from l4sbench.disk.document import Flaw, load_model
from l4sbench.text.models import Strict

BUFFER: Final = "buffer"
REST: Final = "rest"


class Taken(Strict, strict=True):
    """A parameter of the queue that a control part takes.

    Attributes:
        minimum: its lowest value.
        maximum: its highest value.
        of: `port` where each port has one; `switch` where all of them share it.
        percent_of: memory that it is a percentage of: `buffer`; the parameter whose share of the buffer it
            divides; or `rest`, what the shares of the buffer leave. None if it is no percentage.
    """

    minimum: int
    maximum: int
    of: Literal["switch", "port"] = "switch"
    percent_of: str | None = None


class SwitchProgram(Strict, strict=True):
    """Abilities of a switch with a program, and parameters that its control part takes.

    Attributes:
        name: kind of the queue, as `tc` names it.
        cell_bytes: bytes of a cell, the unit of the packet buffer.
        packet_cells: cells of a full-size packet.
        most_cells: size of the largest queue.
        rate: parameter that must be the link's rate.
        takes: parameters that the control part takes by their names, and reads back.
        constants: parameters that are constants of the program.
        lacks: parameters of the queue that the program does not have.
    """

    name: Name
    cell_bytes: Annotated[int, Field(ge=1)]
    packet_cells: Annotated[int, Field(ge=1)]
    most_cells: Annotated[int, Field(ge=1)]
    rate: Key
    takes: dict[Key, Taken]
    constants: dict[Key, int] = Field(default={})
    lacks: tuple[Key, ...] = Field(default=(), strict=False)

    def shares(self, values: Mapping[str, int]) -> Mapping[str, float]:
        """Return the share of the buffer of each part that percentages are of: 1 for the buffer itself."""
        shares = {name: values[name] / 100 for name, one in self.takes.items() if one.percent_of == BUFFER}
        return {BUFFER: 1.0, **shares, REST: 1.0 - sum(shares.values())}

    def queue_cells(self, limit_bytes: int, values: Mapping[str, int]) -> tuple[int, ...]:
        """Return the sizes of the queues that share the buffer."""
        cells = limit_bytes // self.cell_bytes
        percents = [values[name] for name, one in self.takes.items() if one.percent_of == BUFFER]
        return tuple(cells * percent // 100 for percent in (*percents, 100 - sum(percents)))

    def within(self, limit_bytes: int, values: Mapping[str, int]) -> Mapping[str, float]:
        """Return by how much percentages may read back differently: two cells of the memory they divide."""
        shares = self.shares(values)
        found: dict[str, float] = {}
        for name, one in self.takes.items():
            if one.percent_of is not None:
                bytes_divided = limit_bytes * shares[one.percent_of]
                found[name] = 100 * 2 * self.cell_bytes / bytes_divided if bytes_divided > 0 else 0.0
        return found


@cache
def switch_programs() -> Mapping[str, SwitchProgram]:
    """Return the programs that there are, by the kind of queue.

    Raises:
        InputError: all problems of a `module.yml`.
    """
    found = {}
    for file in sorted(assets.folder("p4").glob("*/module.yml")):

        def check(model: SwitchProgram, folder: str = file.parent.name) -> Iterator[Flaw]:
            if model.name != folder:
                yield Flaw(("name",), f"the folder is named {folder}")
            known = {BUFFER, REST, *(n for n, one in model.takes.items() if one.percent_of == BUFFER)}
            for name, one in model.takes.items():
                if one.percent_of is not None and one.percent_of not in known:
                    yield Flaw(("takes", name, "percent_of"), f"choose from {', '.join(sorted(known))}")

        model = load_model(file, SwitchProgram, check=check)
        found[model.name] = model
    return MappingProxyType(found)
