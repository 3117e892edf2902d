# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Hints on trials that do not count, and the page that says more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from l4sbench.remedies import OF_FAILED, PAGE, REMEDIES, advice, remedy

ROOT = Path(__file__).parents[3]


def test_every_remedy_has_a_section_and_every_section_a_remedy() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE)
    anchors = [heading.lower().replace(" ", "-") for heading in headings]
    assert anchors == [*(found.section for found in (*REMEDIES, OF_FAILED)), "flags"]


def test_a_trial_has_one_hint_per_reason() -> None:
    ecn = "classic-0: the sender negotiated ECN off, not classic"
    both = "classic-0: the receiver negotiated ECN off, not classic"
    late = "router: its host was too busy: 9% of all instants were more than 1 ms late, 12 ms at most"
    trials = [f"{ecn}; {both}", f"{ecn}; {late}"]
    found = advice(
        [*(("invalid", reasons) for reasons in trials), ("failed", f"hosts are not ready; {late}")]
    )
    assert {own.section: trials for own, trials in found.items()} == {
        "another-ecn-than-asked": 2,
        "host-too-busy": 1,
        "a-trial-that-failed": 1,
    }
    assert remedy(ecn).text.endswith("(l4sbench docs troubleshooting another-ecn-than-asked)")


@pytest.mark.parametrize(
    ("reason", "section"),
    [
        ("router: no file has figures of the queue at net-rx", "raw-files-missing-or-damaged"),
        ("rx-l4s/net-rx.pcap.gz is not a regular file", "raw-files-missing-or-damaged"),
        ("l4s-0: the sender's result iperf3: unable to connect", "a-flow-that-ended-early"),
        ("router: tc-net-rx.json was not captured", "incomplete-captures"),
        ("delay: sysctls-net-mid was not read back", "not-set-up-as-asked"),
        ("router: dualpi2: target is 2000, not 1000 (after slower)", "not-set-up-as-asked"),
        ("udp-0: sent 812.3 Mbit/s, not 900", "another-rate-than-asked"),
        ("flood-0: 812 of 9000 connections found no free port", "another-rate-than-asked"),
        ("a reason that nobody thought of", "other-reasons"),
    ],
)
def test_reasons_lead_to_their_sections(reason: str, section: str) -> None:
    assert remedy(reason).section == section
