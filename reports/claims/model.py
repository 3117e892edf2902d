# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Claims as data: which measure of which schemes in which cells must be how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from l4sbench.errors import InputError, did_you_mean
from l4sbench.factors import BadValueError, column_of, factor_of
from reports.claims.measures import MEASURES

FOLDER: Final = Path(__file__).parent

Scalar = str | int | float | bool
Schemes = Annotated[tuple[str, ...], Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Claim(_Strict):
    """One claim. It is asked in every setting that `where` leaves, and there of every trial.

    What is claimed is one of these. Of each scheme of `of` the measure is

    - `times` that of scheme `than` at most (`at_most`) or at least (`at_least`), or
    - without `than`, that number itself at most or at least, or
    - the `least` or the `greatest` of all schemes.

    Attributes:
        name: A few words.
        says: What was published.
        where: Factors and the values they must have, as in a matrix; a list means or.
        measure: One of `MEASURES`.
        of: The schemes it is claimed of.
        than: The scheme they are compared with.
        at_most: Limit of the measure or of the ratio.
        at_least: Limit of the measure or of the ratio.
        extreme: `least` or `greatest`.
    """

    name: str
    says: str
    where: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    measure: str
    of: Schemes
    than: str | None = None
    at_most: float | None = None
    at_least: float | None = None
    extreme: Annotated[str | None, Field(pattern="^(least|greatest)$")] = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        limits = [value for value in (self.at_most, self.at_least, self.extreme) if value is not None]
        if len(limits) != 1 or (self.extreme is not None and self.than is not None):
            raise ValueError(f"{self.name}: give at_most, at_least or extreme; than goes with the first two")
        if self.measure not in MEASURES:
            raise ValueError(f"{self.name}: no measure {self.measure}; there are {', '.join(MEASURES)}")
        return self

    def columns(self) -> dict[str, list[Scalar]]:
        """`where` as columns of table `trials` with the values they may have."""
        found: dict[str, list[Scalar]] = {}
        for name, raw in self.where.items():
            values = raw if isinstance(raw, list) else [raw]
            factor = factor_of(name)
            try:
                pairs = [column_of(name, factor.parse(v)) if factor else (name, v) for v in values]
            except BadValueError as error:
                raise ValueError(f"{self.name}: {name}: {error}") from error
            found[pairs[0][0]] = [value for _, value in pairs]
        return found


class Shown(_Strict):
    """A measure that the report shows of every setting and scheme, of one flow group."""

    measure: str
    group: str = "l4s"


class Study(_Strict):
    """The claims of one study.

    Attributes:
        study: Its name, that of its file.
        about: What was studied.
        source: Where it was published.
        factor: What tells its schemes apart, a column of table `trials`.
        schemes: Its values, in the order of tables.
        settings: What tells settings apart, columns of table `trials`.
        claims: What is claimed.
        shown: Measures to show.
    """

    study: str
    about: str
    source: str
    factor: str
    schemes: Schemes
    settings: Schemes
    claims: tuple[Claim, ...] = ()
    shown: tuple[Shown, ...] = ()


def offered() -> tuple[str, ...]:
    """Names of all studies whose claims are at hand."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yml")))


def load_study(name: str) -> Study:
    """A study by its name, or from a file of one's own (a path that ends in .yml).

    Raises:
        InputError: there is none of that name, or its file holds no claims.
    """
    path = Path(name) if name.endswith((".yml", ".yaml")) else FOLDER / f"{name}.yml"
    if not path.is_file():
        hint = did_you_mean(name, offered()) or f"there are claims of {', '.join(offered())}"
        raise InputError(f"there are no claims of {name}", hint)
    try:
        study = Study.model_validate(YAML(typ="safe").load(path.read_text(encoding="utf-8")))
        for claim in study.claims:
            claim.columns()
    except (YAMLError, ValueError, ValidationError) as error:
        raise InputError(f"{path.name} holds no claims: {error}") from error
    return study
