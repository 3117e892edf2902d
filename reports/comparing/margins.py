# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""How much two runs may differ before it matters: margins as data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from l4sbench.errors import InputError

DEFAULT: Final = Path(__file__).parent / "default.yml"

MetricName = Literal["unfairness_percent", "utilisation_percent", "delay_ms"]

NotNegative = Annotated[float, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Margin(_Strict):
    """A difference that does not matter: the larger of `margin` and `relative_percent` of the base's mean."""

    margin: NotNegative = 0.0
    relative_percent: NotNegative = 0.0

    def at(self, base_mean: float) -> float:
        """The margin for a cell whose base has this mean, in the metric's unit."""
        return max(self.margin, self.relative_percent / 100 * abs(base_mean))


class Margins(_Strict):
    """What counts as worse and as better.

    Attributes:
        margins: Its name.
        version: Grows with every change of meaning.
        about: What it says.
        false_discovery_percent: Expected share of false alarms among all alarms; when nothing changed at all,
            the chance of any alarm (Benjamini and Hochberg 1995).
        metrics: The metrics that are compared, with their margins; others are not looked at.
    """

    margins: str
    version: int
    about: str = ""
    false_discovery_percent: Annotated[float, Field(gt=0, lt=50)] = 5.0
    metrics: Mapping[MetricName, Margin]


def load_margins(path: Path = DEFAULT) -> Margins:
    """The margins of a file.

    Raises:
        InputError: it cannot be read, or holds no margins.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"margins {path} cannot be read: {error}", f"{DEFAULT} is an example") from error
    try:
        return Margins.model_validate(YAML(typ="safe").load(text))
    except YAMLError as error:
        raise InputError(f"{path} is no YAML: {error}") from error
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'file'}: {item['msg']}"
            for item in error.errors()
        )
        raise InputError(f"{path} holds no margins: {wrong}", f"{DEFAULT} is an example") from error
