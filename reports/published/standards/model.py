# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Sheets as data: requirements of a document, each with cells, measures and thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator

from l4sbench.disk.document import Document, Flaw, KeyPath, read
from l4sbench.errors import BadValueError, InputError, did_you_mean, suggest
from l4sbench.facts.factors import MAX_TRIALS
from l4sbench.text.models import Strict
from l4sbench.text.wording import quoted
from reports.published.claims.model import Measure, Names, Part, Scalar, Where, columns_of
from reports.published.claims.samples import OF_WINDOWS

FOLDER: Final = Path(__file__).parent

_ROW_ID: Final = r"^[A-Z][0-9]{1,3}[a-z]?$"
_NAME: Final = r"^[a-z0-9][a-z0-9-]{0,31}$"


_OF_SHEET: Final = frozenset(
    {"matrix", "description", "trials", "rule", "roles", "baselines", "seed", "spread", "catalog", "licence"}
)
"""Keys of a matrix that the matrix of a row cannot have."""
_OF_SHEET_HINTS: Final = {"trials": "the sheet states trials and quick_trials"}


class Level(StrEnum):
    """The force of a requirement; `expected` is what a document states without a capital word."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"
    EXPECTED = "expected"


class Kind(StrEnum):
    """The kind of thing that a requirement is about: a sender, a queue, or both together."""

    SENDER = "sender"
    QUEUE = "queue"
    PAIR = "pair"


class Threshold(Strict):
    """A limit of a measure: a range, or a value give or take something."""

    model_config = ConfigDict(populate_by_name=True)

    at_least: float | None = None
    at_most: float | None = None
    value: float | None = Field(default=None, alias="is")
    within: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        ranged = self.at_least is not None or self.at_most is not None
        if (self.value is None) != (self.within is None):
            raise ValueError("`is` and `within` go together, such as is: 2, within: 1")
        if ranged == (self.value is not None):
            raise ValueError("expected at_least, at_most or both, or is with within")
        low, high = self.ends
        if low is not None and high is not None and low > high:
            raise ValueError(f"at_least ({low:g}) is greater than at_most ({high:g})")
        return self

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The least and the greatest value that it allows; None: there is no such limit."""
        if self.value is not None and self.within is not None:
            return self.value - self.within, self.value + self.within
        return self.at_least, self.at_most


class RowClaim(Threshold):
    """One claim of a row, in every cell that `where` leaves.

    Attributes:
        name: By which `--margins` names it; by default the measure.
        measure: One of `reports.published.claims.MEASURES`.
        group: The flow group that is measured; by default the first of the row's; `all`: all flows.
        where: The cells that it is about.
        than: What the measure is divided by: that with another candidate in the same cell (`cubic`), or that
            of the same candidate in the cell that differs in these factors.
        threshold: The limits are `stated` in the document, or `proposed` here.
        each_trial: True if each trial by itself must be within the limits, as what is counted may not happen
            at all; otherwise the interval of the mean must.
    """

    name: str = ""
    measure: Measure
    group: str = ""
    where: Where = Field(default_factory=dict)
    than: str | dict[str, Scalar] | None = None
    threshold: Literal["stated", "proposed"]
    each_trial: bool = False

    @field_validator("than")
    @classmethod
    def _parsed_than(cls, than: str | dict[str, Scalar] | None) -> str | dict[str, Scalar] | None:
        if isinstance(than, dict):
            columns_of(than)
        return than

    @model_validator(mode="after")
    def _each_is_plain(self) -> Self:
        if self.each_trial and self.than is not None:
            raise ValueError("`each_trial` is for limits of the measure itself, without `than`")
        return self

    @property
    def key(self) -> str:
        """Its name among the claims of its row."""
        return self.name or self.measure

    def with_limits(self, limits: Threshold) -> Self:
        """Return it with other limits."""
        stated = limits.model_dump(include={"at_least", "at_most", "value", "within"})
        return self.model_copy(update=stated)


class NegativeControl(Strict):
    """A negative control: a candidate that must fail a row, or the row is not to be trusted.

    Attributes:
        candidate: As on the command line.
        because: The reason for which it must fail.
        claim: The claim that must fail; by default any of the row.
    """

    candidate: str
    because: str
    claim: str = ""


class Requirement(Strict):
    """A requirement.

    Attributes:
        id: Its name in the sheet.
        section: Where the document states it.
        level: Its force.
        requires: The requirement in our own words.
        applies: The kind of candidate that it is about.
        l4s_only: True if it is about senders that send ECT(1), or queues that treat it differently.
        matrix: Its cells: the content of a matrix, or the name of one of the sheet's `matrices`. The
            candidate is put in. With `--quick` a row without the key `quick` in its matrix is left out.
        groups: The flow groups that a sender becomes; claims measure the first unless they state another.
        windows: Two parts of a trial, for measures that compare them.
        claims: Its claims; the row passes if all do.
        controls: Negative controls.
        settings: In place of cells: what must be adjustable -> parameters of the catalog, of which a queue
            must have one.
        statistics: Likewise, what must be readable -> statistics of the queue in the kernel.
        not_possible: Why it cannot be measured here; it has no cells and claims then.
        remark: What a reader of its verdict must know.
    """

    id: Annotated[str, Field(pattern=_ROW_ID)]
    section: str
    level: Level
    requires: str
    applies: Kind
    l4s_only: bool = False
    matrix: str | dict[str, Any] | None = None
    groups: Names = ("l4s",)
    windows: tuple[Part, Part] | None = None
    claims: tuple[RowClaim, ...] = ()
    controls: tuple[NegativeControl, ...] = ()
    settings: dict[str, Names] = Field(default_factory=dict)
    statistics: dict[str, Names] = Field(default_factory=dict)
    not_possible: str = ""
    remark: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        others = [key for key in ("not_possible", "settings", "statistics") if getattr(self, key)]
        if others:
            if self.matrix is not None or self.claims or self.controls or len(others) > 1:
                raise ValueError(f"`{others[0]}` is for rows without matrix, claims and controls")
            if not self.not_possible and self.applies is not Kind.QUEUE:
                raise ValueError(f"`{others[0]}` is for rows of a queue")
            return self
        if self.matrix is None or not self.claims:
            raise ValueError(
                "a row needs matrix and claims, or settings, or statistics, or not_possible with the reason"
            )
        keys = [claim.key for claim in self.claims]
        if twice := next((key for place, key in enumerate(keys) if key in keys[:place]), None):
            raise ValueError(f"two claims are called {quoted(twice)}; give them names")
        asked = sorted({claim.measure for claim in self.claims} & OF_WINDOWS.keys())
        if asked and not self.windows:
            raise ValueError(f"{asked[0]} needs two windows, such as windows: [[0s, 5s], [5s, 10s]]")
        unknown = [one.claim for one in self.controls if one.claim and one.claim not in keys]
        if unknown:
            raise BadValueError(f"there is no claim {quoted(unknown[0])}", suggest(unknown[0], keys))
        if self.controls and self.applies is Kind.PAIR:
            raise ValueError("controls are for rows of a sender or of a queue")
        return self

    @property
    def others(self) -> tuple[str, ...]:
        """The candidates that its claims compare with."""
        return tuple(dict.fromkeys(claim.than for claim in self.claims if isinstance(claim.than, str)))


class RequirementSheet(Strict):
    """The requirements of a document.

    Attributes:
        sheet: Its name, that of its file.
        document: The document, with its title.
        about: A sentence.
        trials: Trials per cell.
        quick_trials: The same with `--quick`.
        error_percent: The chance that some row passes, or some row fails, that should not (all together).
        matrices: Matrices that several rows share, by name.
        rows: The requirements.
    """

    sheet: Annotated[str, Field(pattern=_NAME)]
    document: str
    about: str
    trials: Annotated[int, Field(ge=2, le=MAX_TRIALS)] = 8
    quick_trials: Annotated[int, Field(ge=2, le=MAX_TRIALS)] = 5
    error_percent: Annotated[float, Field(gt=0, lt=50)] = 5.0
    matrices: dict[str, dict[str, Any]] = Field(default_factory=dict)
    rows: tuple[Requirement, ...]
    _source: Document = PrivateAttr(Document("", None))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises InputError with all problems of the file."""
        document = read(path)
        sheet = document.validate(cls)
        document.refuse(sheet._flaws(path.stem))  # noqa: SLF001  (its own)
        sheet._source = document  # noqa: SLF001  (its own)
        return sheet

    def _flaws(self, name: str) -> Iterator[Flaw]:
        if self.sheet != name:
            yield Flaw(
                ("sheet",), f"{quoted(self.sheet)} is not the name of the file", f"write {quoted(name)}"
            )
        if not self.rows:
            yield Flaw(("rows",), "must not be empty")
        known: dict[str, int] = {}
        for number, row in enumerate(self.rows):
            if row.id in known:
                yield Flaw(("rows", number, "id"), f"{quoted(row.id)} is the id of another row")
            known.setdefault(row.id, number)
            if isinstance(row.matrix, str) and row.matrix not in self.matrices:
                hint = suggest(row.matrix, self.matrices)
                yield Flaw(("rows", number, "matrix"), f"the sheet has no matrix {quoted(row.matrix)}", hint)
        places: list[tuple[KeyPath, object]] = [
            (("matrices", name), one) for name, one in self.matrices.items()
        ]
        places += [(("rows", number, "matrix"), row.matrix) for number, row in enumerate(self.rows)]
        for path, stated in places:
            for key in stated if isinstance(stated, dict) else ():
                if key not in _OF_SHEET:
                    continue
                yield Flaw(
                    (*path, key), "is a key of whole matrices; a row has none", _OF_SHEET_HINTS.get(key)
                )

    def row(self, name: str) -> Requirement:
        """Return a row by its id. Raises InputError if there is none."""
        found = next((row for row in self.rows if row.id == name), None)
        if found is None:
            raise InputError(
                f"{self.sheet} has no row {quoted(name)}", suggest(name, [row.id for row in self.rows])
            )
        return found

    def content(self, row: Requirement) -> tuple[Mapping[str, Any], Document]:
        """Return the matrix of a row as it is stated, and the document with its positions."""
        path: KeyPath = ("rows", self.rows.index(row), "matrix")
        stated = row.matrix
        if isinstance(stated, str):
            path, stated = ("matrices", stated), self.matrices[stated]
        content = dict(stated or {})
        return content, self._source.below(path, content)

    @property
    def measured(self) -> tuple[Requirement, ...]:
        """The rows that have cells; verdicts of all of them together are right with the stated chance."""
        return tuple(row for row in self.rows if row.matrix is not None)

    def with_margins(self, margins: LimitChanges) -> Self:
        """Return the sheet with other limits in place of proposed ones.

        Raises:
            InputError: there is no such row or claim, or its limits are stated in the document.
        """
        flaws: list[Flaw] = []
        rows = {row.id: row for row in self.rows}
        for name, limits in margins.rows.items():
            if name not in rows:
                hint = suggest(name, rows)
                flaws.append(Flaw(("rows", name), f"{self.sheet} has no row {quoted(name)}", hint))
                continue
            claims = {claim.key: claim for claim in rows[name].claims}
            for key, threshold in limits.items():
                place = ("rows", name, key)
                if key not in claims:
                    flaws.append(Flaw(place, f"{name} has no claim {quoted(key)}", suggest(key, claims)))
                elif claims[key].threshold == "stated":
                    flaws.append(Flaw(place, f"the limits of {name} are stated in the document"))
                else:
                    claims[key] = claims[key].with_limits(threshold)
            rows[name] = rows[name].model_copy(update={"claims": tuple(claims.values())})
        margins.refuse(flaws)
        return self.model_copy(update={"rows": tuple(rows.values())})


class LimitChanges(Strict):
    """Limits in place of proposed ones: row -> claim -> limits."""

    margins: str
    about: str = ""
    rows: dict[str, dict[str, Threshold]]
    _source: Document = PrivateAttr(Document("", None))

    def refuse(self, flaws: list[Flaw]) -> None:
        """Raise InputError if there are flaws."""
        self._source.refuse(flaws)


def load_margins(path: Path) -> LimitChanges:
    """Read a file of margins. Raises InputError with all problems of the file."""
    document = read(path)
    found = document.validate(LimitChanges)
    document.refuse(())
    found._source = document  # noqa: SLF001  (of this module)
    return found


def offered() -> tuple[str, ...]:
    """Return the names of all sheets that ship with l4sbench."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yml")))


def load_sheet(name: str) -> RequirementSheet:
    """Read a sheet by its name, or from a user's file (a path that ends in .yml).

    Raises:
        InputError: the name is unknown, or the file is not a sheet.
    """
    if name.endswith((".yml", ".yaml")):
        return RequirementSheet.read(Path(name))
    if name not in offered():
        hint = did_you_mean(name, offered()) or f"choose from {', '.join(offered())}, or name a .yml file"
        raise InputError(f"no sheet is called {name}", hint)
    return RequirementSheet.read(FOLDER / f"{name}.yml")
