# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Faults in words and in files, hints on trials that do not count, and the page that says more."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from string import Formatter

import pytest

from l4sbench.facts.faults import PAGE, Fact, Fault, FaultKind, Remedy, advice, stored_fault

ROOT = Path(__file__).parents[4]


def facts_of(kind: FaultKind) -> dict[str, Fact]:
    """Return facts for all that a kind's text states."""
    template = kind.text + (kind.more[1] if kind.more else "")
    named = [(name, spec) for _, name, spec, _ in Formatter().parse(template) if name]
    return {name: 0.5 if spec else "x" for name, spec in named}


def test_every_remedy_has_a_section_and_every_section_a_remedy() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE)
    anchors = [heading.lower().replace(" ", "-") for heading in headings]
    assert anchors == [*(remedy.section for remedy in Remedy), "flags"]
    assert {kind.remedy for kind in FaultKind} == set(Remedy)
    assert Remedy.ECN.text.endswith("(l4sbench docs troubleshooting another-ecn-than-asked)")


def test_the_advice_on_ecn_blames_no_lost_syn() -> None:
    """Hosts of trials ask for ECN again (`l4sbench.program.placement`), so a lost SYN changes nothing."""
    assert "lost" not in Remedy.ECN.hint
    assert "tcp_ecn_fallback` is 0" in (ROOT / PAGE).read_text(encoding="utf-8").replace("\n", " ")


def test_codes_are_distinct() -> None:
    assert len({kind.code for kind in FaultKind}) == len(FaultKind)


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_is_read_as_it_was_written(kind: FaultKind) -> None:
    fault = Fault.of(kind, "l4s-0", **facts_of(kind))
    assert fault.text.startswith("l4s-0: ")
    plain = json.loads(json.dumps(fault.to_json()))
    assert stored_fault(fault.text, plain["kind"], plain["at"], plain["facts"]) == fault


@pytest.mark.parametrize("rate", [math.inf, math.nan])
def test_a_number_that_json_does_not_have_is_in_the_text(rate: float) -> None:
    fault = Fault.of(FaultKind.RATE, "udp-0", mbps=rate, wanted_mbps=12.0)
    plain = json.loads(json.dumps(fault.to_json(), allow_nan=False))
    again = stored_fault(fault.text, plain["kind"], plain["at"], plain["facts"])
    assert again.text == fault.text == f"udp-0: sent {rate:g} Mbit/s, not 12"


def test_what_is_known_beside_a_fault_is_in_its_text() -> None:
    facts: dict[str, Fact] = {"late": 0.09, "limit_ms": 1.0, "most_ms": 12.3}
    text = "router: its host was too busy: 9% of all instants were more than 1 ms late, 12 ms at most"
    assert Fault.of(FaultKind.BUSY, "router", **facts).text == text
    stolen = Fault.of(FaultKind.BUSY, "router", **facts, stolen=0.5)
    assert stolen.text == f"{text}, 50% of its CPU time was stolen"


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("of-tomorrow", {}),
        ("ecn", {}),
        ("busy", {"late": "much", "limit_ms": 1, "most_ms": 2}),
        ("", {}),
    ],
)
def test_of_another_version_s_fault_the_text_is_kept(code: str, facts: dict[str, Fact]) -> None:
    found = stored_fault("it rained; all day", code, "router", facts)
    assert (found.kind, found.text) == (FaultKind.OTHER, "it rained; all day")


def test_a_trial_has_one_hint_per_kind_of_advice() -> None:
    found = advice(
        [
            ("invalid", ["ecn", "ecn"]),
            ("invalid", ["ecn", "busy"]),
            ("failed", ["failed", "busy"]),
            ("invalid", []),
            ("invalid", ["of-tomorrow"]),
        ]
    )
    assert found == {Remedy.ECN: 2, Remedy.BUSY: 1, Remedy.FAILED: 1, Remedy.OTHER: 2}
