# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""How the ssh testbed takes what hosts answer about a trial."""

import threading
from pathlib import Path

import pytest

from l4sbench.app.api import load_matrix
from l4sbench.errors import TrialFailed
from l4sbench.program import programs
from l4sbench.program.trial import TrialSpec, draw_conditions
from l4sbench.testbeds.ssh import SshTestbed, ansible
from l4sbench.testbeds.ssh.testbed import TRAITS
from tests.unit.l4sbench.testbeds.test_ssh_stages import LINE6, NEW, asked, inventory, remember

LATE = "rx-l4s: received the start instant after it had passed: the network or the host is too slow"


@pytest.mark.parametrize(
    ("answers", "limit_s", "tries", "reason"),
    [
        ({"rx-l4s": {"missed": True}, "delay": {}}, 600.0, 3, f"rx-l4s: {LATE}"),
        ({"rx-l4s": {"missed": True}}, 1e-9, 1, f"rx-l4s: {LATE}"),
        ({"rx-l4s": {"missed": False, "secondary": True}, "tx-l4s": {}}, 600.0, 1, f"tx-l4s: {LATE}"),
        ({"rx-l4s": {"missed": True}, "delay": {"state": "lost"}}, 600.0, 1, f"delay: {LATE}"),
    ],
    ids=["missed", "no time for another", "something else", "a host is lost"],
)
def test_a_trial_whose_start_was_missed_begins_anew(
    answers: dict[str, dict[str, object]],
    limit_s: float,
    tries: int,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matrix = load_matrix("quickstart").select(["aqm=fifo"])
    cell = matrix.cells[0]
    testbed = SshTestbed(
        inventory(tmp_path, None), matrix.catalog, matrix.cells, contact=False, cache=tmp_path
    )
    remember(tmp_path, asked(NEW))
    testbed.identity()
    raw = tmp_path / "raw"
    raw.mkdir()
    left: list[int] = []

    def play(*_: object, **__: object) -> ansible.Played:
        left.append(len(list(raw.iterdir())))
        (raw / "router").mkdir()
        (raw / "start.json").write_text("{}")
        return ansible.Played(
            "failed", {h: ansible.HostOutcome("failed", LATE, a) for h, a in answers.items()}, ""
        )

    monkeypatch.setattr(ansible, "play", play)
    made = programs(cell, LINE6, matrix.catalog, draw_conditions(cell, 1, TRAITS))
    spec = TrialSpec(cell, 1, 1, made, LINE6, "digest", limit_s)
    with pytest.raises(TrialFailed) as caught:
        testbed.run(spec, raw, threading.Event())
    assert caught.value.reason == reason
    assert left == [0] * tries
