# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A matrix file and those it extends as one source: all stated values with their positions, not yet crossed.

Maps merge and lists replace; if one file fixes a factor that another file crosses, the extending file wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from l4sbench.disk import assets
from l4sbench.disk.document import CUT, Document, KeyPath, parse, salvage
from l4sbench.disk.userfiles import is_file, read_bytes
from l4sbench.errors import BadValueError, InputError, Problem, did_you_mean
from l4sbench.facts.factors import EVENTS, FACTOR_NAMES, MEASURED, RTT
from l4sbench.matrix.changes import Given
from l4sbench.text.wording import quoted, quoted_name

if TYPE_CHECKING:
    from l4sbench.matrix.grammar import Quick, Stated
    from l4sbench.text.units import Duration

Origin: TypeAlias = Literal["fixed", "axis", "include", "exclude"]

_SECTIONS = frozenset({"flows", "axes", "exclude", "include"})
_SETTINGS: Final = (
    *("matrix", "description", "origin", "licence", "rule", "baselines", "seed", "catalog"),
    *("spread", "roles"),
)
_QUICK: Final = "quick"
_STAND_INS = {"matrix": "unnamed"}


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One value that a file gives to one factor, and where; statements are compared by identity."""

    name: str
    raw: Any
    where: str
    key_where: str
    origin: Origin
    file: Path

    def problem(self, error: BadValueError) -> Problem:
        """Return an error of the value with its position."""
        return Problem(self.where, self.name, error.message, error.hint)


Point: TypeAlias = Mapping[str, Statement]


@dataclass(frozen=True)
class AxisSource:
    """An axis as written in the file: each point sets one factor or, if linked, several."""

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
        """The factors that every point sets; others keep their fixed value at some points."""
        return frozenset.intersection(*(frozenset(point) for point in self.points))


@dataclass(frozen=True)
class ListEntry:
    """One entry of `exclude` or `include`; `inherited` if the matrix has it from one that it extends."""

    where: str
    statements: Point
    inherited: bool = False


@dataclass(frozen=True)
class Variant:
    """The quick variant of a matrix.

    Attributes:
        source: the whole with the changes of the key `quick`.
        where: position of the key.
        places: positions of everything below it.
    """

    source: MatrixSource
    where: str
    places: frozenset[str]


@dataclass
class MatrixSource:
    """The content of a file and those it extends.

    Attributes:
        settings: those stated of `matrix`, `description`, `origin`, `licence`, `trials`, `rule`, `roles`,
            `baselines`, `seed`, `catalog`, `spread`.
        groups: flow groups in order, with the position of each.
        incomplete: True if parts were cut out because of problems; then nothing is reported as missing.
        extended: True if it is not what one file states: it extends another, or is a variant.
        quick: what the file's key `quick` describes; a file that extends this one does not inherit it.
    """

    path: str
    settings: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, Statement] = field(default_factory=dict)
    axes: dict[str, AxisSource] = field(default_factory=dict)
    exclude: tuple[ListEntry, ...] | None = None
    include: tuple[ListEntry, ...] | None = None
    problems: list[Problem] = field(default_factory=list)
    incomplete: bool = False
    extended: bool = False
    quick: Variant | None = None

    def factor_places(self) -> dict[str, str]:
        """Return the positions of flow groups and of the factors that are stated, by name.

        A factor that is stated several times has the position of its value outside of axes and `include`,
        else of its first axis.
        """
        crossed = (
            statement for axis in self.axes.values() for point in axis.points for statement in point.values()
        )
        included = (statement for rule in self.include or () for statement in rule.statements.values())
        found = {name: statement.where for name, statement in self.fixed.items()}
        for statement in (*crossed, *included):
            found.setdefault(statement.name, statement.key_where)
        return self.groups | found

    @property
    def wants_path(self) -> bool:
        """True if the round-trip time of its cells is that of a path, which somebody has to measure."""
        stated = self.fixed.get(RTT)
        return stated is not None and stated.raw == MEASURED


_DELAY: Final = "path.delay"

MAX_FILES: Final = 100
"""Number of files that a matrix may consist of."""

MAX_CHAIN: Final = 20
"""Number of files that extend each other in a row."""


def read_source(
    path: Path, *, quick: bool = False, changes: Sequence[str] = ()
) -> tuple[MatrixSource, bytes]:
    """Read a matrix file with everything it extends, each file once; return the source and the file's bytes.

    With `quick`, what the file's key `quick` states is merged over it, as if another file extended this one;
    and so is what `changes` state, each `KEY=VALUE`.

    Raises:
        InputError: the file itself, or a change, cannot be read. Problems of the content are in
            `MatrixSource.problems`.
    """
    given = Given.of(changes) if changes else None
    data = read_bytes(path)
    source = _Reader().source(parse(data, str(path)), path, (path.resolve(),))
    if quick and source.quick is not None:
        source = source.quick.source
    elif quick and not source.incomplete:
        hint = "write what it changes, such as quick: {duration: 10s, trials: 1}"
        source.problems.append(Problem(f"{path}:1:1", _QUICK, "is missing, and --quick needs it", hint))
        source.incomplete = True
    return (_changed(source, given) if given else source), data


def source_of(document: Document, *, quick: bool = False) -> MatrixSource:
    """Return the source of a document that has the content of a matrix file, or of its quick variant.

    Raises:
        InputError: there are too many problems to go on; others are in `MatrixSource.problems`.
    """
    path = Path(document.name)
    source = _Reader().source(document, path, (path.resolve(),))
    return source.quick.source if quick and source.quick is not None else source


def with_path(source: MatrixSource, rtt: Duration | None) -> MatrixSource:
    """Return a source in which `rtt: measured`, if it states that, is this round-trip time of the path's own.

    None: nobody has measured it, which is one of its problems then.
    """
    if not source.wants_path:
        return source
    stated, quick = source.fixed[RTT], source.quick
    if rtt is None:
        message = "the path's own round-trip time is not measured yet"
        hint = "`l4sbench run` does that first, with --on ssh:INVENTORY or fabric; or write a duration"
        problem = Problem(stated.where, RTT, message, hint)
        rest = {name: statement for name, statement in source.fixed.items() if name != RTT}
        return replace(source, fixed=rest, problems=[*source.problems, problem], incomplete=True)
    own = {RTT: replace(stated, raw=str(rtt)), _DELAY: replace(stated, name=_DELAY, raw="own")}
    problems = list(source.problems)
    if (other := source.fixed.get(_DELAY)) is not None and other.raw != "own":
        problems.append(Problem(other.where, _DELAY, f"rtt: {MEASURED} adds no delay", "leave it out"))
    return replace(
        source,
        fixed=source.fixed | own,
        problems=problems,
        extended=True,
        quick=quick and replace(quick, source=with_path(quick.source, rtt)),
    )


class _Reader:
    """Reads the files of one matrix. Many may extend the same file, so what was read is kept."""

    def __init__(self) -> None:
        self._known: dict[Path, MatrixSource] = {}

    def source(self, document: Document, path: Path, chain: tuple[Path, ...]) -> MatrixSource:
        """Return the source of a document and of what it extends; `chain` are the files that led to it."""
        from l4sbench.matrix.grammar import NOT_A_MAP, MatrixFile

        salvaged = salvage(document, MatrixFile, name_of=factor_path, stand_ins=_STAND_INS)
        incomplete = not salvaged.complete
        own = _Collector(document, salvaged.model, incomplete).collect()
        found = [_meant(one) if one.message == NOT_A_MAP else one for one in salvaged.problems]
        own.problems[:0] = [*document.problems, *found]
        own.incomplete |= bool(document.problems)
        bases = [
            self._base(path.parent, name, document.where(("extends", index)), chain)
            for index, name in enumerate(salvaged.model.extends or ())
            if name is not CUT
        ]
        if bases:
            names = [base.settings["matrix"] for base in bases if "matrix" in base.settings]
            own = _derived(reduce(merge, bases), own, f"extends {', '.join(names)}")
        if salvaged.model.quick is not None:
            own.quick = _variant(own, document, salvaged.model.quick, incomplete)
        return own

    def _base(self, folder: Path, name: str, where: str, chain: tuple[Path, ...]) -> MatrixSource:
        """Return the source of a matrix that another extends; `where` is the position of the reference.

        A name is that of a matrix that ships with l4sbench, even if a file beside this one has it: what a
        study's matrix means must not depend on the folder.
        """
        path = folder / name
        if not _is_path(name):
            shipped = assets.matrices()
            if name not in shipped:
                beside = (
                    f"write {quoted(found)}"
                    for found in (f"./{name}", f"{name}.yaml")
                    if is_file(folder / found)
                )
                hint = (
                    next(beside, None) or did_you_mean(name, shipped) or "a file is written as a path: ./FILE"
                )
                return _without(path, where, f"no matrix {quoted(name)} ships with l4sbench", hint)
            path = shipped[name]
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError, ValueError):
            resolved = path  # a circle of links, for instance: reading it reports the reason
        if resolved in chain:
            return _without(path, where, f"{quoted(name)} extends itself")
        if (known := self._known.get(resolved)) is not None:
            return known
        if len(chain) >= MAX_CHAIN:
            return _without(path, where, f"more than {MAX_CHAIN} files extend each other")
        if len(self._known) >= MAX_FILES:
            return _without(path, where, f"the matrix consists of more than {MAX_FILES} files")
        try:
            data = read_bytes(path)
        except InputError as error:
            return _without(path, where, f"{quoted(name)} {error.problems[0].message}")
        try:
            source = self.source(parse(data, str(path)), path, (*chain, resolved))
        except InputError as error:
            source = MatrixSource(str(path), problems=list(error.problems), incomplete=True)
        self._known[resolved] = source
        return source


def _variant(own: MatrixSource, document: Document, quick: Quick, incomplete: bool) -> Variant:
    """Return a matrix's quick variant, which has a name of its own."""
    changed = _Collector(document, quick, incomplete, (_QUICK,)).collect()
    name = own.settings["matrix"]
    changed.settings["matrix"] = f"{name}-{_QUICK}"
    where = document.where((_QUICK,), key=True)
    derived = _derived(own, changed, f"the quick variant of {name}")
    return Variant(derived, where, document.places((_QUICK,)))


def _meant(problem: Problem) -> Problem:
    """Return a problem with the section that an unknown key with a map means, such as flows by flow."""
    hint = did_you_mean(problem.path, ("events", *sorted(_SECTIONS)))
    return replace(problem, hint=hint or problem.hint)


def _changed(own: MatrixSource, given: Given) -> MatrixSource:
    """Return the source of a matrix with what a command line changes, which has a name of its own."""
    from l4sbench.matrix.grammar import Changes

    document = given.document
    salvaged = salvage(document, Changes, name_of=factor_path)
    changes = _Collector(document, salvaged.model, not salvaged.complete).collect()
    changes.problems[:0] = [*document.problems, *salvaged.problems, *_without_effect(own, changes)]
    changes.incomplete |= bool(changes.problems)
    name = own.settings.get("matrix", "unnamed")
    changes.settings["matrix"] = f"{name}-{given.suffix}"
    changed = replace(_derived(own, changes, f"{name} with {given.words}"), path=own.path)
    if "spread" not in changes.settings and "spread" in own.settings:
        crossed = {factor for axis in changed.axes.values() for factor in axis.factors}
        # what is fixed now has one value, over which nothing spreads
        fixed = changes.fixed.keys() - crossed
        changed.settings["spread"] = [factor for factor in own.settings["spread"] if factor not in fixed]
        if not changed.settings["spread"]:
            del changed.settings["spread"]
    return changed


def _without_effect(own: MatrixSource, changes: MatrixSource) -> list[Problem]:
    """Take out the factors that cells would still have from elsewhere; return them as problems."""
    problems: list[Problem] = []
    for name, statement in [*_factors(changes)]:
        linked = next(
            (
                axis
                for axis in own.axes.values()
                if axis.linked
                and name in axis.factors
                and axis.name not in changes.axes
                and not all(factor in changes.fixed for factor in axis.factors)
            ),
            None,
        )
        included = [entry for entry in own.include or () if name in entry.statements]
        if linked is not None:
            others = ", ".join(factor for factor in linked.factors if factor != name)
            message = f"the axis {linked.name} sets it together with {others}"
            hint = (
                f"choose from its cells by a filter, or set {linked.name}=[{{{linked.factors[0]}: ...}}, ...]"
            )
        elif included and changes.include is None:
            message, hint = f"a cell of include has its own, at {included[0].where}", "set include=[], too"
        else:
            continue
        problems.append(Problem(statement.where, name, message, hint))
        changes.fixed.pop(name, None)
        changes.axes.pop(name, None)
    return problems


def _factors(source: MatrixSource) -> Iterator[tuple[str, Statement]]:
    """Yield the factors that a source fixes or crosses, each with one of its statements."""
    yield from source.fixed.items()
    for axis in source.axes.values():
        for point in axis.points:
            yield from point.items()


def _derived(base: MatrixSource, own: MatrixSource, origin: str) -> MatrixSource:
    """Return `base` updated by `own`: another experiment, which the description of `base` is not about."""
    merged = merge(base, own)
    merged.settings["origin"] = origin
    if "description" not in own.settings:
        merged.settings.pop("description", None)
    return replace(merged, extended=True)


def _is_path(name: str) -> bool:
    """Return True if `extends` refers to a file by its path, and not to a shipped matrix by its name."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def _without(path: Path, where: str, message: str, hint: str | None = None) -> MatrixSource:
    """Return the source of a file that is not read, with the reason at the position of the reference."""
    return MatrixSource(str(path), problems=[Problem(where, "extends", message, hint)], incomplete=True)


def factor_path(path: KeyPath) -> str:
    """Return the factor that a key path belongs to, or the dotted keys.

    `flows.l4s.cc` and `l4s.cc` are both `l4s.cc`, and `axes.pairing[0].classic.cc` is `classic.cc`.
    """
    keys = [part for part in path if isinstance(part, str) and part != "[key]"]
    if keys[:1] == [_QUICK] and len(keys) > 1:
        keys = keys[1:]
    if keys and keys[0] in _SECTIONS and len(keys) > 1:
        keys = keys[1:] if keys[0] == "flows" else keys[-1:]
    return quoted_name(".".join(keys), FACTOR_NAMES)


class _Collector:
    """Collects the statements of one checked file, or of its part below the keys `within`."""

    def __init__(self, document: Document, model: Stated, incomplete: bool, within: KeyPath = ()) -> None:
        self.document = document
        self.model = model
        self._within = within
        self.source = MatrixSource(document.name, incomplete=incomplete)
        self._file = Path(document.name)

    def _where(self, path: KeyPath, *, key: bool = False) -> str:
        return self.document.where((*self._within, *path), key=key)

    def collect(self) -> MatrixSource:
        """Return the source with the file's own statements."""
        model, source = self.model, self.source
        for name in _SETTINGS:
            if (value := getattr(model, name, None)) is not None:
                self._setting(name, value)
        if model.trials is not None:
            stated = model.trials.model_dump(exclude_none=True)
            self._setting("trials", stated | {"whole": True} if self._whole_trials() else stated)
        for role in source.settings.get("roles", ()):
            source.places[f"roles.{role}"] = self._where(("roles", role))
        for group, flows in (model.flows or {}).items():
            source.groups[group] = self._where(("flows", group), key=True)
            self._fix(flows.__pydantic_extra__ or {}, ("flows", group), f"{group}.")
        for event, changes in (model.events or {}).items():
            self._fix(changes.__pydantic_extra__ or {}, ("events", event), f"events.{event}.")
        self._fix(model.__pydantic_extra__ or {}, (), "")
        for name, points in ((model.axes.__pydantic_extra__ or {}) if model.axes else {}).items():
            self._axis(name, points)
        source.exclude = self._rules("exclude", model.exclude)
        source.include = self._rules("include", model.include)
        self._empty_events()
        return source

    def _empty_events(self) -> None:
        """Report events that are named and change nothing; axes and `include` may have what they change."""
        source = self.source
        others = [name for axis in source.axes.values() for name in axis.factors]
        others += [name for rule in source.include or () for name in rule.statements]
        for event, changes in (self.model.events or {}).items():
            path = f"{EVENTS}.{event}"
            if not changes.__pydantic_extra__ and not any(name.startswith(f"{path}.") for name in others):
                where = self._where((EVENTS, event), key=True)
                hint = "write when and what, such as {at: 20s, rate: 25mbit}"
                self._problem(where, path, "changes nothing", hint)

    def _whole_trials(self) -> bool:
        """Return True if the file states a number of trials instead of a range."""
        content: Any = self.document.content
        for part in self._within:
            content = content[part] if isinstance(content, dict) else None
        return isinstance(content, dict) and not isinstance(content.get("trials"), dict)

    def _setting(self, name: str, value: Any) -> None:
        if name == "catalog":
            folder = Path(self.document.name).parent
            value = [folder / item for item in value if item is not CUT]
        elif name == "roles":
            value = value.model_dump(exclude_none=True)
        self.source.settings[name] = value
        self.source.places[name] = self._where((name,))

    def _statement(self, name: str, raw: object, path: KeyPath, origin: Origin) -> Statement:
        where = self._where(path)
        return Statement(name, raw, where, self._where(path, key=True), origin, self._file)

    def _fix(self, stated: Mapping[str, object], path: KeyPath, prefix: str) -> None:
        for key, raw in stated.items():
            name = prefix + key
            if (other := self.source.fixed.get(name)) is not None:
                where = self._where((*path, key), key=True)
                self._problem(where, name, f"is stated twice; also at {other.key_where}")
                continue
            self.source.fixed[name] = self._statement(name, raw, (*path, key), "fixed")

    def _axis(self, name: str, raw_points: Iterable[Any]) -> None:
        where = self._where(("axes", name), key=True)
        points: list[Point] = []
        linked: bool | None = None
        for index, raw in enumerate(raw_points):
            path = ("axes", name, index)
            if raw is CUT:
                continue
            stated = getattr(raw, "__pydantic_extra__", None)
            is_linked = stated is not None
            if linked is not None and linked != is_linked:
                message = "mixes values and maps; every point of a linked axis is a map of factors"
                self._problem(self._where(path), name, message)
                continue
            linked = is_linked
            if is_linked and not stated:
                self._problem(
                    self._where(path), name, "a point of a linked axis must set at least one factor"
                )
                continue
            if stated is None:
                place = self._where(path)
                points.append({name: Statement(name, raw, place, where, "axis", self._file)})
            else:
                points.append({n: self._statement(n, v, (*path, n), "axis") for n, v in stated.items()})
        if points:
            self.source.axes[name] = AxisSource(name, where, bool(linked), tuple(points))

    def _rules(
        self, key: Literal["exclude", "include"], entries: Iterable[Any] | None
    ) -> tuple[ListEntry, ...] | None:
        if entries is None:
            return None
        rules: list[ListEntry] = []
        for index, entry in enumerate(entries):
            if entry is CUT:
                continue
            where = self._where((key, index))
            stated = entry.__pydantic_extra__ or {}
            if not stated and key == "exclude":
                self._problem(where, key, "an empty map would exclude every cell")
                continue
            rules.append(
                ListEntry(
                    where, {n: self._statement(n, raw, (key, index, n), key) for n, raw in stated.items()}
                )
            )
        return tuple(rules)

    def _problem(self, where: str, path: str, message: str, hint: str | None = None) -> None:
        self.source.problems.append(Problem(where, quoted_name(path, FACTOR_NAMES), message, hint))
        self.source.incomplete = True


def merge(base: MatrixSource, own: MatrixSource) -> MatrixSource:
    """Return `base` updated by `own`: maps merge, lists replace, the name of the matrix is not inherited."""
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
        settings["trials"].pop("whole", None)  # a range that extends a number is a range
    if "roles" in base.settings and "roles" in own.settings:
        settings["roles"] = base.settings["roles"] | own.settings["roles"]
    inherited = base.exclude and tuple(replace(rule, inherited=True) for rule in base.exclude)
    return MatrixSource(
        path=own.path,
        settings=settings,
        places=base.places | own.places,
        groups=base.groups | own.groups,
        fixed=fixed,
        axes=axes,
        exclude=inherited if own.exclude is None else own.exclude,
        include=base.include if own.include is None else own.include,
        # a file that is extended twice has its problems once
        problems=list(dict.fromkeys([*base.problems, *own.problems])),
        incomplete=base.incomplete or own.incomplete,
    )
