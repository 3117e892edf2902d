# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`module.yml` -> entry, strictly: unknown keys, unknown parameters, defaults out of range are errors."""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from l4sbench.catalog import files
from l4sbench.catalog.entries import (
    ECN_MODES,
    Check,
    CongestionControl,
    EcnMode,
    KernelModule,
    Needs,
    Param,
    Queue,
)
from l4sbench.catalog.template import Condition, Item, Part, Text, fields, parse_text
from l4sbench.document import Flaw, read
from l4sbench.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from l4sbench.document import KeyPath
    from l4sbench.units import Value

BUFFER, RATE = "buffer", "rate"
_T = TypeVar("_T")


def read_entry(file: Path) -> Queue | CongestionControl:
    """The entry that `file` describes.

    Raises:
        InputError: everything wrong with it, each with line, column and key.
    """
    document = read(file)
    model = document.validate(files.EntryFile).root
    reader = _Reader(file.parent, model)
    entry = reader.queue(model) if isinstance(model, files.QueueFile) else reader.congestion_control(model)
    document.refuse(reader.flaws)
    return entry


class _Reader:
    """Turns a grammatical file into an entry and notes in `flaws` what makes no sense."""

    def __init__(self, folder: Path, model: files.QueueFile | files.CongestionControlFile) -> None:
        self.flaws: list[Flaw] = []
        self.folder = folder
        self.params = self._params(model.params)
        self._check_params(model.params)

    def queue(self, model: files.QueueFile) -> Queue:
        self._measure(model.buffer, ("buffer",), ("size", "packets"))
        for place, name in enumerate(model.thresholds):
            self._measure(name, ("thresholds", place), ("duration", "size", "packets"))
        template = self._items(model.tc, ("tc",), {})
        first = template[0]
        if isinstance(first, Part) and not first.when:
            self._flaw(("tc", 0), "the first argument names the kind of queue; it cannot be left out")
        return Queue(
            name=model.name,
            label=model.label,
            family=model.family,
            marks=tuple(model.marks),
            l4s=model.l4s,
            about=model.about,
            needs=_needs(model.needs),
            params=self.params,
            buffer=model.buffer,
            thresholds=tuple(model.thresholds),
            template=template,
            readback=tuple(self._check(key, expected) for key, expected in model.readback.items()),
            module=self._module(model.module),
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
            about=model.about,
            needs=_needs(model.needs),
            module=self._module(model.module),
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
            folder=self.folder,
            digest=_digest(model),
        )

    def _params(self, raw: Mapping[str, files.ParamFile]) -> Mapping[str, Param]:
        params: dict[str, Param] = {}
        for name, given in raw.items():
            bare = Param(
                name,
                given.kind,
                derive=given.from_,
                choices=tuple(given.choices) if given.choices is not None else None,
                pattern=given.pattern,
                doc=given.doc,
            )
            values: dict[str, Value | None] = {}
            for key in ("default", "own", "minimum", "maximum"):
                values[key] = self._value(bare, getattr(given, key), ("params", name, key))
            limited = Param(**{**vars(bare), **values})
            if limited.default is not None:
                self._value(limited, limited.default, ("params", name, "default"))
            params[name] = limited
        return params

    def _check_params(self, raw: Mapping[str, files.ParamFile]) -> None:
        """What parameters say of each other; completes `when`, which needs all of them known."""
        whole: dict[str, Param] = {}
        for name, given in raw.items():
            at: KeyPath = ("params", name)
            if name in (BUFFER, RATE):
                self._flaw(at, f"{name} is what the cell says; a parameter needs another name")
            if given.from_ is not None:
                self._check_derive(given, (*at, "from"), earlier=tuple(whole))
            if (given.choices is not None or given.pattern is not None) and given.kind != "str":
                self._flaw(at, f"choices and pattern are for kind str, not {given.kind}")
            when = self._condition(given.when, (*at, "when"))
            for sibling in when:
                if self.params[sibling].default is None:
                    self._flaw(
                        (*at, "when", sibling), f"{sibling} has no default, so nothing can depend on it"
                    )
            whole[name] = Param(**{**vars(self.params[name]), "when": when})
        self.params = _frozen(whole)

    def _check_derive(self, given: files.ParamFile, at: KeyPath, earlier: Sequence[str]) -> None:
        kinds = {BUFFER: ("packets", "size"), RATE: ("rate",)}
        name = given.from_ or ""
        if given.default is not None:
            self._flaw(at, "a parameter has a default or is derived, not both")
        if name in earlier:
            kinds[name] = (self.params[name].kind,)
        if name not in kinds:
            offered = (*kinds, *earlier)
            message = f"cannot be derived from {name}; there is {', '.join(offered)}"
            self._flaw(at, message, did_you_mean(name, offered))
        elif given.kind not in kinds[name]:
            self._flaw(at, f"a {given.kind} cannot be derived from {name}")

    def _flaw(self, at: KeyPath, message: str, hint: str | None = None) -> None:
        self.flaws.append(Flaw(at, message, hint))

    def _value(self, param: Param, raw: object, at: KeyPath) -> Value | None:
        if raw is None:
            return None
        try:
            return param.parse(raw)
        except ValueError as error:
            self._flaw(at, str(error))
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
        message = f"no parameter {name}; there is {', '.join(offered) or 'none'}"
        self._flaw(at, message, did_you_mean(name, offered))
        return False

    def _measure(self, name: str, at: KeyPath, kinds: Sequence[str]) -> None:
        """A parameter that arithmetic is done with."""
        if self._known(name, at) and self.params[name].kind not in kinds:
            message = f"{name} is a {self.params[name].kind}; it must be one of {', '.join(kinds)}"
            self._flaw(at, message)

    def _sure(self, text: Text, at: KeyPath, within: Condition) -> None:
        """An argument that cannot drop out needs parameters that always have a value."""
        for field in fields([text]):
            param = self.params.get(field.name)
            if param is None:
                continue
            has_value = param.default is not None or param.derive is not None
            applies = all(
                name in within and set(within[name]) <= set(allowed) for name, allowed in param.when.items()
            )
            if not has_value or param.words or not applies:
                hint = "write the argument as a list of its own, which is left out then"
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

    def _check(self, key: str, expected: files.CheckFile | bool | float | str) -> Check:
        at: KeyPath = ("readback", key)
        given = expected if isinstance(expected, files.CheckFile) else files.CheckFile(value=expected)
        value = self._text(given.value, at) if isinstance(given.value, str) else given.value
        return Check(key, value, given.within, self._condition(given.when, (*at, "when")))

    def _module(self, model: files.ModuleFile | None) -> KernelModule | None:
        if model is None:
            return None
        params = self._texts(model.params, ("module", "params"))
        return KernelModule(model.name, self.folder if model.source else None, params)


def _needs(model: files.NeedsFile) -> Needs:
    return Needs(model.kernel, tuple(model.config), tuple(model.modules), model.iproute2)


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
    """Over what decides a run: neither labels, documentation nor what a host needs."""
    told = {"label", "about", "needs", "family", "thresholds", "marks", "l4s"}
    content = model.model_dump(mode="json", exclude={*told, "params"}, by_alias=True)
    content["params"] = {
        name: param.model_dump(mode="json", exclude={"doc"}, by_alias=True)
        for name, param in getattr(model, "params", {}).items()
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _frozen(mapping: dict[str, _T]) -> Mapping[str, _T]:
    return MappingProxyType(mapping)
