# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Entries and parameters in words, and the page with all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from l4sbench.catalog import Catalog
from l4sbench.catalog.__main__ import document, factors
from l4sbench.catalog.describe import described, facts
from l4sbench.facts.factors import FACTORS, GROUP_FACTORS

CATALOG = Catalog.load()
DOCS = Path(__file__).parents[4] / "docs"
PAGE = DOCS / "catalog.md"


def test_the_page_is_generated() -> None:
    assert PAGE.read_text(encoding="utf-8") == document()


def test_the_page_of_factors_is_generated_and_whole() -> None:
    text = (DOCS / "factors.md").read_text(encoding="utf-8")
    assert text == factors()
    rows = {*FACTORS, *(f"<group>.{name}" for name in GROUP_FACTORS)}
    assert [name for name in rows if f"\n| `{name}` |" not in text] == []


def test_the_page_has_every_entry_and_parameter() -> None:
    text = PAGE.read_text(encoding="utf-8")
    queues, heading, controls = text.partition("\n## Congestion controls\n")
    assert heading
    for entry in CATALOG.entries:
        kind = queues if entry in CATALOG.queues.values() else controls
        section = kind.partition(f"\n### {entry.name}\n")[2].partition("\n#")[0]
        assert entry.label in section
        assert [name for name in entry.params if f"`{name}`" not in section] == []


@pytest.mark.parametrize("entry", CATALOG.entries, ids=lambda entry: entry.name)
def test_every_entry_has_sources(entry: object) -> None:
    assert entry.sources  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("queue", "param", "kind", "default", "values", "when"),
    [
        (
            *("pie", "target", "duration such as 10ms"),
            *("5ms (the queue's own, 15ms)", "at least 1us", ""),
        ),
        (
            *("codel", "limit", "number of packets such as 42p"),
            *("from buffer_bdp (the queue's own, 1000p)", "at least 1p", ""),
        ),
        (
            *("fq", "flow_limit", "number of packets such as 42p"),
            *("as limit (the queue's own, 100p)", "at least 1p", "form is literal"),
        ),
        ("fq-pie", "ecn_prob", "whole number", "the queue's own, 10", "0 to 100", ""),
        ("fq-pie", "bytemode", "true or false", "false", "", ""),
        ("fq", "form", "word", "robust", "robust or literal", ""),
        ("red", "bandwidth", "rate such as 100mbit", "the rate of the bottleneck", "", ""),
        ("dualpi2", "split_gso", "true or false", "true", "", ""),
        ("cake", "overhead", "whole number", "not set", "-64 to 256", ""),
    ],
)
def test_a_parameter_in_words(
    queue: str, param: str, kind: str, default: str, values: str, when: str
) -> None:
    found = described(CATALOG.queues[queue].params[param], CATALOG.queues[queue])
    assert (found.kind, found.default, found.values, found.when) == (kind, default, values, when)
    assert found.source


def test_factors_in_words() -> None:
    rate, rtt, bdp = (described(FACTORS[name]) for name in ("rate", "rtt", "buffer_bdp"))
    assert (rate.default, rate.values) == ("none, every cell states it", "more than 0, at most 1000gbit")
    assert rtt.meaning.startswith("Round-trip time without queues. A matrix may state measured: ")
    assert (bdp.kind, bdp.default) == ("number", "1")


def test_facts_of_entries() -> None:
    assert dict(facts(CATALOG.queue("dualpi2"))) == {
        "in a matrix": "aqm: dualpi2",
        "family": "dualq (two coupled queues)",
        "marks": "ECT(0) and ECT(1); treats L4S apart",
        "buffer_bdp sets": "aqm.limit; aqm.limit: default leaves it at its own, 10000 packets",
        "needs": "Linux 6.17, CONFIG_NET_SCH_DUALPI2, iproute2 6.18",
    }
    assert dict(facts(CATALOG.congestion_control("reno"))) == {
        "in a matrix": "<group>.cc: reno",
        "L4S": "no",
        "ECN": "off, classic, accecn; default off; reacts to marks with classic, accecn",
    }
