# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a machine lacks for booting nodes is told with the command that mends it."""

from pathlib import Path

import pytest

from l4sbench.testbeds.nodes import checks


def test_programs_that_are_missing_come_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = {check.name: check for check in checks.node_checks() if not check.ok}
    assert "ssh" in missing
    assert missing["ssh"].packages == ("openssh-client",)
    assert "apt-get install" in str(missing["ssh"].mend)
    assert "openssh-client" in str(missing["ssh"].mend)


def test_more_nodes_than_there_is_memory_for_are_refused_with_both_figures() -> None:
    found = {check.name: check for check in checks.node_checks(nodes=1_000_000)}
    if "memory" not in found:
        pytest.skip("programs are missing here, and nothing else was looked at")
    assert not found["memory"].ok
    assert "1000000 nodes need about 192000000" in found["memory"].detail
