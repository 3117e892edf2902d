# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Read entries from `module.yml`; unknown keys and parameters and defaults out of range are errors."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from l4sbench.catalog import files
from l4sbench.catalog.entries import (
    ECN_MODES,
    CatalogEntry,
    CongestionControl,
    EcnMode,
    KernelModule,
    KernelNeeds,
    Queue,
    ReadbackCheck,
)
from l4sbench.catalog.exports import SHARED, UNITS, Column, Exports, Table, units_of
from l4sbench.catalog.template import Item, Part, Text, fields, parse_text
from l4sbench.disk.document import Flaw, parse
from l4sbench.disk.userfiles import read_bytes
from l4sbench.errors import BadValueError, suggest
from l4sbench.text.parameters import Condition, Parameter
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from l4sbench.disk.document import KeyPath
    from l4sbench.text.units import Value

BUFFER, RATE = "buffer", "rate"
_T = TypeVar("_T")


def read_entry(file: Path) -> CatalogEntry:
    """Read the entry that `file` describes; a file with the same content is read once per process.

    Raises:
        InputError: all problems of the file, each with line, column and key.
    """
    return _entry(file, read_bytes(file))


@lru_cache(maxsize=1024)
def _entry(file: Path, content: bytes) -> CatalogEntry:
    document = parse(content, str(file))
    model = document.validate(files.EntryFile).root
    reader = _Reader(file.parent, model)
    entry = reader.queue(model) if isinstance(model, files.QueueFile) else reader.congestion_control(model)
    document.refuse(reader.flaws)
    return entry


class _Reader:
    """Converts a grammatical file to an entry and collects inconsistencies in `flaws`."""

    def __init__(self, folder: Path, model: files.QueueFile | files.CongestionControlFile) -> None:
        self.flaws: list[Flaw] = []
        self.folder = folder
        self.params = self._params(model.params)
        self._check_params(model.params)

    def queue(self, model: files.QueueFile) -> Queue:
        self._measure(model.buffer, ("buffer",), ("size", "packets"))
        for place, name in enumerate(model.thresholds):
            self._measure(name, ("thresholds", place), ("duration", "size", "packets"))
        for name, least in model.steps.items():
            self._measure(name, ("steps", name), ("duration",))
            self._measure(least, ("steps", name), ("packets",))
        template = self._items(model.tc, ("tc",), {})
        first = template[0]
        if isinstance(first, Part) and not first.when:
            self._flaw(("tc", 0), "the first argument is the kind of queue and cannot be conditional")
        return Queue(
            name=model.name,
            label=model.label,
            also=tuple(model.also),
            family=model.family,
            marks=tuple(model.marks),
            l4s=model.l4s,
            about=model.about,
            sources=tuple(model.sources),
            needs=_needs(model.needs),
            params=self.params,
            buffer=model.buffer,
            thresholds=tuple(model.thresholds),
            steps=_frozen(model.steps),
            template=template,
            readback=tuple(self._check(key, expected) for key, expected in model.readback.items()),
            module=self._module(model.module, "sch_"),
            exports=self._exports("queues", model),
            folder=self.folder,
            digest=_digest(model),
        )

    def congestion_control(self, model: files.CongestionControlFile) -> CongestionControl:
        ecn = model.ecn
        allowed = tuple(ecn.allowed)
        if ecn.default not in allowed:
            self._flaw(("ecn", "default"), f"{ecn.default} is not among ecn.allowed: {', '.join(allowed)}")
        for key, names in (("reacts", ecn.reacts), ("modes", list(ecn.modes))):
            for place, name in enumerate(names):
                if name not in allowed:
                    at = place if key == "reacts" else name
                    self._flaw(("ecn", key, at), f"{name} is not among ecn.allowed: {', '.join(allowed)}")
        return CongestionControl(
            name=model.name,
            kernel_name=model.kernel_name,
            label=model.label,
            also=tuple(model.also),
            about=model.about,
            sources=tuple(model.sources),
            needs=_needs(model.needs),
            module=self._module(model.module, "tcp_"),
            ecn_default=ecn.default,
            ecn_allowed=allowed,
            ecn_reacts=tuple(ecn.reacts),
            l4s=model.l4s,
            receiver_cc=model.receiver_cc,
            params=self.params,
            sysctls=_frozen(
                {
                    role: self._texts(getattr(model.sysctls, role), ("sysctls", role))
                    for role in ("sender", "receiver")
                }
            ),
            ecn_modes=_frozen({name: _ecn_mode(name, ecn.modes.get(name)) for name in allowed}),
            exports=self._exports("sockets", model),
            folder=self.folder,
            digest=_digest(model),
        )

    def _params(self, raw: Mapping[str, files.ParamFile]) -> Mapping[str, Parameter]:
        params: dict[str, Parameter] = {}
        for name, given in raw.items():
            at: KeyPath = ("params", name)
            is_word = given.kind == "str"
            if not is_word and (given.choices is not None or given.pattern is not None):
                self._flaw(at, f"choices and pattern require kind str, not {given.kind}")
            if (is_word or given.kind == "bool") and (given.minimum is not None or given.maximum is not None):
                self._flaw(at, f"minimum and maximum do not apply to kind {given.kind}")
            bare = Parameter(
                name,
                given.kind,
                given.doc,
                derive=given.from_,
                choices=tuple(given.choices or ()) if is_word else (),
                pattern=given.pattern if is_word else None,
                word=is_word,
                source=given.source,
            )
            own = self._value(bare, given.own, (*at, "own"))
            if not is_word and given.kind != "bool":
                minimum, maximum = (
                    self._value(bare, getattr(given, key), (*at, key)) for key in ("minimum", "maximum")
                )
                bare = replace(bare, minimum=minimum, maximum=maximum)
            default = self._value(bare, given.default, (*at, "default"))
            params[name] = replace(bare, own=own, default=default)
        return params

    def _check_params(self, raw: Mapping[str, files.ParamFile]) -> None:
        """Check references between parameters and add `when`, which needs all of them known."""
        whole: dict[str, Parameter] = {}
        for name, given in raw.items():
            at: KeyPath = ("params", name)
            if name in (BUFFER, RATE):
                self._flaw(at, f"{name} is a property of the cell; choose another name")
            if given.from_ is not None:
                self._check_derive(given, (*at, "from"), earlier=tuple(whole))
            when = self._condition(given.when, (*at, "when"))
            for sibling in when:
                if self.params[sibling].default is None:
                    message = f"{sibling} has no default, so no parameter can depend on it"
                    self._flaw((*at, "when", sibling), message)
            whole[name] = replace(self.params[name], when=when)
        self.params = _frozen(whole)

    def _check_derive(self, given: files.ParamFile, at: KeyPath, earlier: Sequence[str]) -> None:
        kinds = {BUFFER: ("packets", "size"), RATE: ("rate",)}
        name = given.from_ or ""
        if given.default is not None:
            self._flaw(at, "a parameter cannot have both default and from")
        if name in earlier:
            kinds[name] = (self.params[name].kind,)
        if name not in kinds:
            offered = (*kinds, *earlier)
            self._flaw(at, f"cannot be derived from {quoted(name)}", suggest(name, offered))
        elif given.kind not in kinds[name]:
            self._flaw(at, f"a parameter of kind {given.kind} cannot be derived from {name}")

    def _flaw(self, at: KeyPath, message: str, hint: str | None = None) -> None:
        self.flaws.append(Flaw(at, message, hint))

    def _value(self, param: Parameter, raw: object, at: KeyPath) -> Value | None:
        if raw is None:
            return None
        try:
            return param.parse(raw)
        except BadValueError as error:
            self._flaw(at, error.message, error.hint)
            return None

    def _condition(self, raw: files.When, at: KeyPath) -> Mapping[str, tuple[Value, ...]]:
        condition: dict[str, tuple[Value, ...]] = {}
        for name, allowed in raw.items():
            if self._known(name, (*at, name)):
                values = (self._value(self.params[name], value, (*at, name)) for value in allowed)
                condition[name] = tuple(value for value in values if value is not None)
        return _frozen(condition)

    def _known(self, name: str, at: KeyPath, also: Sequence[str] = ()) -> bool:
        offered = (*self.params, *also)
        if name in offered:
            return True
        self._flaw(at, f"no parameter {quoted(name)}", suggest(name, offered))
        return False

    def _measure(self, name: str, at: KeyPath, kinds: Sequence[str]) -> None:
        """Check a parameter that is used in arithmetic."""
        if self._known(name, at) and self.params[name].kind not in kinds:
            self._flaw(at, f"{name} is of kind {self.params[name].kind}; expected one of {', '.join(kinds)}")

    def _sure(self, text: Text, at: KeyPath, within: Condition) -> None:
        """Check that an argument that cannot be left out has parameters that always have a value."""
        for field in fields([text]):
            param = self.params.get(field.name)
            if param is None:
                continue
            has_value = param.default is not None or param.derive is not None
            applies = all(
                name in within and set(within[name]) <= set(allowed) for name, allowed in param.when.items()
            )
            if not has_value or param.words or not applies:
                hint = "put the argument into a list of its own, which is then left out"
                self._flaw(at, f"{field.name} may have no value here", hint)

    def _text(self, raw: str, at: KeyPath) -> Text:
        try:
            text = parse_text(raw)
        except ValueError as error:
            self._flaw(at, str(error))
            return Text((raw,))
        for field in fields([text]):
            self._known(field.name, at)
        return text

    def _texts(self, raw: Mapping[str, str], at: KeyPath) -> Mapping[str, Text]:
        return _frozen({key: self._text(value, (*at, key)) for key, value in raw.items()})

    def _items(
        self, raw: Sequence[str | list[str] | files.PartFile], at: KeyPath, within: Condition
    ) -> tuple[Item, ...]:
        items: list[Item] = []
        for place, given in enumerate(raw):
            here = (*at, place)
            if isinstance(given, str):
                text = self._text(given, here)
                self._sure(text, here, within)
                items.append(text)
            elif isinstance(given, list):
                texts = tuple(self._text(text, (*here, number)) for number, text in enumerate(given))
                items.append(Part(texts, _frozen({}), optional=True))
            else:
                when = self._condition(given.when, (*here, "when"))
                inner = self._items(given.args, (*here, "args"), {**within, **when})
                items.append(Part(inner, when, optional=False))
        return tuple(items)

    def _check(self, key: str, expected: files.CheckFile | bool | float | str) -> ReadbackCheck:
        at: KeyPath = ("readback", key)
        given = expected if isinstance(expected, files.CheckFile) else files.CheckFile(value=expected)
        value = self._text(given.value, at) if isinstance(given.value, str) else given.value
        return ReadbackCheck(key, value, given.within, self._condition(given.when, (*at, "when")))

    def _module(self, model: files.ModuleFile | None, prefix: str) -> KernelModule | None:
        if model is None:
            return None
        if (model.name is None) == (model.from_ is None):
            self._flaw(("module",), "needs either name or from, the entry whose module it is")
            return None
        if model.from_ is not None and model.source:
            self._flaw(("module", "source"), f"the module's source is beside {quoted(model.from_)}, not here")
        if model.name is None:
            params = self._texts(model.params, ("module", "params"))
            return KernelModule("", None, params, of=model.from_ or "")
        if not model.source and not model.name.startswith(prefix):
            # hosts load it as root; code of its own needs consent, a module of Linux does not
            message = (
                f"without source: true the name of a module begins with {prefix}, not {quoted(model.name)}"
            )
            self._flaw(("module", "name"), message)
        params = self._texts(model.params, ("module", "params"))
        return KernelModule(model.name, self.folder if model.source else None, params)

    def _exports(self, table: Table, entry: files.QueueFile | files.CongestionControlFile) -> Exports | None:
        model = entry.exports
        if model is None:
            return None
        at: KeyPath = ("exports",)
        module = (entry.module.name or "") if entry.module else ""
        if table == "sockets" and entry.module is not None and entry.module.from_ is not None:
            self._flaw(at, f"the counters of the module are described by {quoted(entry.module.from_)}")
            return None
        source = (model.of or "") if table == "queues" else module
        if table == "queues" and not source:
            self._flaw(at, "of is missing: the kind of queue with these counters, as tc names it")
        if table == "sockets" and not source.startswith("tcp_"):
            self._flaw(at, "needs a module whose name begins with tcp_, like its file in /proc/net")
        if table == "sockets" and (model.of or model.statistics):
            self._flaw(at, "of and statistics are for queues only")
        self._check_panels(table, model)
        prefix = f"{entry.name.replace('-', '_')}_"
        for name, given in model.columns.items():
            self._check_column(table, name, given, prefix)
        columns = (
            Column(name, tuple(given.from_), given.unit, given.kind, given.doc)
            for name, given in model.columns.items()
        )
        panels = ((title, tuple(names)) for title, names in model.panels.items())
        return Exports(table, source, tuple(columns), tuple(model.statistics.items()), tuple(panels))

    def _check_panels(self, table: Table, model: files.ExportsFile) -> None:
        if table == "queues" and model.panels:
            self._flaw(("exports", "panels"), "panels are for congestion controls only")
        for title, names in model.panels.items():
            at: KeyPath = ("exports", "panels", title)
            words = {name for name in names if name in model.columns and model.columns[name].kind == "str"}
            for name in names:
                if name not in model.columns:
                    self._flaw(at, f"{quoted(name)} is not a column above", suggest(name, model.columns))
            if words and words != set(names):
                self._flaw(at, "words and numbers cannot share a panel")

    def _check_column(self, table: Table, name: str, given: files.ColumnFile, prefix: str) -> None:
        at: KeyPath = ("exports", "columns", name)
        own = name.startswith(prefix)
        if not own and name not in SHARED[table]:
            offered = ", ".join(SHARED[table])
            message = f"not a column that all entries share; begin it with {prefix}, or choose from {offered}"
            self._flaw(at, message, suggest(name, SHARED[table]))
        if own and (given.kind is None or not given.doc):
            self._flaw(at, "a column of its own needs kind and doc")
        if given.unit is not None and given.unit not in units_of(name):
            ends = "; ".join(f"{end}: {', '.join(units)}" for end, units in UNITS.items())
            message = f"{quoted(given.unit)} does not fit the end of the column's name; choose from {ends}"
            self._flaw((*at, "unit"), message)


def _needs(model: files.NeedsFile) -> KernelNeeds:
    return KernelNeeds(model.kernel, tuple(model.config), tuple(model.modules), model.iproute2, model.family)


def _ecn_mode(name: str, model: files.EcnModeFile | None) -> EcnMode:
    usual = ECN_MODES[name]
    if model is None:
        return usual
    return EcnMode(
        _frozen({**usual.sender, **model.sender}),
        _frozen({**usual.receiver, **model.receiver}),
        model.receiver_cc or usual.receiver_cc,
    )


def _digest(model: BaseModel) -> str:
    """Return the digest of what affects trials: no labels, documentation or requirements on hosts."""
    words = {"label", "also", "about", "sources"}
    skipped = {*words, "needs", "family", "thresholds", "steps", "marks", "l4s", "exports"}
    content = model.model_dump(mode="json", exclude={*skipped, "params"}, by_alias=True)
    if (module := content.get("module")) is not None and module["from"] is None:
        del module["from"]  # digests of before there was such a key
    content["params"] = {
        name: param.model_dump(mode="json", exclude={"doc", "source"}, by_alias=True)
        for name, param in getattr(model, "params", {}).items()
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _frozen(mapping: dict[str, _T]) -> Mapping[str, _T]:
    return MappingProxyType(mapping)
