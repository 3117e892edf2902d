# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Margins as data: how much two runs may differ before it matters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from l4sbench.disk.document import load_model
from l4sbench.text.models import Strict

DEFAULT: Final = Path(__file__).parent / "default.yml"

_MOST: Final = 1e9  # beyond any difference; with it a share of any mean remains a number
NotNegative = Annotated[float, Field(ge=0, le=_MOST)]


class Margin(Strict):
    """A difference that does not matter: the larger of `margin` and `relative_percent` of the base's mean."""

    margin: NotNegative = 0.0
    relative_percent: NotNegative = 0.0

    def at(self, base_mean: float) -> float:
        """Return the margin for a cell whose base has this mean, in the metric's unit."""
        return max(self.margin, self.relative_percent / 100 * abs(base_mean))


class Margins(Strict):
    """Differences that count as worse and as better.

    Attributes:
        margins: Its name.
        version: Grows with every change of meaning.
        about: A description.
        false_discovery_percent: Expected share of false alarms among all alarms; when nothing changed at all,
            the chance of any alarm (Benjamini and Hochberg 1995).
        metrics: The metrics that are compared, with their margins; others are not looked at.
    """

    margins: str
    version: int
    about: str = ""
    false_discovery_percent: Annotated[float, Field(gt=0, lt=50)] = 5.0
    metrics: Mapping[Literal["unfairness_percent", "utilisation_percent", "delay_ms"], Margin]

    def of(self, metric: str) -> Margin | None:
        """Return the margin of a metric; None where the metric is not compared."""
        return next((margin for name, margin in self.metrics.items() if name == metric), None)


def load_margins(path: Path = DEFAULT) -> Margins:
    """Read the margins of a file.

    Raises:
        InputError: the file cannot be read, or is not a file of margins.
    """
    return load_model(path, Margins)
