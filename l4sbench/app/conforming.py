# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Sheets of requirements with candidates put in: the cells of all rows as one matrix, and what its run says.

The matrix has every cell once, so that rows share trials, and runs as any other.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.app.reading import reading
from l4sbench.disk.userfiles import short
from l4sbench.errors import BadValueError, InputError, suggest
from l4sbench.facts.factors import GROUP_FACTORS, column_of, name_of, refers
from l4sbench.text.parameters import plain
from l4sbench.text.wording import quoted
from l4sbench.traffic import SENDS

if TYPE_CHECKING:
    from l4sbench.app.prepare import Prepared
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.text.parameters import Parameter
    from reports.published.claims.model import Scalar
    from reports.published.standards import (
        Case,
        Conformance,
        Place,
        Requirement,
        RequirementSheet,
        RowOutcome,
    )
    from reports.published.standards.model import Kind, NegativeControl

_FILES: Final = (".yml", ".yaml")
_NOT_IN_NAME: Final = re.compile("[^A-Za-z0-9._]+")
_LONGEST_NAME: Final = 80
_EXEC: Final = "exec"


@dataclass(frozen=True)
class Candidate:
    """A sender or a queue that a sheet is asked about.

    Attributes:
        kind: `sender` or `queue`.
        text: As the command line has it; of a file the name that it states.
        factors: What a cell states of it: factors of a flow group, or `aqm` and its parameters.
        path: Factors of a cell that it needs, such as captures.
        l4s: True if it sends ECT(1), or treats it differently.
    """

    kind: Kind
    text: str
    factors: Mapping[str, Scalar]
    path: Mapping[str, Scalar]
    l4s: bool

    def put_into(self, stated: Mapping[str, Any], row: Requirement) -> dict[str, Any]:
        """Return the content of a row's matrix with the candidate put in."""
        from reports.published.standards.model import Kind

        content: dict[str, Any] = {**copy.deepcopy(dict(stated)), **self.path}
        if self.kind is Kind.QUEUE:
            return {**content, **self.factors}
        flows = dict(content.get("flows") or {})
        content["flows"] = flows
        for group in row.groups:
            flows[group] = {**(flows.get(group) or {}), **self.factors}
        return content


def candidate_of(text: str, kind: Kind, catalog: Catalog) -> Candidate:
    """Return a candidate from `NAME`, `NAME:PARAMETER=VALUE:...`, or, a sender, the path of its file.

    Raises:
        InputError: the catalog does not have it, or it has no such parameter or no such value of it.
    """
    from reports.published.standards.model import Kind

    if kind is Kind.SENDER and text.endswith(_FILES):
        return _from_file(Path(text), catalog)
    name, *stated = text.split(":")
    if kind is Kind.QUEUE:
        queue = catalog.queue(catalog.queue_name(name))
        own = _stated(text, stated, queue.params)
        return Candidate(
            kind, text, {"aqm": queue.name} | {f"aqm.{k}": v for k, v in own.items()}, {}, queue.l4s
        )
    control = catalog.congestion_control(name)
    own = _stated(text, stated, {**GROUP_FACTORS, **control.params})
    if (ecn := own.get("ecn", control.ecn_default)) not in control.ecn_allowed:
        raise InputError(
            f"{short(text)}: {control.name} does not support ECN mode {ecn}",
            f"choose from {', '.join(control.ecn_allowed)}",
        )
    return Candidate(kind, text, {"cc": control.name} | own, {}, control.l4s)


def _stated(text: str, parts: Iterable[str], known: Mapping[str, Parameter]) -> dict[str, Scalar]:
    """Return the values of parameters that a candidate states, each valid whatever row it is put into."""
    from l4sbench.disk.document import parse

    found: dict[str, Scalar] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not value:
            raise InputError(
                f"{short(text)}: {short(part)!r} is not a valid PARAMETER=VALUE", "such as prague:fallback=on"
            )
        if key not in known:
            raise InputError(f"{short(text)}: there is no parameter {short(key)}", suggest(key, known))
        content = parse(value.encode(errors="surrogateescape"), short(text)).content
        if content is None or isinstance(content, list | dict):
            raise InputError(f"{short(text)}: {short(value)!r} is not a valid value of {key}")
        _check(short(text), known[key], content)
        found[key] = content
    return found


def _check(where: str, parameter: Parameter, value: Scalar) -> None:
    """Check a value of a candidate's own: a wrong one is a mistake, not something that a row cannot have."""
    try:
        parameter.parse(value)
    except BadValueError as error:
        raise InputError(f"{where}: {parameter.name}: {error.message}", error.hint) from None


def _from_file(path: Path, catalog: Catalog) -> Candidate:
    """Return a sender that a file describes, whose programs have paths relative to the file."""
    from reports.published.standards.candidates import load_candidate
    from reports.published.standards.model import Kind

    found = load_candidate(path)
    factors: dict[str, Scalar] = {}
    for name, value in found.flow.items():
        if name in GROUP_FACTORS:
            _check(short(str(path)), GROUP_FACTORS[name], value)
        moved = refers(f"group.{name}", "program") and isinstance(value, str)
        factors[name] = (
            f"{path.parent.resolve()}/{value}" if moved and not str(value).startswith("/") else value
        )
    send, control = factors.get("send"), catalog.congestion_controls.get(str(factors.get("cc")))
    by_kernel = send is None or (str(send) in SENDS and send != _EXEC)
    l4s = factors.get("codepoint") == "ect1" or (by_kernel and control is not None and control.l4s)
    own: dict[str, Scalar] = {} if by_kernel else {"capture": "headers"}
    return Candidate(Kind.SENDER, found.candidate, factors, own, l4s)


@dataclass(frozen=True)
class Conforming:
    """A sheet with candidates, ready to run.

    Attributes:
        sheet: The sheet.
        cases: Every row that is asked for with every candidate.
        prepared: The run of its cells; None where no row has any.
        left_out: Ids of rows that only the whole sheet measures.
    """

    sheet: RequirementSheet
    cases: tuple[Case, ...]
    prepared: Prepared | None
    left_out: tuple[str, ...]

    def judged(self, run: Path | None) -> Conformance:
        """Return the verdicts by the tables of a run of its cells."""
        from reports.published.standards import judge
        from reports.result.load import load

        if run is None:
            return judge(None, self.sheet, self.cases, self.left_out)
        with reading(run):
            return judge(load(run), self.sheet, self.cases, self.left_out)


def conforming(
    sheet: RequirementSheet,
    senders: Sequence[str],
    queues: Sequence[str],
    options: RunOptions,
    *,
    rows: Sequence[str] = (),
    controls: bool = False,
) -> Conforming:
    """Put candidates into a sheet, and prepare the run of its cells.

    Args:
        sheet: The sheet.
        senders: Congestion controls, or files of senders.
        queues: Queues.
        options: Choices for the run; `quick` leaves out rows and cells.
        rows: Ids of the rows that are asked for; all by default. The run has the cells of the others, too.
        controls: Take each row's negative controls instead of candidates.

    Raises:
        InputError: a candidate or row is not known, or nothing is asked for.
    """
    from l4sbench.catalog import Catalog
    from reports.published.standards.model import Kind

    catalog = Catalog.load([Path(folder) for folder in options.catalog])
    for name in rows:
        sheet.row(name)
    own = [candidate_of(text, Kind.SENDER, catalog) for text in senders]
    own += [candidate_of(text, Kind.QUEUE, catalog) for text in queues]
    maker = _Maker(sheet, catalog, quick=options.quick)
    kept = [row for row in sheet.rows if not maker.leaves_out(row)]
    if controls:
        pairs: list[tuple[Requirement, Candidate, NegativeControl | None]] = [
            (row, candidate_of(control.candidate, row.applies, catalog), control)
            for row in kept
            for control in row.controls
        ]
        if not pairs:
            raise InputError(f"{sheet.sheet} has no negative controls", "name a candidate by --cc or --aqm")
    else:
        if not own:
            raise InputError("there is no candidate", "name senders by --cc, queues by --aqm")
        pairs = [(row, candidate, None) for candidate in own for row in kept]
    cases = [maker.case(row, candidate, control) for row, candidate, control in pairs]
    asked = [case for case in cases if not rows or case.row.id in rows]
    words = ["controls"] if controls else [one.text for one in own]
    prepared = _prepared(sheet, maker, words, options, None if len(asked) == len(cases) else asked)
    left_out = tuple(row.id for row in sheet.rows if row not in kept and (not rows or row.id in rows))
    return Conforming(sheet, tuple(asked), prepared, left_out)


class _Maker:
    """Makes the cases of a sheet, and keeps what their cells state."""

    def __init__(self, sheet: RequirementSheet, catalog: Catalog, *, quick: bool) -> None:
        self._sheet = sheet
        self._catalog = catalog
        self._quick = quick
        self.groups: list[tuple[str, ...]] = []
        self.cells: dict[str, Mapping[str, Scalar]] = {}
        self._expanded: dict[tuple[str, Kind, str], tuple[Cell, ...]] = {}

    def leaves_out(self, row: Requirement) -> bool:
        """Return True if only the whole sheet measures a row."""
        return self._quick and row.matrix is not None and "quick" not in self._sheet.content(row)[0]

    def case(self, row: Requirement, candidate: Candidate, control: NegativeControl | None) -> Case:
        """Return a row with a candidate."""
        from reports.published.standards import Case, RowOutcome
        from reports.published.standards.model import Kind

        def hindered(outcome: RowOutcome, reason: str) -> Case:
            return Case(row, candidate.text, hindrance=(outcome, reason), control=control)

        if row.applies not in (candidate.kind, Kind.PAIR):
            return hindered(RowOutcome.NOT_APPLICABLE, f"the row is about a {row.applies.value}")
        if row.l4s_only and not candidate.l4s:
            does = "does not send ECT(1)" if candidate.kind is Kind.SENDER else "does not know ECT(1)"
            return hindered(RowOutcome.NOT_APPLICABLE, f"{candidate.text} {does}")
        if row.not_possible:
            return hindered(RowOutcome.NOT_POSSIBLE, row.not_possible)
        if row.settings:
            return hindered(*self._adjustable(row, candidate))
        if row.statistics:
            return hindered(*self._readable(row, candidate))
        try:
            cells = self._cells(row, candidate)
            varying = _varying(cells)
            others = {
                text: _places(self._cells(row, candidate_of(text, candidate.kind, self._catalog)), varying)
                for text in row.others
            }
        except InputError as error:
            # without its position: the row is known, and paths of this machine do not belong into results
            return hindered(RowOutcome.NOT_POSSIBLE, str(replace(error.problems[0], where="")))
        return Case(row, candidate.text, _places(cells, varying), others, control=control)

    def _adjustable(self, row: Requirement, candidate: Candidate) -> tuple[RowOutcome, str]:
        """Return the verdict of a row about parameters of a queue, with those that it has or lacks."""
        offered = self._catalog.queue(str(candidate.factors["aqm"])).params
        return _by_names(row.settings, offered, "parameter", "sets")

    def _readable(self, row: Requirement, candidate: Candidate) -> tuple[RowOutcome, str]:
        """Return the verdict of a row about statistics of a queue, with those that it has or lacks."""
        from l4sbench.catalog.describe import kind_of
        from reports.published.standards import RowOutcome

        queue = self._catalog.queue(str(candidate.factors["aqm"]))
        own = {name_of(name).key: value for name, value in candidate.factors.items()}
        exports = self._catalog.exports.get(kind_of(queue, own))
        if exports is None:
            return RowOutcome.NOT_POSSIBLE, f"the catalog does not state the statistics of {queue.name}"
        return _by_names(row.statistics, dict(exports.statistics), "statistic", "has")

    def _cells(self, row: Requirement, candidate: Candidate) -> tuple[Cell, ...]:
        """Return the cells of a row with a candidate; many are compared with the same other one."""
        from l4sbench.matrix import Matrix
        from l4sbench.program import problems

        key = (row.id, candidate.kind, candidate.text)
        if key in self._expanded:
            return self._expanded[key]
        stated, document = self._sheet.content(row)
        content = candidate.put_into(stated, row) | {"matrix": self._sheet.sheet, "rule": "none"}
        cells = Matrix.cells_of(replace(document, content=content), self._catalog, quick=self._quick)
        if found := [problem for cell in cells for problem in problems(cell, self._catalog)]:
            raise InputError(found)
        for cell in cells:
            self.cells.setdefault(cell.id, _factors(cell, candidate, row.groups))
            self.groups.append(cell.group_names)
        return self._expanded.setdefault(key, cells)


def _by_names(
    wanted: Mapping[str, Sequence[str]], offered: Container[str], kind: str, verb: str
) -> tuple[RowOutcome, str]:
    """Return the verdict of a row that names settle: each thing needs one of its names."""
    from reports.published.standards import RowOutcome

    found = {what: next((name for name in names if name in offered), "") for what, names in wanted.items()}
    if lacking := [what for what, name in found.items() if not name]:
        return RowOutcome.FAIL, f"no {kind} {verb} {' and '.join(lacking)}"
    return RowOutcome.PASS, "; ".join(f"{name} {verb} {what}" for what, name in found.items())


def _factors(cell: Cell, candidate: Candidate, groups: Sequence[str]) -> Mapping[str, Scalar]:
    """Return what a cell states, as a matrix states it; programs of the candidate by their paths."""
    found: dict[str, Scalar] = {}
    for name in sorted(cell.given):
        value = cell.get(name)
        if value is None:
            continue
        group, key = name_of(name).group, name_of(name).key
        own = group in groups and refers(name, "program")
        found[name] = candidate.factors[key] if own and key in candidate.factors else plain(value)
    return found


def _varying(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the factors in which cells differ."""
    names = sorted({name for cell in cells for name in cell.given})
    return tuple(name for name in names if len({cell.get(name) for cell in cells}) > 1)


def _places(cells: Sequence[Cell], varying: Sequence[str]) -> tuple[Place, ...]:
    from reports.published.standards import Place

    def place(cell: Cell) -> Place:
        stated = {name: value for name in varying if (value := cell.get(name)) is not None}
        values = dict(column_of(name, value) for name, value in stated.items())
        shown = stated or {"rate": cell.rate, "rtt": cell.rtt, "aqm": cell.aqm}
        return Place(cell.id, values, " ".join(f"{name}={plain(value)}" for name, value in shown.items()))

    return tuple(map(place, cells))


def _prepared(
    sheet: RequirementSheet,
    maker: _Maker,
    words: Sequence[str],
    options: RunOptions,
    asked: Sequence[Case] | None,
) -> Prepared | None:
    """Return the run of all cells, only those of the cases `asked` for if there are such."""
    wanted = None if asked is None else frozenset[str]().union(*(case.cells for case in asked))
    if not maker.cells or wanted == frozenset():
        return None
    name = _name_of(sheet, words, quick=options.quick)
    text = _matrix(sheet, name, maker, options)
    filters = [] if wanted is None else [f"cell={','.join(sorted(wanted))}"]
    with TemporaryDirectory(prefix="l4sbench-") as folder:
        file = Path(folder, f"{name}.yaml")
        file.write_text(text, encoding="utf-8")
        return prepare(file, filters, replace(options, quick=False))


def _name_of(sheet: RequirementSheet, words: Sequence[str], *, quick: bool) -> str:
    name = _NOT_IN_NAME.sub("-", "-".join((sheet.sheet, *words))).strip("-.")
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256("\n".join(words).encode(errors="surrogatepass")).hexdigest()
        name = f"{name[:_LONGEST_NAME].rstrip('-.')}-{digest[:8]}"
    return f"{name}-quick" if quick else name


def _matrix(sheet: RequirementSheet, name: str, maker: _Maker, options: RunOptions) -> str:
    """Return the matrix of all cells."""
    trials = sheet.quick_trials if options.quick else sheet.trials
    groups = ", ".join(f"{json.dumps(group)}: {{}}" for group in _order(sheet, maker.groups))
    lines = [
        "# Written by l4sbench conform: every cell of the sheet's rows with the candidates put in.",
        f"matrix: {json.dumps(name)}",
        f"description: {json.dumps(f'{sheet.document}: {sheet.about}'.strip())}",
        f"origin: {json.dumps(f'l4sbench conform {sheet.sheet}')}",
        "rule: none",
        f"trials: {trials}",
        f"flows: {{{groups}}}",
        "include:",
        *(f"  - {json.dumps(dict(stated), ensure_ascii=False)}" for stated in maker.cells.values()),
    ]
    return "\n".join(lines) + "\n"


def _order(sheet: RequirementSheet, groups: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return all flow groups in an order that is that of every cell, as it determines their nodes."""
    after = TopologicalSorter[str]()
    for own in dict.fromkeys(map(tuple, groups)):
        for place, group in enumerate(own):
            after.add(group, *own[place - 1 : place] if place else ())
    try:
        return iter(tuple(after.static_order()))
    except CycleError as error:
        named = " and ".join(quoted(str(group)) for group in error.args[1][:2])
        raise InputError(f"rows of {sheet.sheet} have {named} in different orders") from None
