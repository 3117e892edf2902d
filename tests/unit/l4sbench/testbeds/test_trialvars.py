# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Variables that a playbook gets for one trial."""

from dataclasses import replace

import pytest

from l4sbench.app.api import find_matrix, programs_of
from l4sbench.errors import InputError
from l4sbench.program.data import Command
from l4sbench.testbeds.ssh.trialvars import trial_variables
from tests.patience import PATIENCE_S


def test_a_trial_has_the_programs_of_all_nodes_and_a_place_to_meet() -> None:
    _, topology, programs = programs_of(find_matrix("quickstart"), ["aqm=dualpi2"])
    given = trial_variables(programs, topology, "t", "o", PATIENCE_S)
    assert given["l4sbench_meet"] == "10.0.5.1"
    assert given["l4sbench_programs"] == {node: program.to_json() for node, program in programs.items()}


def test_no_text_of_a_program_is_a_template_to_ansible() -> None:
    _, topology, programs = programs_of(find_matrix("quickstart"))
    evil = Command(("tc", "{{ lookup('pipe', 'id') }}"))
    wrong = {**programs, "router": replace(programs["router"], setup=(evil,))}
    with pytest.raises(InputError, match="takes it for a template"):
        trial_variables(wrong, topology, "t", "o", PATIENCE_S)
