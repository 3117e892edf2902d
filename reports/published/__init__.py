# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cell means of published experiments, as data (SOURCE.md), under the names l4sbench uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
from ruamel.yaml import YAML

FOLDER: Final = Path(__file__).parent

QUEUES: Final[Mapping[str, str]] = {
    "FIFO": "fifo",
    "single_queue_FQ": "fifo-ecn",
    "Codel": "codel",
    "Codel_drop": "codel-drop",
    "pie_drop": "pie-drop",
    "FQ": "fq",
    "FQ_Codel": "fq-codel",
    "FQ_Codel_L4S": "fq-codel-l4s",
    "DualPI2": "dualpi2",
}
"""Published name -> value of the factor `aqm`."""

CONGESTION_CONTROLS: Final[Mapping[str, str]] = {
    "prague": "prague",
    "cubic": "cubic",
    "bbrv1": "bbr1",
    "bbrv2": "bbr2",
    "l4s-bbrv2": "l4s-bbr2",
}
"""Published name -> value of the factor `<group>.cc`."""

ECN: Final[Mapping[str, str]] = {"noecn": "off", "ecn": "classic", "ecn_dctcp_rx": "dctcp"}
"""Published name -> value of the factor `classic.ecn`."""

FACTORS: Final = (
    *("l4s.cc", "l4s.fallback", "classic.cc", "classic.ecn", "aqm", "buffer_bdp", "rate_mbps", "rtt_ms"),
)
"""What tells published cells apart, as columns of table `trials`."""


@dataclass(frozen=True)
class Erratum:
    """Something known to be wrong with published cells: those whose factors have the values of `match`.

    `corrected_ok`: whether printed entries with such cells are ok once it is mended; None where nobody
    measured that.
    """

    match: Mapping[str, str]
    text: str
    source: str
    corrected_ok: bool | None = None


def published_cells() -> pl.DataFrame:
    """One row per published cell, with `source`, the columns `FACTORS`, `published_trials` and four means.

    These are `published_l4s_mbps`, `published_classic_mbps` (goodput at the receiver over the whole flow) and
    `published_delay_ms`, `published_classic_delay_ms` (mean smoothed RTT minus base RTT).
    """
    raw = pl.read_csv(FOLDER / "cells.csv", schema_overrides={"ecn_threshold_ms": pl.String})
    names = {
        "tput_l4s": "published_l4s_mbps",
        "tput_classic": "published_classic_mbps",
        "qdelay_l4s": "published_delay_ms",
        "qdelay_classic": "published_classic_delay_ms",
    }
    ours = raw.select(
        "source",
        pl.col("cc_l4s").replace_strict(CONGESTION_CONTROLS).alias("l4s.cc"),
        pl.col("fallback").alias("l4s.fallback"),
        pl.col("cc_classic").replace_strict(CONGESTION_CONTROLS).alias("classic.cc"),
        pl.col("classic_ecn").replace_strict(ECN).alias("classic.ecn"),
        pl.col("aqm").replace_strict(QUEUES),
        pl.col("buffer_bdp").cast(pl.Float64),
        pl.col("rate_mbps").cast(pl.Float64),
        pl.col("base_rtt_ms").cast(pl.Float64).alias("rtt_ms"),
        pl.col("n_trials").cast(pl.Int64).alias("published_trials"),
        pl.col("metric").replace_strict(names).alias("name"),
        "mean",
    )
    index = ["source", *FACTORS, "published_trials"]
    return ours.pivot("name", index=index, values="mean").sort("source", *FACTORS)


def errata() -> tuple[Erratum, ...]:
    """The known errata of published cells."""
    listed = YAML(typ="safe").load((FOLDER / "errata.yml").read_text(encoding="utf-8"))
    return tuple(
        Erratum(
            dict(item["match"]),
            str(item["text"]),
            str(item["source"]),
            item["corrected"] == "ok" if "corrected" in item else None,
        )
        for item in listed["errata"]
    )
