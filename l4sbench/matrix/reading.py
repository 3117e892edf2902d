# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A matrix file and those it extends, as one source: every stated value with its place, nothing crossed yet.

Maps merge and lists replace; where a file fixes a factor that another file crosses, or the other way round,
the file that extends wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from l4sbench.document import CUT, Document, KeyPath, parse, salvage
from l4sbench.errors import InputError, Problem

if TYPE_CHECKING:
    from l4sbench.matrix.grammar import MatrixFile

Origin: TypeAlias = Literal["fixed", "axis", "include", "exclude"]

_SECTIONS = frozenset({"flows", "axes", "exclude", "include"})
_STAND_INS = {"matrix": "unnamed"}


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One place where a file gives one value to one factor; each is an object of its own."""

    name: str
    raw: Any
    where: str
    key_where: str
    origin: Origin


Point: TypeAlias = Mapping[str, Statement]


@dataclass(frozen=True)
class AxisSource:
    """An axis as the file has it: each point sets one factor or, when linked, several."""

    name: str
    where: str
    linked: bool
    points: tuple[Point, ...]

    @property
    def factors(self) -> tuple[str, ...]:
        """Every factor that a point sets, in order of appearance."""
        return tuple(dict.fromkeys(name for point in self.points for name in point))

    @property
    def always(self) -> frozenset[str]:
        """The factors that every point sets; for others a fixed value stands in."""
        return frozenset.intersection(*(frozenset(point) for point in self.points))


@dataclass(frozen=True)
class Rule:
    """One entry of `exclude` or `include`."""

    where: str
    statements: Point


@dataclass
class Source:
    """What a file says, those it extends included.

    Attributes:
        settings: `matrix`, `description`, `trials`, `rule`, `baselines`, `seed`, `catalog`, as far as
            stated.
        groups: flow groups in order, and where each is declared.
        incomplete: something was wrong and has been cut out, so that nothing can be said to be missing.
        extended: whether it took anything from another file.
    """

    path: str
    settings: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, Statement] = field(default_factory=dict)
    axes: dict[str, AxisSource] = field(default_factory=dict)
    exclude: tuple[Rule, ...] | None = None
    include: tuple[Rule, ...] | None = None
    problems: list[Problem] = field(default_factory=list)
    incomplete: bool = False
    extended: bool = False


def read_source(path: Path) -> tuple[Source, bytes]:
    """Reads a matrix file with everything it extends; also its own bytes.

    Raises:
        InputError: the file itself cannot be read. What is wrong in it stands in `Source.problems`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from None
    return _source(parse(data, str(path)), path, (path.resolve(),)), data


def _source(document: Document, path: Path, chain: tuple[Path, ...]) -> Source:
    from l4sbench.matrix.grammar import MatrixFile

    salvaged = salvage(document, MatrixFile, name_of=factor_path, stand_ins=_STAND_INS)
    own = _Collector(document, salvaged.model, not salvaged.complete).collect()
    own.problems[:0] = [*document.problems, *salvaged.problems]
    own.incomplete |= bool(document.problems)
    source: Source | None = None
    for index, name in enumerate(salvaged.model.extends or ()):
        if name is CUT:
            continue
        where = document.where(("extends", index))
        base = _base(path.parent / name, where, chain)
        source = base if source is None else merge(source, base)
    if source is None:
        return own
    return replace(merge(source, own), extended=True)


def _base(path: Path, where: str, chain: tuple[Path, ...]) -> Source:
    """The source of a file that another extends; problems of reading it are told at the place that asks."""
    resolved = path.resolve()
    if resolved in chain:
        return Source(
            str(path), problems=[Problem(where, "extends", f"{path} extends itself")], incomplete=True
        )
    try:
        return _source(parse(path.read_bytes(), str(path)), path, (*chain, resolved))
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        return Source(str(path), problems=[Problem(where, "extends", message)], incomplete=True)
    except InputError as error:
        return Source(str(path), problems=list(error.problems), incomplete=True)


def factor_path(path: KeyPath) -> str:
    """The factor a key path is about, or the dotted keys when it is about none.

    `flows.l4s.cc` and `l4s.cc` are both `l4s.cc`, and `axes.pairing[0].classic.cc` is `classic.cc`.
    """
    keys = [part for part in path if isinstance(part, str) and part != "[key]"]
    if not keys or keys[0] not in _SECTIONS or len(keys) == 1:
        return ".".join(keys)
    if keys[0] == "flows":
        return ".".join(keys[1:])
    return keys[-1]


class _Collector:
    """Picks the statements out of one checked file."""

    def __init__(self, document: Document, model: MatrixFile, incomplete: bool) -> None:
        self.document = document
        self.model = model
        self.source = Source(document.name, incomplete=incomplete)

    def collect(self) -> Source:
        """The file's own statements."""
        model, source = self.model, self.source
        for name in ("matrix", "description", "rule", "baselines", "seed", "catalog"):
            if (value := getattr(model, name)) is not None:
                self._setting(name, value)
        if model.trials is not None:
            stated = model.trials.model_dump(exclude_none=True)
            content = self.document.content
            whole = isinstance(content, dict) and not isinstance(content.get("trials"), dict)
            self._setting("trials", stated | {"whole": True} if whole else stated)
        for group, flows in (model.flows or {}).items():
            source.groups[group] = self.document.where(("flows", group), key=True)
            self._fix(flows.__pydantic_extra__ or {}, ("flows", group), f"{group}.")
        self._fix(model.__pydantic_extra__ or {}, (), "")
        for name, points in ((model.axes.__pydantic_extra__ or {}) if model.axes else {}).items():
            self._axis(name, points)
        source.exclude = self._rules("exclude", model.exclude)
        source.include = self._rules("include", model.include)
        return source

    def _setting(self, name: str, value: object) -> None:
        if name == "catalog":
            folder = Path(self.document.name).parent
            value = [folder / item for item in self.model.catalog or () if item is not CUT]
        self.source.settings[name] = value
        self.source.places[name] = self.document.where((name,))

    def _statement(self, name: str, raw: object, path: KeyPath, origin: Origin) -> Statement:
        where = self.document.where(path)
        return Statement(name, raw, where, self.document.where(path, key=True), origin)

    def _fix(self, stated: Mapping[str, object], path: KeyPath, prefix: str) -> None:
        for key, raw in stated.items():
            name = prefix + key
            if (other := self.source.fixed.get(name)) is not None:
                where = self.document.where((*path, key), key=True)
                self._problem(where, name, f"is stated twice; the other is at {other.key_where}")
                continue
            self.source.fixed[name] = self._statement(name, raw, (*path, key), "fixed")

    def _axis(self, name: str, raw_points: Iterable[Any]) -> None:
        where = self.document.where(("axes", name), key=True)
        points: list[Point] = []
        linked: bool | None = None
        for index, raw in enumerate(raw_points):
            path = ("axes", name, index)
            if raw is CUT:
                continue
            stated = getattr(raw, "__pydantic_extra__", None)
            is_linked = stated is not None
            if linked is not None and linked != is_linked:
                message = "mixes values and maps; a linked axis has a map of factors for every point"
                self._problem(self.document.where(path), name, message)
                continue
            linked = is_linked
            if is_linked and not stated:
                self._problem(
                    self.document.where(path), name, "a point of a linked axis sets at least one factor"
                )
                continue
            if stated is None:
                points.append({name: Statement(name, raw, self.document.where(path), where, "axis")})
            else:
                points.append({n: self._statement(n, v, (*path, n), "axis") for n, v in stated.items()})
        if points:
            self.source.axes[name] = AxisSource(name, where, bool(linked), tuple(points))

    def _rules(
        self, key: Literal["exclude", "include"], entries: Iterable[Any] | None
    ) -> tuple[Rule, ...] | None:
        if entries is None:
            return None
        rules: list[Rule] = []
        for index, entry in enumerate(entries):
            if entry is CUT:
                continue
            where = self.document.where((key, index))
            stated = entry.__pydantic_extra__ or {}
            if not stated and key == "exclude":
                self._problem(where, key, "an empty map would exclude every cell")
                continue
            rules.append(
                Rule(where, {n: self._statement(n, raw, (key, index, n), key) for n, raw in stated.items()})
            )
        return tuple(rules)

    def _problem(self, where: str, path: str, message: str) -> None:
        self.source.problems.append(Problem(where, path, message))
        self.source.incomplete = True


def merge(base: Source, own: Source) -> Source:
    """`own` on top of `base`: maps merge, lists replace, the name of the matrix is never inherited."""
    crossed = {factor for axis in own.axes.values() for factor in axis.always}
    fixed = {name: statement for name, statement in base.fixed.items() if name not in crossed} | own.fixed
    axes = {
        name: axis
        for name, axis in base.axes.items()
        if not all(factor in own.fixed for factor in axis.factors)
    } | own.axes
    settings = base.settings | own.settings
    if "trials" in base.settings and "trials" in own.settings and "whole" not in own.settings["trials"]:
        settings["trials"] = base.settings["trials"] | own.settings["trials"]
        settings["trials"].pop("whole", None)  # a range extends a number: it is a range
    return Source(
        path=own.path,
        settings=settings,
        places=base.places | own.places,
        groups=base.groups | own.groups,
        fixed=fixed,
        axes=axes,
        exclude=base.exclude if own.exclude is None else own.exclude,
        include=base.include if own.include is None else own.include,
        problems=base.problems + own.problems,
        incomplete=base.incomplete or own.incomplete,
    )
