# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Documentation of the action of the same name; nothing here runs on a switch."""

DOCUMENTATION = """
module: tofino_step
short_description: Run a step of a P4 program's life on a switch
description:
  - Runs a step of roles/tofino/files/switch.py where the SDE is, and takes what it answers.
options:
  step:
    description: The step.
    type: str
    required: true
    choices: [put, build, load, control, begin, results, end]
  enter:
    description: Words before the command, which run it where the SDE is; they must pass stdin on.
    type: list
    elements: str
  folder:
    description: Folder of the program's files, where the SDE is.
    type: str
    required: true
  files:
    description: For C(put), files by name, in base64.
    type: dict
  words:
    description: For C(results), the node's name, and the first and last instant in ns since 1970.
    type: list
    elements: str
  results:
    description: File on the controller that C(results) writes.
    type: path
author: The l4sbench authors (@l4sbench)
"""
