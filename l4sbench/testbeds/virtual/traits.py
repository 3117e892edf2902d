# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The traits of the virtual testbed, which plans need without the testbed itself."""

from __future__ import annotations

from typing import Final

from l4sbench.facts.traits import CostModel, TestbedTraits

MEMORY_MB: Final = 512
"""Memory of a guest whose cell needs no more. The host provides only the pages that the guest touches."""

TRAITS: Final = TestbedTraits(
    default_traffic="lean",
    wires=True,
    parallel=True,
    cost=CostModel(fixed_s=1.0, per_virtual_s=0.002, per_mbit_s=0.0003, spread=0.7),
    processor_bound=True,
    memory_mb=MEMORY_MB,
)
