# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Documentation of the action of the same name; nothing here runs on a host."""

DOCUMENTATION = """
module: l4sbench_helper
short_description: Apply the programs of a host's nodes
description:
  - Runs the helper on a host, after copying it there if it is missing.
  - C(trial) launches a host's part of a trial detached, waits until it has ended, reconnecting when the
    connection drops, and fetches the results, whose checksum must be the host's.
options:
  command:
    description: The command.
    type: str
    required: true
    choices: [echo, facts, wiring, tuning, bottleneck, files, trial, fetch, stop, trials, pauses, teardown]
  part:
    description: The host's part of a trial, for C(wiring), C(tuning), C(bottleneck), C(echo) and C(trial).
    type: dict
  asked:
    description: For C(facts), names of kernel symbols (C(config)), C(modules) and C(ccs).
    type: dict
  trial:
    description: Id of a trial, for C(fetch) and C(stop).
    type: str
  seconds:
    description: How long C(pauses) measures.
    type: float
  results:
    description: File on the controller that C(trial) and C(fetch) write.
    type: path
  source:
    description: Folder on the controller whose files C(files) copies.
    type: path
  texts:
    description: Contents, by path, that C(files) writes in place of those of the source.
    type: dict
  folder:
    description: Destination folder on the host.
    type: path
author: The l4sbench authors (@l4sbench)
"""
