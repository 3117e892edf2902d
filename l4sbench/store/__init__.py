# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The run directory, which holds ended trials and nothing else.

    runs/<matrix>/<UTC time>/            `latest` beside it links to the newest
        manifest.json  matrix.yaml
        cells/<cell-id>/<trial>-<inputs digest>/           ok or invalid; not run again
        cells/<cell-id>/<trial>-<inputs digest>.again-1/   repeated (`run --retry invalid`): this counts
        cells/<cell-id>/<trial>-<inputs digest>.failed-1/  the first try that failed, then -2, -3 ...
            trial.json  raw/

A trial is written as `<trial>-<inputs digest>.partial` and renamed when it has ended. Only the rename makes
it an ended trial, and an ended trial is never changed. The next process that takes the directory's lock
removes any `.partial` that a dead process left.
"""

from __future__ import annotations

from l4sbench.store.files import FORMAT, DiskFull, RunMoved, is_full
from l4sbench.store.lock import RunLocked, steady, user_of
from l4sbench.store.names import TrialFolder
from l4sbench.store.run import RETRIES, Manifest, Run, StoreView
from l4sbench.store.writer import Ending, Partial, RunWriter, locked

__all__ = [
    "FORMAT",
    "RETRIES",
    "DiskFull",
    "Ending",
    "Manifest",
    "Partial",
    "Run",
    "RunLocked",
    "RunMoved",
    "RunWriter",
    "StoreView",
    "TrialFolder",
    "is_full",
    "locked",
    "steady",
    "user_of",
]
