# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Claims as data: a measure of some schemes in some cells, and its limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    model_validator,
)

from l4sbench.disk.document import Document, Flaw, load_model, read
from l4sbench.errors import BadValueError, InputError, Problem, did_you_mean, suggest
from l4sbench.facts.factors import column_of, factor_of
from l4sbench.text.models import Strict
from l4sbench.text.units import parse_quantity
from l4sbench.text.wording import quoted
from reports.published.claims.measures import MEASURES
from reports.published.claims.samples import OF_WINDOWS, Window

FOLDER: Final = Path(__file__).parent

Scalar = str | int | float | bool


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise BadValueError(f"lists {quoted(name)} twice", "leave one out")
    return names


Names = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_each_once)]


def _known(measure: str) -> str:
    if measure not in MEASURES:
        hint = suggest(measure, MEASURES)
        raise BadValueError(f"{quoted(measure)} is not a measure", hint)
    return measure


Measure = Annotated[str, AfterValidator(_known)]


def _parsed(where: dict[str, Scalar | list[Scalar]]) -> dict[str, Scalar | list[Scalar]]:
    columns_of(where)
    return where


Where = Annotated[dict[str, Scalar | list[Scalar]], AfterValidator(_parsed)]
"""Factors and the values that they must have, as in a matrix; a list means or."""


def _window(raw: object) -> Window:
    """Read `[20s, 35s]`. Raises BadValueError."""
    hint = "write from and to, such as [20s, 35s]"
    if not isinstance(raw, list) or len(raw) != 2 or not all(isinstance(one, str) for one in raw):
        raise BadValueError("expected a part of the trial", hint)
    begin, end = (parse_quantity("duration", one).s for one in raw)
    if begin >= end:
        raise BadValueError(f"ends at {quoted(str(raw[1]))}, not after {quoted(str(raw[0]))}", hint)
    return Window(begin, end)


class Claim(Strict):
    """One claim. It is checked in every setting that `where` leaves, and there in every trial.

    The claim is one of these. For each scheme of `of` the measure is

    - `times` that of scheme `than` at most (`at_most`) or at least (`at_least`), or
    - without `than`, that number itself at most or at least, or
    - that number (`is`), give or take `within`, or
    - the `least` or the `greatest` of all schemes.

    Attributes:
        name: A few words.
        says: The published claim.
        where: The cells that it is about.
        measure: One of `MEASURES`.
        of: The schemes that the claim is about.
        than: The scheme they are compared with.
        at_most: Limit of the measure or of the ratio.
        at_least: Limit of the measure or of the ratio.
        extreme: `least` or `greatest`.
        value: `is`: the published number.
        within: By how much the measure may differ from it.
    """

    model_config = ConfigDict(populate_by_name=True)

    name: str
    says: str
    where: Where = Field(default_factory=dict)
    measure: Measure
    of: Names
    than: str | None = None
    at_most: float | None = None
    at_least: float | None = None
    extreme: Literal["least", "greatest"] | None = None
    value: float | None = Field(default=None, alias="is")
    within: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = (self.at_most, self.at_least, self.extreme, self.value)
        compared = self.at_most is not None or self.at_least is not None
        if sum(kind is not None for kind in kinds) != 1 or (self.than is not None and not compared):
            raise ValueError("expected one of at_most, at_least, extreme, is; `than` goes with the first two")
        if (self.value is None) != (self.within is None):
            raise ValueError("`is` and `within` go together, such as is: 96.4, within: 3")
        return self

    def columns(self) -> dict[str, list[Scalar]]:
        """Return `where` as columns of table `trials` with the values they may have."""
        return columns_of(self.where)

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield every key of `where` with each column of table `trials` that it is about."""
        for key, raw in self.where.items():
            yield from ((key, column) for column in columns_of({key: raw}))


def columns_of(where: Mapping[str, Scalar | list[Scalar]]) -> dict[str, list[Scalar]]:
    """Return factors with values, as a matrix states them, as columns of table `trials` with those values.

    Raises:
        ValueError: a value is not one of its factor.
    """
    found: dict[str, list[Scalar]] = {}
    for name, raw in where.items():
        factor = factor_of(name)
        for value in raw if isinstance(raw, list) else [raw]:
            try:
                column, own = column_of(name, factor.parse(value)) if factor else (name, value)
            except BadValueError as error:
                raise ValueError(f"{quoted(name)}: {error}") from error
            found.setdefault(column, []).append(own)
    return found


class Shown(Strict):
    """A measure that the report shows of every setting and scheme, of one flow group; none: the study's."""

    measure: Measure
    group: str = ""


Part = Annotated[Window, BeforeValidator(_window)]
"""A part of a trial, such as `[20s, 35s]`."""


class Study(Strict):
    """The claims of one study.

    Attributes:
        study: Its name, that of its file.
        about: The subject of the study.
        source: Where it was published.
        group: The flow group that is measured; `all`: all flows.
        factor: The factor whose values are the schemes, a column of table `trials`.
        schemes: Its values, in the order of tables.
        settings: The factors that identify a setting, columns of table `trials`.
        windows: Two parts of a trial, for measures that compare them: `[[20s, 35s], [36s, 60s]]`.
        claims: The claims.
        shown: Measures to show.
    """

    study: str
    about: str
    source: str
    group: str = "l4s"
    factor: str
    schemes: Names
    settings: Names
    windows: tuple[Part, Part] | None = None
    claims: tuple[Claim, ...] = ()
    shown: tuple[Shown, ...] = ()
    _document: Document = PrivateAttr(Document("", None))

    @model_validator(mode="after")
    def _has_windows(self) -> Self:
        named = {claim.measure for claim in self.claims} | {shown.measure for shown in self.shown}
        asked = sorted(named & OF_WINDOWS.keys())
        if asked and not self.windows:
            raise ValueError(f"{asked[0]} needs two windows, such as windows: [[20s, 35s], [36s, 60s]]")
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a user's file; problems that are found later have their positions in it.

        Raises:
            InputError: all problems of the file.
        """
        document = read(path)
        study = document.validate(cls)
        document.refuse(())
        study._document = document  # noqa: SLF001  (its own)
        return study

    def problem(self, flaw: Flaw) -> Problem:
        """Return why the claims cannot be checked, with its position in the user's file if there is one."""
        return self._document.problem(flaw)


def offered() -> tuple[str, ...]:
    """Return the names of all studies with claims."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yml")))


def load_study(name: str) -> Study:
    """Read a study by its name, or from a user's file (a path that ends in .yml).

    Raises:
        InputError: the name is unknown, or the file is not a file of claims.
    """
    if name.endswith((".yml", ".yaml")):
        return Study.read(Path(name))
    if name not in offered():
        hint = did_you_mean(name, offered()) or f"choose from {', '.join(offered())}, or name a .yml file"
        raise InputError(f"no claims of {name} were found", hint)
    return load_model(FOLDER / f"{name}.yml", Study)
