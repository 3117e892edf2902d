# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The matrix as the rest of l4sbench uses it: cells, trials, rule, seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from l4sbench.catalog import Catalog
from l4sbench.disk.document import reported
from l4sbench.disk.userfiles import is_folder, short
from l4sbench.errors import BadValueError, InputError, Problem, suggest
from l4sbench.facts.factors import FACTOR_NAMES
from l4sbench.matrix.baselines import baselines
from l4sbench.matrix.expand import Expansion, expand
from l4sbench.matrix.naming import Names
from l4sbench.matrix.own import own_executables, own_senders, own_topologies
from l4sbench.matrix.patterns import select
from l4sbench.matrix.reading import MatrixSource, Variant, read_source, source_of, with_path
from l4sbench.matrix.writing import as_yaml
from l4sbench.text.wording import quoted, quoted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from l4sbench.disk.document import Document
    from l4sbench.facts.cell import Cell
    from l4sbench.text.units import Duration

DEFAULT_TRIALS = 3
LEAST_TRIALS = 3
"""Trials per cell from which confidence intervals are of use: one trial has none, and by Student's t that of
two is 3.6 times as wide as that of three with the same spread."""
MOST_TRIALS = 10
"""Trials per cell up to which some are added to make verdicts sure, unless more are asked for."""
DEFAULT_RULE = "l4sbench1"
DEFAULT_SEED = 1
DEFAULT_BASELINES = "none"


@dataclass(frozen=True)
class Trials:
    """Number of trials per cell: `min`, then more until the condition `until` holds, at most `max`.

    Without `until`, every cell gets `max`.
    """

    min: int
    max: int
    until: str | None = None


@dataclass(frozen=True)
class Axis:
    """An axis: values that are crossed with those of other axes.

    Attributes:
        name: the factor, or the name of a linked axis.
        names: the factors it sets.
        points: number of values.
    """

    name: str
    names: tuple[str, ...]
    points: int


@dataclass(frozen=True)
class Matrix:
    """An experiment: cells, trials and the rule for verdicts.

    Attributes:
        name: also the name of its folder below `runs/`.
        description: the question it asks; what it was made from where it states none.
        origin: what it was made from, such as `extends pam25-cubic`; empty where its file states everything.
        licence: of the data that its runs make, by its SPDX id; empty where it states none.
        trials: per cell.
        rule: name of the verdict rule; `none` for a matrix without verdicts.
        seed: source of the seeds of its trials.
        axes: in the order of the file.
        cells: each once, in order: the first axis changes slowest, then come included cells, then baselines.
        notes: remarks for the user, such as merged cells.
        catalog: its queues, congestion controls and topologies.
        source: an equivalent matrix file that does not extend others, for the run directory.
        path: the file.
        baselines: `none`, `solo` or `solo-and-same`.
        baseline_ids: ids of the cells that are only baselines of others.
        roles: flow group by the role that it has for the rule, `l4s` or `classic`; roles that are not stated
            belong to the groups of these names.
        places: positions of the settings that the file states, such as `rule`.
        factor_places: positions of the flow groups and factors that the file states.
        spread: factors over whose combinations a run spreads, cell after cell; empty: trial after trial.
    """

    name: str
    description: str
    trials: Trials
    rule: str
    seed: int
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    catalog: Catalog
    source: bytes
    path: Path
    baselines: str = DEFAULT_BASELINES
    baseline_ids: frozenset[str] = frozenset()
    roles: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    places: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    factor_places: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    spread: tuple[str, ...] = ()
    origin: str = ""
    licence: str = ""

    @classmethod
    def load(
        cls,
        path: Path,
        catalog: Catalog | None = None,
        *,
        catalog_dirs: Sequence[Path] = (),
        change_trials: Callable[[Trials], Trials] | None = None,
        quick: bool = False,
        stored: bool = False,
        changes: Sequence[str] = (),
        path_rtt: Duration | None = None,
    ) -> Self:
        """Read a matrix file and expand it.

        Args:
            path: the file.
            catalog: replaces the catalog of l4sbench and that of the matrix's key `catalog`; a topology that
                it has by name replaces the file that the matrix names.
            catalog_dirs: folders with more entries, as with `--catalog`; ignored if `catalog` is given.
            change_trials: returns the number of trials from the one that the file states; the matrix's source
                states it, too.
            quick: read the variant that the file's key `quick` describes. Otherwise the variant is checked.
            stored: it is a run's copy, whose catalog may lack what only the variant uses: leave it unchecked.
            changes: `KEY=VALUE` as a matrix states it, which take the place of what the file states.
            path_rtt: round-trip time of the path that `rtt: measured` means; the matrix's source states it.

        Raises:
            InputError: all problems of the file and of the files and folders it names.
        """
        source, data = read_source(path, quick=quick, changes=changes)
        source = with_path(source, path_rtt)
        problems = list(source.problems)
        if catalog is None:
            folders = [*source.settings.get("catalog", ()), *catalog_dirs]
            catalog = _catalog(folders, source, problems)
        trials, shared = _trials(source, problems), catalog
        try:
            catalog, expansion = _expanded(source, shared, problems)
        except InputError as error:
            raise InputError(reported([*problems, *error.problems])) from None
        if source.quick is not None and not stored:
            problems += _wrong_variant(source.quick, shared, problems)
        if problems:
            raise InputError(reported(problems))
        settings = source.settings
        if change_trials is not None:
            trials = change_trials(trials)
            settings["trials"] = {name: value for name, value in asdict(trials).items() if value is not None}
        wanted = settings.get("baselines", DEFAULT_BASELINES)
        try:
            added = baselines(expansion.cells, wanted, catalog)
        except BadValueError as error:
            where = source.places.get("baselines", f"{path}:1:1")
            raise InputError([Problem(where, "baselines", error.message, error.hint)]) from None
        return cls(
            name=settings["matrix"],
            description=settings.get("description", settings.get("origin", "")).strip(),
            trials=trials,
            rule=settings.get("rule", DEFAULT_RULE),
            seed=settings.get("seed", DEFAULT_SEED),
            axes=tuple(Axis(axis.name, axis.factors, len(axis.points)) for axis in source.axes.values()),
            cells=(*expansion.cells, *added),
            notes=tuple(expansion.notes),
            catalog=catalog,
            source=as_yaml(source) if source.extended or change_trials is not None else data,
            path=path,
            baselines=wanted,
            baseline_ids=frozenset(cell.id for cell in added),
            roles=MappingProxyType(settings.get("roles", {})),
            places=MappingProxyType(source.places),
            factor_places=MappingProxyType(source.factor_places()),
            spread=tuple(settings.get("spread", ())),
            origin=settings.get("origin", ""),
            licence=settings.get("licence", ""),
        )

    @staticmethod
    def wants_path(path: Path, *, quick: bool = False, changes: Sequence[str] = ()) -> bool:
        """Return True if a matrix file states `rtt: measured`.

        Raises:
            InputError: the file itself, or a change, cannot be read.
        """
        return read_source(path, quick=quick, changes=changes)[0].wants_path

    @staticmethod
    def cells_of(document: Document, catalog: Catalog, *, quick: bool = False) -> tuple[Cell, ...]:
        """Return the cells of a document that has the content of a matrix file, or of its quick variant.

        Raises:
            InputError: all problems of the content.
        """
        source = with_path(source_of(document, quick=quick), None)
        problems = list(source.problems)
        _, expansion = _expanded(source, catalog, problems)
        if problems:
            raise InputError(reported(problems))
        return expansion.cells

    def where(self, factor: str) -> str:
        """Return the position at which the file states a factor or flow group, else what it belongs to."""
        part = factor
        while part and part not in self.factor_places:
            part = part.rpartition(".")[0]
        return self.factor_places.get(part, f"{self.path}:1:1")

    @property
    def asked(self) -> tuple[Cell, ...]:
        """All cells except baselines."""
        return tuple(cell for cell in self.cells if cell.id not in self.baseline_ids)

    def select(self, filters: Sequence[str]) -> Self:
        """Return this matrix with only those cells that match all filters `FACTOR=PATTERN`, and baselines.

        Commas separate alternatives, quantities are compared by value (`rate=0.1gbit` matches 100mbit), names
        may contain `*`, `?` and `[...]`; `cell=` matches ids.

        Raises:
            InputError: a filter is not valid, or no cell is left.
        """
        if not filters:
            return self
        chosen = {cell.id for cell in select(self.cells, filters)}
        about = (cell for cell in self.asked if cell.id in chosen)
        chosen |= {cell.id for cell in baselines(about, self.baselines, self.catalog)}
        cells = tuple(cell for cell in self.cells if cell.id in chosen)
        return replace(self, cells=cells, baseline_ids=self.baseline_ids & chosen)


def _expanded(
    source: MatrixSource, catalog: Catalog, problems: list[Problem], *, sample: bool = False
) -> tuple[Catalog, Expansion]:
    """Return the catalog with what the source names by paths, and its cells; add what is wrong with them."""
    catalog = own_senders(source, own_executables(source, own_topologies(source, catalog)))
    expansion = expand(source, Names(source.groups, catalog), sample=sample)
    known = FACTOR_NAMES | {param for entry in catalog.entries for param in entry.params}
    problems += (replace(one, path=quoted_name(one.path, known)) for one in expansion.problems)
    problems += _wrong_roles(source)
    problems += _wrong_spread(source)
    return catalog, expansion


def _wrong_variant(variant: Variant, catalog: Catalog, known: Collection[Problem]) -> list[Problem]:
    """Return what is wrong with the quick variant and not with the whole, whose problems are known.

    What the changes make wrong elsewhere is told at their key, if nothing is wrong there by itself.
    """
    places = variant.places
    elsewhere_too = any(one.where not in places for one in known)
    problems = list(variant.source.problems)
    _trials(variant.source, problems)
    try:
        _expanded(variant.source, catalog, problems, sample=True)
    except InputError as error:
        problems += error.problems
    found: list[Problem] = []
    for one in problems:
        if one.where in places:
            found.append(one)
        elif not elsewhere_too:
            what = ": ".join(text for text in (one.path, one.message) if text)
            found.append(Problem(variant.where, "quick", f"with it, {what} ({one.where})", one.hint))
    return [one for one in found if one not in known]


def _trials(source: MatrixSource, problems: list[Problem]) -> Trials:
    stated = source.settings.get("trials", {"min": DEFAULT_TRIALS, "max": DEFAULT_TRIALS, "whole": True})
    where = source.places.get("trials", source.path)
    least, most = stated.get("min"), stated.get("max")
    if least is None or most is None:
        if not source.incomplete:
            key = "min" if least is None else "max"
            problems.append(
                Problem(where, f"trials.{key}", "is missing", "write {min: 3, max: 10, until: decided}")
            )
        return Trials(1, 1)
    if least > most:
        problems.append(Problem(where, "trials", f"min ({least}) is greater than max ({most})"))
    if "whole" in stated or least == most:
        return Trials(least, most)
    return Trials(least, most, stated.get("until", "decided"))


def _wrong_roles(source: MatrixSource) -> Iterator[Problem]:
    """Yield the roles that no flow group of the matrix has, and a group that has two."""
    roles = source.settings.get("roles", {})
    for role, group in roles.items():
        where = source.places.get(f"roles.{role}", "")
        if group not in source.groups and not source.incomplete:
            yield Problem(
                where,
                f"roles.{role}",
                f"there is no flow group {quoted(group)}",
                suggest(group, source.groups),
            )
    if len(roles) > len(set(roles.values())):
        where = source.places.get("roles.classic", "")
        yield Problem(
            where, "roles", f"{quoted(roles['classic'])} cannot compete with itself", "name two groups"
        )


def _wrong_spread(source: MatrixSource) -> Iterator[Problem]:
    """Yield the names in `spread` that no axis of the matrix sets."""
    offered = list(dict.fromkeys(name for axis in source.axes.values() for name in axis.factors))
    for name in source.settings.get("spread", ()):
        if name not in offered and not source.incomplete:
            where = source.places.get("spread", "")
            yield Problem(where, "spread", f"no axis sets {quoted(name)}", suggest(name, offered))


def _catalog(folders: Iterable[Path], source: MatrixSource, problems: list[Problem]) -> Catalog:
    """Load the catalog with the given folders, without those that do not exist."""
    usable: list[Path] = []
    for folder in folders:
        if is_folder(folder):
            usable.append(folder)
        elif folder in source.settings.get("catalog", ()):
            message = f"folder {quoted(folder.name)} not found"
            problems.append(Problem(source.places.get("catalog", ""), "catalog", message))
        else:
            problems.append(Problem("", "catalog", f"folder {short(str(folder))} not found"))
    try:
        return Catalog.load(usable)
    except InputError as error:
        raise InputError([*problems, *error.problems]) from None
