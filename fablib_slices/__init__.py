# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""FABRIC slices: from a topology and a few options to an Ansible inventory of running machines.

Only this package imports fablib, and only when a function needs it: importing fablib takes seconds and makes
folders in the home directory. The package reserves, watches, renews and removes slices; all work on machines
goes through ssh (`l4sbench.testbeds.ssh`), as on any other hosts.

    spec = spec_of(topology("line6"), SliceFile(slice="l4s", site="STAR"))
    slices = Slices.connect()
    problems = preflight(spec, slices.facts(), run_s=3600)
    found = slices.up(spec)
    hosts = inventory(found, slices.access, known_hosts=Path("known_hosts"))
"""

from fablib_slices.access import Access, inventory
from fablib_slices.actions import Slot
from fablib_slices.answers import Machine, Slice
from fablib_slices.checks import FabricFacts, preflight
from fablib_slices.graph import offered_nics, size_of, slice_graph
from fablib_slices.images import known_images
from fablib_slices.room import Site, SiteHost
from fablib_slices.slices import Renewal, Slices
from fablib_slices.spec import (
    NetSpec,
    PortSpec,
    SliceFile,
    SliceSpec,
    SwitchSpec,
    VmSpec,
    load_slice_file,
    slice_file,
    spec_of,
)

__all__ = [
    "Access",
    "FabricFacts",
    "Machine",
    "NetSpec",
    "PortSpec",
    "Renewal",
    "Site",
    "SiteHost",
    "Slice",
    "SliceFile",
    "SliceSpec",
    "Slices",
    "Slot",
    "SwitchSpec",
    "VmSpec",
    "inventory",
    "known_images",
    "load_slice_file",
    "offered_nics",
    "preflight",
    "size_of",
    "slice_file",
    "slice_graph",
    "spec_of",
]
