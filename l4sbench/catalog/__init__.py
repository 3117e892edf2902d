# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The queues and congestion controls on offer. Each is data: a folder with a `module.yml`.

    catalog = Catalog.load()                     # kernels/ and p4/ of l4sbench itself
    catalog = Catalog.load([Path("~/mine")])     # and more folders of the same kind
    catalog.queue("codel").params["target"].parse("5ms")

A parameter says by `when` with which values of its siblings it applies: see `Queue.applicable`.
"""

from __future__ import annotations

from l4sbench.catalog.catalog import Catalog
from l4sbench.catalog.entries import (
    ECN_MODES,
    CongestionControl,
    EcnMode,
    Expectation,
    KernelModule,
    Needs,
    Param,
    Queue,
    Setting,
)

__all__ = [
    "ECN_MODES",
    "Catalog",
    "CongestionControl",
    "EcnMode",
    "Expectation",
    "KernelModule",
    "Needs",
    "Param",
    "Queue",
    "Setting",
]
