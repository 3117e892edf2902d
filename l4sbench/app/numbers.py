# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Numbers of a run's cells, `report/numbers.json`: goodput and delay of each flow group, and verdicts.

The report writes them for `l4sbench show`, which then neither opens a table nor judges a cell: for thousands
of trials that takes seconds and hundreds of megabytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pydantic import Field, ValidationError

from l4sbench.disk.plain import open_below
from l4sbench.errors import InputError
from l4sbench.text.models import Strict
from reports.result.judging import Word  # noqa: TC001  (pydantic needs it)

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from reports.result.load import RunTables
    from reports.result.measured import Measurements
    from reports.result.verdicts import Decision

FILE: Final = "numbers.json"
"""Name of the document in the folder of a report."""

_FORMAT: Final = 2
_MOST_BYTES: Final = 1 << 26


class GroupNumbers(Strict):
    """Numbers of a flow group in the valid trials of a cell.

    Attributes:
        goodput_mbps: Mean of the sum of its flows' goodputs.
        trials_mbps: That sum by trial.
        delay_ms: Mean of its smoothed RTT minus base RTT.
        delay_first_5s_ms: The same in the first 5 s, for flows of 10 s and more.
        delay_after_5s_ms: The same after these.
    """

    goodput_mbps: float
    trials_mbps: Mapping[int, float]
    delay_ms: float | None = None
    delay_first_5s_ms: float | None = None
    delay_after_5s_ms: float | None = None


class CellVerdict(Strict):
    """The verdict on a cell.

    Attributes:
        word: The verdict.
        sure: True if the confidence intervals alone give it.
        doubt: The side that leaves it open, with its interval and limit, in words; empty without such a side.
    """

    word: Word
    sure: bool
    doubt: str = ""


class CellNumbers(Strict):
    """Numbers of a cell: of its flow groups, if a trial is valid, and its verdict, if it has one."""

    groups: Mapping[str, GroupNumbers] = Field(default_factory=dict)
    verdict: CellVerdict | None = None


class Numbers(Strict):
    """The numbers of a run.

    Attributes:
        format: Version of the document.
        groups: Its flow groups; those that rules compare come first.
        cells: The numbers of its cells, by their ids.
        trials: Number of trials in the tables that they are of, valid or not.
        folders: The folder of each of these trials, by cell and number; those of former cells only if they
            count. Empty in format 1.
    """

    format: int = Field(default=_FORMAT, ge=1, le=_FORMAT)
    groups: tuple[str, ...] = ()
    cells: Mapping[str, CellNumbers] = Field(default_factory=dict)
    trials: int = 0
    folders: Mapping[str, Mapping[int, str]] = Field(default_factory=dict)

    @property
    def text(self) -> str:
        """The document."""
        return self.model_dump_json() + "\n"


def read_numbers(run: Path) -> Numbers:
    """Return the numbers in a run's report; nothing if it has no report.

    Raises:
        InputError: the document is damaged, or a newer l4sbench wrote it.
    """
    name = f"report/{FILE}"
    try:
        root = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with open_below(root, name) as file:
                return Numbers.model_validate_json(file.read(_MOST_BYTES))
        finally:
            os.close(root)
    except FileNotFoundError:
        return Numbers()
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise InputError(
            f"{name} is damaged, or a newer l4sbench wrote it", "`l4sbench report` writes it"
        ) from error


def numbers_of(tables: RunTables, result: Decision | Measurements, started: pl.DataFrame) -> Numbers:
    """Return the numbers of all cells in a run's tables, with the verdicts of a decision on them.

    `started` is what `reports.result.metrics.starts` returns of the tables.
    """
    from reports.render.words import in_doubt
    from reports.result.verdicts import Decision

    judged = result.cells if isinstance(result, Decision) else ()
    verdicts = {cell.id: CellVerdict(word=cell.word, sure=cell.sure, doubt=in_doubt(cell)) for cell in judged}
    groups = tables.groups["group"].unique(maintain_order=True).to_list()
    groups.sort(key=lambda group: result.pair.index(group) if group in result.pair else len(result.pair))
    value = result.rule.value if isinstance(result, Decision) else "goodput_mbps"
    found = _by_cell(tables, started, groups, value)
    return Numbers(
        groups=tuple(groups),
        cells={
            cell: CellNumbers(groups=found.get(cell, {}), verdict=verdicts.get(cell))
            for cell in dict.fromkeys((*verdicts, *found))
        },
        trials=tables.trials.height + result.former.trials,
        folders={
            cell: dict(zip(trials, folders, strict=True))
            for cell, trials, folders in tables.trials.group_by("cell", maintain_order=True)
            .agg("trial", "folder")
            .iter_rows()
        },
    )


def _by_cell(
    tables: RunTables, started: pl.DataFrame, groups: list[str], value: str
) -> Mapping[str, Mapping[str, GroupNumbers]]:
    import polars as pl

    delays = ("delay_ms", "delay_first_5s_ms", "delay_after_5s_ms")
    numbers: dict[str, dict[str, GroupNumbers]] = {}
    for group in groups:
        own = started.filter(pl.col("group") == group).drop("group")
        every = tables.totals(group, value).join(own, on=["cell", "trial"], how="left", maintain_order="left")
        of_cell = every.group_by("cell", maintain_order=True).agg(
            "trial", pl.col("mbps"), pl.col("mbps").mean().alias("mean"), pl.col(*delays).mean()
        )
        for cell, trials, each_mbps, mean, *of_delay in of_cell.iter_rows():
            numbers.setdefault(cell, {})[group] = GroupNumbers(
                goodput_mbps=mean,
                trials_mbps=dict(zip(trials, each_mbps, strict=True)),
                **dict(zip(delays, of_delay, strict=True)),
            )
    return numbers
