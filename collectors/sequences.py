# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures -> sequence numbers of TCP packets as they arrived at the queue, for plots.

They are in no table: a plot of one trial needs them, and the captures have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.collector import BadRawError, unreadable
from collectors.packets import CE, read_packets, wrapped
from collectors.pcap import TCP

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from l4sbench.program import Program

_SEQUENCE_BITS: Final = 32
_OF_CONNECTION: Final = ("flow", "src_port", "connection")


def read_sequences(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame | None:
    """Return the TCP packets with payload that arrived at the queue; None when the trial has no captures.

    Columns are `flow`, `group`, `t_ms`, `retransmit`, `lost` and `marked` as in table `packets`, and
    `begin_bytes`, the sequence number minus that of the connection's first packet. Rows are sorted by flow
    and arrival.

    Raises:
        BadRawError: a capture is missing or cannot be read.
    """
    try:
        capture = read_packets(programs, raw)
        return None if capture is None else _sequences(capture.data)
    except BadRawError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # captures come from elsewhere
        raise unreadable("the captures", error) from error


def _sequences(data: pl.DataFrame) -> pl.DataFrame:
    # numbers go on from 0 where they wrap; no packet is half of their range from the one before
    steps = wrapped(pl.col("seq").cast(pl.Int64).diff().fill_null(0), _SEQUENCE_BITS)
    return data.filter((pl.col("protocol") == TCP) & (pl.col("payload_bytes") > 0)).select(
        "flow",
        "group",
        "t_ms",
        steps.cum_sum().over(_OF_CONNECTION).alias("begin_bytes"),
        "retransmit",
        "lost",
        ((pl.col("ecn_out") == CE) & (pl.col("ecn") != CE)).fill_null(value=False).alias("marked"),
    )
