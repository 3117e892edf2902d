# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdicts on media by its frames: a rule of its own kind, for flow groups whose receivers report frames."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from l4sbench.disk.document import load_model
from l4sbench.text.models import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.result.stats import Estimate

FILE: Final = Path(__file__).with_suffix(".yml")
MEDIAN: Final = "receiver frames.delay_ms.p50"
DELAY: Final = "receiver frames.delay_ms.p95"
FREEZES: Final = "receiver frames.freezes"
"""Names of numbers in `MeasuredGroup.own`, which programs report by docs/exec.md."""

_Limit = Annotated[float, Field(ge=0)]


class FrameRule(Strict):
    """A rule for media.

    Attributes:
        rule: Its name.
        version: Grows with every change of meaning.
        about: Its meaning.
        source: Its origin.
        delay_p95_ms: Most delay of 95 % of the frames, from capture to the last packet.
        freezes: Most freezes in a trial.
        fair_share_percent: Least part of the group's fair share of the link.
    """

    rule: str
    version: int
    about: str
    source: str
    delay_p95_ms: _Limit
    freezes: _Limit
    fair_share_percent: _Limit


class Picture(StrEnum):
    """The verdict on the frames of a flow group."""

    SMOOTH = "smooth"
    LATE = "late"
    FROZEN = "frozen"
    STARVED = "starved"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class FrameVerdict:
    """The faults that frames of a flow group surely have; without any, that they are smooth or undecided."""

    words: tuple[Picture, ...]
    rule: str

    def __str__(self) -> str:
        return ", ".join(self.words)


@cache
def frame_rule() -> FrameRule:
    """Return the rule for media."""
    return load_model(FILE, FrameRule)


def judge_frames(
    own: Mapping[str, Estimate], share: Estimate | None, fair_percent: float
) -> FrameVerdict | None:
    """Return the verdict on a flow group; None where it reports no frames or has no valid trial.

    Args:
        own: Numbers that its programs reported.
        share: Its goodput in percent of the link's rate, by its packets.
        fair_percent: Its fair share, likewise.
    """
    rule, delay, freezes = frame_rule(), own.get(DELAY), own.get(FREEZES)
    if delay is None or freezes is None or share is None:
        return None
    least = rule.fair_share_percent / 100 * fair_percent
    starved = _surely_above(share, least)
    wrong = {
        Picture.STARVED: None if starved is None else not starved,
        Picture.FROZEN: _surely_above(freezes, rule.freezes),
        Picture.LATE: _surely_above(delay, rule.delay_p95_ms),
    }
    words = tuple(word for word, is_so in wrong.items() if is_so)
    open_ = Picture.UNDECIDED if None in wrong.values() else Picture.SMOOTH
    return FrameVerdict(words or (open_,), f"{rule.rule} v{rule.version}")


def _surely_above(found: Estimate, limit: float) -> bool | None:
    """Return True if the whole interval is above the limit, False if none of it is, None if it straddles."""
    if found.interval is None:
        return None
    low, high = found.interval
    return True if low > limit else False if high <= limit else None
