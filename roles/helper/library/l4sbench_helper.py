# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Documentation of the action of the same name; nothing here runs on a host."""

DOCUMENTATION = """
module: l4sbench_helper
short_description: Apply the programs of a host's nodes
description:
  - Runs the helper on a host, putting it there first where it is not.
  - C(trial) launches a host's part of a trial detached, asks until it has ended, over a new connection where
    one drops, and brings the results, whose checksum must be what the host says.
options:
  command:
    description: What to do.
    type: str
    required: true
    choices: [facts, wiring, tuning, bottleneck, files, trial, fetch, stop, trials, teardown]
  part:
    description: The host's part of a trial, for C(wiring), C(tuning), C(bottleneck) and C(trial).
    type: dict
  asked:
    description: For C(facts), names of kernel symbols (C(config)), C(modules) and C(ccs).
    type: dict
  trial:
    description: Id of a trial, for C(fetch) and C(stop).
    type: str
  results:
    description: File on the controller that C(trial) and C(fetch) write.
    type: path
  source:
    description: Folder on the controller whose files C(files) copies.
    type: path
  folder:
    description: Folder on the host that gets them.
    type: path
author: The l4sbench authors (@l4sbench)
"""
