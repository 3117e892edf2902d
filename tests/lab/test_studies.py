# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Quick variants of studies: every trial is valid, and what the study's figures show in any trial holds."""

from pathlib import Path

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import Lab
from reports.published.claims import ClaimOutcome, ClaimsReport, check, load_study, measures
from reports.result.load import RunTables

pytestmark = [pytest.mark.lab, pytest.mark.long]


def ran(folder: Path, matrix: str) -> RunTables:
    ended = api.run(matrix, runs=folder, quick=True)
    assert ended.result.failed == ended.result.invalid == 0
    return api.load(ended)


def asked(found: RunTables, study: str) -> ClaimsReport:
    """Check the study's claims; the quick variant must have the cells of every one that it is asked of."""
    report = check(found, load_study(study))
    assert report.trials == (1, 1)
    return report


def outcomes(report: ClaimsReport, *words: str) -> set[ClaimOutcome]:
    return {one.outcome for one in report.findings if all(word in one.claim.name for word in words)}


def test_steps(lab: Lab, tmp_path: Path) -> None:
    report = asked(ran(tmp_path, "stress25-steps"), "stress25-steps")
    assert ClaimOutcome.NOT_ASKED not in outcomes(report)
    for words in (("MCS 4",), ("MCS 9 to 4", "Prague"), ("MCS 7 to 4", "Prague")):
        goodputs = {
            one.outcome
            for one in report.findings
            if one.claim.measure.endswith("_mbps") and all(word in one.claim.name for word in words)
        }
        assert goodputs == {ClaimOutcome.SEEN}, words
    assert outcomes(report, "Prague", "queue") == {ClaimOutcome.SEEN}


def test_losses_on_wifi(lab: Lab, tmp_path: Path) -> None:
    report = asked(ran(tmp_path, "stress25-loss"), "stress25-loss")
    assert outcomes(report, "Prague, ", "of frames") | outcomes(report, "CUBIC, ") == {ClaimOutcome.SEEN}
    assert outcomes(report, "nobody repairs") == {ClaimOutcome.SEEN}


def test_mixes(lab: Lab, tmp_path: Path) -> None:
    found = ran(tmp_path, "stress25-mixes")
    report = asked(found, "stress25-mixes")
    assert outcomes(report, "Prague's queue") == {ClaimOutcome.SEEN}
    ratios = measures(found).filter(pl.col("classic.cc") == "cubic")["ratio_per_flow"]
    assert ratios.min() > 1.2  # type: ignore[operator]


def test_jitter(lab: Lab, tmp_path: Path) -> None:
    report = asked(ran(tmp_path, "stress25-jitter"), "stress25-jitter")
    calm = {
        one.outcome
        for one in report.findings
        if one.claim.measure == "goodput_mbps" and one.claim.name == "Prague, 20 ms, jitter 0 ms"
    }
    assert calm == {ClaimOutcome.SEEN}


def test_figure_of_reno_and_prague(lab: Lab, tmp_path: Path) -> None:
    report = asked(ran(tmp_path, "anrw24-fig1"), "anrw24-fig1")
    assert ClaimOutcome.NOT_ASKED not in outcomes(report)
    assert outcomes(report, "RTT") == {ClaimOutcome.SEEN}
    assert outcomes(report, "Prague", "utilisation") == {ClaimOutcome.SEEN}


SEEN = {
    ("ncf26-slowstart", "ncf26-slowstart"): ("Reno needs longer than CUBIC, at most",),
    ("ncf26-requests", "ncf26-requests"): ("RTT of mice beside CUBIC and BBRv1",),
    ("ncf26-parking", "ncf26-parking"): tuple(
        f"{name} over both bottlenecks" for name in ("CUBIC", "Reno", "BBRv1")
    ),
    ("ncf26-flood", "ncf26-flood"): ("Mice take all from Reno", "Elephants have the link before"),
    ("ncf26-rtts", "ncf26-rtts"): ("NCF is fair in a shallow buffer", "NCF is fairest in a deep buffer"),
    ("ncf26-staggered", "ncf26-staggered"): ("Fairness of Reno, every 5 s",),
    ("ncf26-workload", "ncf26-workload"): ("Connections of up to 100 B end soonest with NCF",),
    ("segsize26", "segsize26"): ("The default scheme at 100 kbit/s", "Many flows, packets of log"),
    ("segsize26-cubic", "segsize26-cubic"): ("Fairness is near 1",),
    ("segsize26-flood", "segsize26-flood"): (
        "A classic flood leaves packets whole",
        "An L4S flood leaves Prague a small rest",
    ),
    ("stress25-bbr3", "stress25-bbr3"): ("Prague among itself", "Prague's queue"),
}
"""Quick variant and study -> claims that must be seen in it; of the others some need the whole study."""


@pytest.mark.parametrize(("matrix", "study"), SEEN)
def test_quick_variants(lab: Lab, tmp_path: Path, matrix: str, study: str) -> None:
    report = asked(ran(tmp_path, matrix), study)
    seen = {one.claim.name for one in report.findings if one.outcome == ClaimOutcome.SEEN}
    assert set(SEEN[matrix, study]) <= seen


@pytest.mark.parametrize("matrix", ["anrw24", "pam25-flows", "segsize26-bbr3"])
def test_quick_variants_without_claims_of_single_trials(lab: Lab, tmp_path: Path, matrix: str) -> None:
    found = ran(tmp_path, matrix)
    assert found.trials["status"].to_list() == ["ok"] * found.trials.height
