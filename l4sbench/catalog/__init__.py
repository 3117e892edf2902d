# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The available queues and congestion controls. Each is data: a folder with a `module.yml`.

    catalog = Catalog.load()                     # kernels/ of l4sbench itself
    catalog = Catalog.load([Path("~/mine")])     # and more folders of the same kind
    catalog.queue("codel").params["target"].parse("5ms")

`Parameter.when` lists the values of siblings with which a parameter applies; see `Queue.applicable`.
"""

from __future__ import annotations

from l4sbench.catalog.catalog import Catalog, linux_name
from l4sbench.catalog.entries import (
    ECN_MODES,
    Bottleneck,
    CatalogEntry,
    CongestionControl,
    EcnMode,
    Expectation,
    KernelModule,
    KernelNeeds,
    Queue,
)
from l4sbench.catalog.exports import Column, Exports

__all__ = [
    "ECN_MODES",
    "Bottleneck",
    "Catalog",
    "CatalogEntry",
    "Column",
    "CongestionControl",
    "EcnMode",
    "Expectation",
    "Exports",
    "KernelModule",
    "KernelNeeds",
    "Queue",
    "linux_name",
]
