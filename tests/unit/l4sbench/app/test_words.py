# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Every name has an explanation."""

from __future__ import annotations

import pytest

from l4sbench.app.words import explain
from l4sbench.catalog import Catalog
from l4sbench.facts.factors import FACTORS, GROUP_FACTORS
from l4sbench.matrix.naming import SETTINGS

CATALOG = Catalog.load()
NAMES = {
    "entries": [entry.name for entry in CATALOG.entries],
    "labels": [entry.label for entry in CATALOG.entries],
    "parameters of queues": [f"aqm.{name}" for queue in CATALOG.queues.values() for name in queue.params],
    "parameters of groups": [
        f"g.{name}" for cc in CATALOG.congestion_controls.values() for name in cc.params
    ],
    "factors": [*FACTORS, *(f"g.{name}" for name in GROUP_FACTORS)],
    "keys": list(SETTINGS),
    "others": ["pam25", "quickstart", "line6", "web-search", "regret"],
}


@pytest.mark.parametrize("kind", NAMES)
def test_every_name_has_an_explanation(kind: str) -> None:
    for name in dict.fromkeys(NAMES[kind]):
        words = explain(name, CATALOG)
        assert words, name
        assert all(word.about for word in words), name
        if kind not in ("keys", "others"):
            assert all(dict(word.facts)["source"] for word in words), name
