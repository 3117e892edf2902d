# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Collectors: raw files of a trial -> rows of tables. One module per raw source, and three for captures.

`collectors.validity.judge` checks that a trial's apparatus did what its cell asks for, and
`collectors.assemble.collect` writes the tables of a run.
"""

from collectors.accecn import parse_accecn, parse_codepoints
from collectors.changes import parse_events
from collectors.collector import BadRawError, Collector
from collectors.hostinfo import parse_hosts
from collectors.kinds import READERS
from collectors.lateness import parse_lateness
from collectors.packetflows import parse_packet_flows
from collectors.packets import parse_packets
from collectors.queues import parse_queues, parse_tc
from collectors.sockets import parse_sockets, parse_ss_text
from collectors.traffic import parse_flows, parse_intervals, parse_requests
from collectors.trials import parse_programs, parse_trials

COLLECTORS: tuple[Collector, ...] = (
    Collector("trial", "trials", parse_trials),
    Collector("program", "programs", parse_programs),
    Collector("hostinfo", "hosts", parse_hosts),
    Collector("lateness", "lateness", parse_lateness),
    Collector("changes", "events", parse_events),
    Collector("traffic", "flows", parse_flows),
    Collector("traffic", "intervals", parse_intervals),
    Collector("traffic", "requests", parse_requests),
    *(collector for reader in READERS.values() for collector in reader.collectors),
    Collector("netlink", "sockets", parse_sockets),
    Collector("ss", "sockets", parse_ss_text),
    Collector("netlink", "queues", parse_queues),
    Collector("tc", "queues", parse_tc),
    Collector("packets", "packets", parse_packets),
    Collector("packets", "packet_flows", parse_packet_flows),
    Collector("packets", "codepoints", parse_codepoints),
    Collector("packets", "accecn", parse_accecn),
)
"""Every collector. Several may feed one table; at most one of these finds files in a given trial."""

__all__ = ["COLLECTORS", "BadRawError", "Collector"]
