# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A stand-in of the SDE's BF Runtime client, before the interpreter instead of a chip.

It takes names of tables, keys, actions and fields from the program that the interpreter runs, and those of
the driver's tables from the SDE's schemas (bf_rt_tm_tf1.json, bf_rt_mirror_tf1.json, bf_rt_port.json); any
other name, type or call is an error. It cannot show how a chip behaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.p4.tna.machine import RunnableTable, Switch

Scalar = int | str | bool | list[int]
PIPES = 2


class BfruntimeReadWriteRpcException(Exception):  # noqa: N818 - the client's name
    """A write that the server refuses: an entry is there already, or is not."""


class UnknownError(Exception):
    """A name or type that the switch does not have."""


@dataclass(frozen=True)
class Target:
    """A device and a pipe."""

    device_id: int
    pipe_id: int


@dataclass(frozen=True)
class KeyTuple:
    """One field of a key."""

    name: str
    value: int | None = None
    prefix_len: int | None = None
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class DataTuple:
    """One field of data."""

    name: str
    val: int | None = None
    str_val: str | None = None
    bool_val: bool | None = None

    @property
    def value(self) -> Scalar:
        """The one value that is set."""
        given = [one for one in (self.val, self.str_val, self.bool_val) if one is not None]
        if len(given) != 1:
            raise UnknownError(f"{self.name} has {len(given)} values")
        return given[0]


@dataclass(frozen=True)
class Key:
    """A key."""

    fields: tuple[KeyTuple, ...]

    def to_dict(self) -> dict[str, dict[str, int | None]]:
        """Return the values by name; of a range its ends."""
        return {
            one.name: {"value": one.value} if one.low is None else {"low": one.low, "high": one.high}
            for one in self.fields
        }


@dataclass(frozen=True)
class Data:
    """Data, with an action if there is one."""

    values: Mapping[str, Scalar]
    action: str | None

    def to_dict(self) -> Mapping[str, Scalar]:
        """Return the values by name, and the action's name if there is one."""
        return self.values if self.action is None else {**self.values, "action_name": self.action}


@dataclass(frozen=True)
class Schema:
    """A table of the driver: key, fields with their types, action, whether the driver fills it.

    `counts` are fields that only the hardware changes; `from_hw`: it is read from there.
    """

    key: tuple[str, ...]
    fields: Mapping[str, type]
    action: str | None = None
    filled: bool = False
    counts: tuple[str, ...] = ()


QUEUE = ("pg_id", "pg_queue")
FRONTS = {1: 132, 2: 140, 3: 148, 31: 128, 32: 136}
"""Connector -> device's number of its first channel: 1/0 and 2/0 as on FABRIC, the others are made up."""
SCHEMAS: Mapping[str, Schema] = {
    "$PORT": Schema(("$DEV_PORT",), {"$SPEED": str, "$FEC": str, "$PORT_ENABLE": bool}),
    "$PORT_HDL_INFO": Schema(("$CONN_ID", "$CHNL_ID"), {}, filled=True),
    "$mirror.cfg": Schema(
        ("$sid",),
        {
            "$direction": str,
            "$session_enable": bool,
            "$ucast_egress_port": int,
            "$ucast_egress_port_valid": bool,
            "$max_pkt_len": int,
        },
        "$normal",
    ),
    "tf1.tm.port.cfg": Schema(("dev_port",), {}, filled=True),
    "tf1.tm.port.sched_cfg": Schema(("dev_port",), {"max_rate_enable": bool}, filled=True),
    "tf1.tm.port.sched_shaping": Schema(
        ("dev_port",),
        {"unit": str, "provisioning": str, "max_rate": int, "max_burst_size": int},
        filled=True,
    ),
    "tf1.tm.queue.sched_cfg": Schema(
        QUEUE, {"scheduling_enable": bool, "dwrr_weight": int, "max_priority": str}, filled=True
    ),
    "tf1.tm.queue.buffer": Schema(
        QUEUE,
        {
            "guaranteed_cells": int,
            "tail_drop_enable": bool,
            "pool_id": str,
            "pool_max_cells": int,
            "dynamic_baf": str,
        },
        "shared_pool",
        filled=True,
    ),
    "tf1.tm.counter.queue": Schema(
        QUEUE, {}, filled=True, counts=("drop_count_packets", "usage_cells", "watermark_cells")
    ),
    "$PORT_STAT": Schema(
        ("$DEV_PORT",), {}, filled=True, counts=("$OctetsTransmittedTotal", "$FramesTransmittedAll")
    ),
}


@dataclass
class _Table:
    """The common part of tables."""

    name: str
    switch: Switch

    def make_key(self, fields: Sequence[KeyTuple]) -> Key:
        """Return a key."""
        return Key(tuple(fields))

    def make_data(self, fields: Sequence[DataTuple], action: str | None = None) -> Data:
        """Return data."""
        return Data({one.name: one.value for one in fields}, action)


@dataclass
class DriverTable(_Table):
    """A table of the driver."""

    schema: Schema
    entries: dict[tuple[int | None, ...], dict[str, Scalar]] = field(default_factory=dict)
    down: set[tuple[int, ...]] = field(default_factory=set)
    """Keys of ports whose link is down."""

    def _at(self, key: Key) -> tuple[int | None, ...]:
        if tuple(one.name for one in key.fields) != self.schema.key:
            raise UnknownError(f"{self.name} has the key {self.schema.key}")
        return tuple(one.value for one in key.fields)

    def _check(self, data: Data) -> None:
        if data.action != self.schema.action:
            raise UnknownError(f"{self.name}: action {data.action}")
        for name, value in data.values.items():
            if type(value) is not self.schema.fields.get(name):
                raise UnknownError(f"{self.name}: {name} = {value!r}")

    def entry_add(self, target: Target, keys: Sequence[Key], data: Sequence[Data]) -> None:
        """Add entries."""
        for key, one in zip(keys, data, strict=True):
            self._check(one)
            at = self._at(key)
            if self.schema.filled or at in self.entries:
                raise BfruntimeReadWriteRpcException
            self.entries[at] = dict(one.values)
            self._apply(at)

    def entry_mod(self, target: Target, keys: Sequence[Key], data: Sequence[Data]) -> None:
        """Change entries."""
        for key, one in zip(keys, data, strict=True):
            self._check(one)
            at = self._at(key)
            if not self.schema.filled and at not in self.entries:
                raise BfruntimeReadWriteRpcException
            if "pg_id" in self.schema.key and target.pipe_id >= PIPES:
                raise UnknownError(f"{self.name} needs the pipe of its port")
            self.entries.setdefault(at, {}).update(one.values)
            self._apply(at)

    def entry_get(
        self, target: Target, keys: Sequence[Key], flags: Mapping[str, bool]
    ) -> Iterator[tuple[Data, Key]]:
        """Return entries."""
        if flags != {"from_hw": self.name != "$PORT_HDL_INFO"}:
            raise UnknownError(f"{self.name} is read from elsewhere: {flags}")
        for key in keys:
            at = self._at(key)
            if self.name.startswith("tf1.") and target.pipe_id >= PIPES:
                raise UnknownError(f"{self.name} is not read in pipe {target.pipe_id}")
            yield Data(self._shown(at, target.pipe_id), self.schema.action), key

    def _shown(self, at: tuple[int | None, ...], pipe: int) -> dict[str, Scalar]:
        """Return what an entry reads as."""
        port = at[0]
        if self.name == "tf1.tm.port.cfg":
            if port is None or port >> 7 != pipe:
                raise UnknownError(f"{self.name} has no port {port} in pipe {pipe}")
            local = port & 0x7F
            first = local % 4 * 8
            queues = list(range(first, first + 8))
            return {"pg_id": local // 4, "pg_port_nr": local % 4, "egress_qid_queues": queues}
        if self.name == "$PORT_HDL_INFO":
            connector, channel = (int(str(one)) for one in at)
            if connector not in FRONTS or channel not in range(4):
                raise BfruntimeReadWriteRpcException
            return {"$DEV_PORT": FRONTS[connector] + channel, "$PORT_NAME": f"{connector}/{channel}"}
        written = self.entries.get(at, {})
        if self.schema.counts:
            return {name: written.get(name, 0) for name in self.schema.counts}
        if not written:
            raise BfruntimeReadWriteRpcException
        up = {"$PORT_UP": at not in self.down} if self.name == "$PORT" else {}
        return {**written, **up}

    def _apply(self, at: tuple[int | None, ...]) -> None:
        """Tell the interpreter of mirror sessions."""
        if self.name == "$mirror.cfg" and at[0] is not None:
            session = self.entries[at]
            port, longest = session["$ucast_egress_port"], session["$max_pkt_len"]
            usable = session["$session_enable"] and session["$ucast_egress_port_valid"]
            if usable and session["$direction"] == "EGRESS" and isinstance(port, int):
                self.switch.sessions[at[0]] = (port, int(str(longest)))


@dataclass
class ProgramTable(_Table):
    """A table of the program."""

    table: RunnableTable

    def entry_add(self, target: Target, keys: Sequence[Key], data: Sequence[Data]) -> None:
        """Add entries."""
        control = self.name.partition(".")[0]
        for key, one in zip(keys, data, strict=True):
            tests = self._tests(key)
            if any(row.tests == tests for row in self.table.rows):
                raise BfruntimeReadWriteRpcException
            before, _, action = (one.action or "").partition(".")
            if before != control or action not in self.table.actions:
                raise UnknownError(f"{self.name}: action {one.action}")
            names = [name for name, _, _ in self.table.actions[action].parameters]
            if set(names) != set(one.values):
                raise UnknownError(f"{self.name}: {action} takes {names}")
            self.table.add(tests, action, [int(str(one.values[name])) for name in names])

    def entry_del(self, target: Target) -> None:
        """Remove all entries."""
        self.table.rows.clear()

    def entry_get(self, target: Target, keys: None, flags: Mapping[str, bool]) -> Iterator[tuple[Data, Key]]:
        """Return all entries."""
        control = self.name.partition(".")[0]
        for row in self.table.rows:
            fields = [
                KeyTuple(name, low=first, high=second) if kind == "range" else KeyTuple(name, first)
                for (name, _, _, _), (kind, first, second) in zip(self.table.keys, row.tests, strict=True)
            ]
            names = [name for name, _, _ in row.action.parameters]
            values: dict[str, Scalar] = dict(zip(names, row.arguments, strict=True))
            yield Data(values, f"{control}.{row.action.name}"), Key(tuple(fields))

    def _tests(self, key: Key) -> tuple[tuple[str, int, int], ...]:
        given = {one.name: one for one in key.fields}
        prioritised = any(kind in ("range", "ternary") for _, kind, _, _ in self.table.keys)
        if (given.pop("$MATCH_PRIORITY", None) is not None) != prioritised:
            raise UnknownError(f"{self.name}: $MATCH_PRIORITY")
        if set(given) != {name for name, _, _, _ in self.table.keys}:
            raise UnknownError(f"{self.name} has the keys {[name for name, _, _, _ in self.table.keys]}")
        tests = []
        for name, kind, width, _ in self.table.keys:
            one, full = given[name], (1 << width) - 1
            if kind == "range" and one.low is not None and one.high is not None:
                tests.append((kind, one.low, one.high))
            elif kind == "lpm" and one.value is not None and one.prefix_len is not None:
                mask = full ^ (full >> one.prefix_len)
                tests.append((kind, one.value & mask, mask))
            elif kind == "exact" and one.value is not None:
                tests.append((kind, one.value, full))
            else:
                raise UnknownError(f"{self.name}: {name} is matched by {kind}")
        return tuple(tests)


@dataclass
class RegisterTable(_Table):
    """A register of the program; its values are those of one pipe, the other is idle."""

    def _data(self, index: int) -> Data:
        return Data({f"{self.name}.f1": [0, self.switch.registers[self.name].values[index]]}, None)

    def entry_get(
        self, target: Target, keys: Sequence[Key] | None, flags: Mapping[str, bool]
    ) -> Iterator[tuple[Data, Key]]:
        """Return values."""
        if flags != {"from_hw": True}:
            raise UnknownError("registers are read from the hardware")
        every = (
            Key((KeyTuple("$REGISTER_INDEX", at),))
            for at in range(len(self.switch.registers[self.name].values))
        )
        for key in every if keys is None else keys:
            yield self._data(self._index(key)), key

    def entry_mod(self, target: Target, keys: Sequence[Key], data: Sequence[Data]) -> None:
        """Set values."""
        for key, one in zip(keys, data, strict=True):
            ((name, value),) = one.values.items()
            if name != f"{self.name}.f1" or not isinstance(value, int):
                raise UnknownError(f"{self.name}: {name} = {value!r}")
            self.switch.registers[self.name].values[self._index(key)] = value

    def entry_del(self, target: Target) -> None:
        """Set all values to their initial one."""
        self.switch.registers[self.name].clear()

    def _index(self, key: Key) -> int:
        (one,) = key.fields
        if one.name != "$REGISTER_INDEX" or one.value is None:
            raise UnknownError(f"{self.name}: key {one.name}")
        return one.value


class Info:
    """The tables of a running program."""

    def __init__(self, switch: Switch) -> None:
        self.tables: dict[str, DriverTable | ProgramTable | RegisterTable] = {}
        for name, table in switch.tables.items():
            if table.keys and not table.constant:
                self.tables[name] = ProgramTable(name, switch, table)
        for name in switch.registers:
            self.tables[name] = RegisterTable(name, switch)
        for name, schema in SCHEMAS.items():
            self.tables[name] = DriverTable(name, switch, schema)

    def table_get(self, name: str) -> DriverTable | ProgramTable | RegisterTable:
        """Return a table."""
        if name not in self.tables:
            raise UnknownError(f"table {name}")
        return self.tables[name]

    def driver(self, name: str) -> DriverTable:
        """Return a table of the driver."""
        table = self.tables[name]
        assert isinstance(table, DriverTable)
        return table

    def entries(self, name: str) -> Mapping[tuple[int | None, ...], Mapping[str, Scalar]]:
        """Return the entries of a table of the driver."""
        table = self.tables[name]
        return table.entries if isinstance(table, DriverTable) else {}
