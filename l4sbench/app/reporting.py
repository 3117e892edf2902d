# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Write the report of a run: table `verdicts`, documents and the page, beside its tables or elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.app.reading import reading, refuse_other, refuse_others, remove_ours, writing
from l4sbench.disk.files import write_whole
from l4sbench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from l4sbench.app.stored import StoredRun
    from reports.page import Live, Section
    from reports.result.measured import Measurements
    from reports.result.regret import Regret
    from reports.result.verdicts import Decision

_MADE_BY: Final = b"Made by `l4sbench run "
"""Words near the beginning of every document that is written beside the page."""

_ELSEWHERE: Final = "-o DIR writes the report into another folder"


@dataclass(frozen=True)
class Report:
    """Report of a run, in its folder `report/`; with `into` in another one, which leaves the run as it is.

    With `every` former cells, which the run's matrix no longer has, count, too.
    """

    run: StoredRun
    into: Path | None = None
    every: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the report."""
        return self.into or self.run.path / "report"

    def write_beside(self, name: str, text: str) -> Path:
        """Write a document of its own into the report; return its file.

        Raises:
            InputError: somebody else's file has its name, or the folder cannot be written.
        """
        document = self.folder / name
        if self.into is not None:
            refuse_other(document, _MADE_BY, "of a report")
        with writing(self.folder, _ELSEWHERE):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(document, text)
        return document

    def write(
        self,
        result: Decision | Measurements,
        regrets: Sequence[Regret] = (),
        panels: Sequence[Section] = (),
    ) -> Path:
        """Write every document and the page of a whole run, with verdicts their table, too; return the page.

        Documents that are there from when the matrix had a rule, or had none, are removed.

        Raises:
            InputError: a file of another kind has the name of one of them, or the folder cannot be written.
        """
        from l4sbench.app import numbers
        from l4sbench.tables import write
        from reports import page as pages
        from reports.render import documents, measured
        from reports.result.metrics import cell_metrics, starts
        from reports.result.verdicts import Decision

        with reading(self.run.path), writing(self.folder, _ELSEWHERE):
            found = self.run.tables(every=self.every)
            started = starts(found)
            metrics = cell_metrics(found, *result.pair, started=started)
            if isinstance(result, Decision):
                texts = documents.documents(result, regrets, metrics)
            else:
                texts = measured.documents(result, metrics)
            texts = {**texts, numbers.FILE: numbers.numbers_of(found, result, started).text}
            verdicts = (self.run.path / "tables" if self.into is None else self.into) / "verdicts.parquet"
            if self.into is not None:
                refuse_others(self.folder, (*texts, verdicts.name))
            self.folder.mkdir(parents=True, exist_ok=True)
            if isinstance(result, Decision):
                write("verdicts", [result.frame().lazy()], verdicts)
            for name, text in texts.items():
                write_whole(self.folder / name, text)
            if isinstance(result, Decision):
                remove_ours(self.folder, measured.BEGINNINGS)
            elif remove_ours(self.folder, documents.BEGINNINGS):
                verdicts.unlink(missing_ok=True)
            heading = pages.Heading(self.run.matrix.name, self.run.matrix.description)
            return pages.write(
                found, result, heading, self.folder, metrics=metrics, costs=regrets, panels=panels
            )

    def write_live(self, live: Live) -> Path:
        """Write only the page of a run that goes on, of the trials that its tables have; return the page.

        Raises:
            InputError: a table is damaged, or the folder cannot be written.
        """
        from l4sbench.tables import DamagedTable
        from reports import page as pages

        heading = pages.Heading(self.run.matrix.name, self.run.matrix.description)
        with reading(self.run.path), writing(self.folder, _ELSEWHERE):
            try:
                result = self.run.result()
            except DamagedTable:
                if (self.run.path / "tables" / "trials.parquet").exists():
                    raise
                return pages.write_waiting(heading, self.folder, live)
            except InputError:  # no trial has ended yet, or none of both groups
                return pages.write_waiting(heading, self.folder, live)
            return pages.write_live(self.run.tables(), result, heading, self.folder, live)


def regrets(result: Decision | Measurements, prevalence: Path | None = None) -> tuple[Regret, ...]:
    """Return the cost of switching; nothing without verdicts, or where no trial is valid, and no weights.

    Args:
        result: A decision table, or measurements without verdicts.
        prevalence: File with weights of queues and competitors; None: all count alike.

    Raises:
        InputError: the file is not valid, or there are weights and no verdicts.
    """
    from reports.result.regret import UNIFORM, load_prevalence, regret
    from reports.result.verdicts import Decision

    weights = load_prevalence(prevalence) if prevalence else UNIFORM
    if prevalence is None and not (isinstance(result, Decision) and result.trials):
        return ()
    if not isinstance(result, Decision):
        raise InputError("the expected regret needs verdicts, and there is no rule", "--rule states one")
    return regret(result, weights)
