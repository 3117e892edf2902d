# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs for switches: each is one folder, and states what its control part takes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.catalog import Catalog
from l4sbench.catalog.switches import switch_programs
from l4sbench.disk import assets
from l4sbench.errors import InputError
from l4sbench.testbeds.ssh.hosts import Host, hosts_of
from l4sbench.testbeds.ssh.switches import Switch, switch_config
from l4sbench.topology import topology
from tests.unit.l4sbench.testbeds.inventories import hosts_for

ROOT = Path(__file__).parents[4]

LINE6 = topology("line6")
SWITCH = Switch.model_validate(
    {
        "node": "router",
        "ports": {
            "net-mid": {"port": 1, "mac": "02:00:00:00:00:01"},
            "net-rx": {"port": 2, "mac": "02:00:00:00:00:02"},
        },
    }
)
MATRIX = """\
matrix: mine
rate: 50mbit
rtt: 20ms
duration: 5s
aqm: ncf
flows: {l4s: {cc: prague}, classic: {cc: cubic}}
"""


def hosts() -> tuple[Host, ...]:
    """A host for each node but the router."""
    others = hosts_for(LINE6, "host-")
    del others[f"host-{SWITCH.node}"]
    return hosts_of(others, "hosts.yml")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of our programs for switches, which is read in their place."""
    for name in ("kernels", "matrices"):
        (tmp_path / name).symlink_to(ROOT / name)
    folder = shutil.copytree(ROOT / "p4", tmp_path / "p4")
    monkeypatch.setattr(assets, "root", lambda: tmp_path)
    switch_programs.cache_clear()
    yield folder
    switch_programs.cache_clear()


def test_ours_share_a_buffer() -> None:
    (ncf,) = switch_programs().values()
    values = {"mice_share": 20, "mice_threshold": 50, "elephants_threshold": 75}
    assert ncf.queue_cells(250_000, values) == (625, 2500)
    # two cells of 80 bytes, in percent of 250,000 bytes and of a fifth and four fifths of them
    within = {"mice_share": 0.064, "mice_threshold": 0.32, "elephants_threshold": 0.08}
    assert ncf.within(250_000, values) == pytest.approx(within)


def test_a_program_is_one_folder(programs: Path, tmp_path: Path) -> None:
    """Its control part is given the parameters that it takes, by their names."""
    text = (programs / "ncf/module.yml").read_text(encoding="utf-8")
    assert "  rho: {minimum: 0, maximum: 254}" in text
    changed = text.replace("  rho: {minimum: 0, maximum: 254}", "  gap: {minimum: 1, maximum: 9, of: port}")
    (programs / "ncf/module.yml").write_text(changed.replace(", gap: 16", ""), encoding="utf-8")
    wanted = tmp_path / "mine.yaml"
    wanted.write_text(f"{MATRIX}aqm.gap: 7\n", encoding="utf-8")
    (cell,) = api.load_matrix(wanted).cells
    config = switch_config(cell, LINE6, Catalog.load(), SWITCH, hosts())
    assert "rho" not in config
    assert [port.get("gap") for port in config["ports"]] == [None, 7]  # type: ignore[attr-defined]


def test_a_switch_is_not_configured_for_a_cell_that_it_cannot_run(tmp_path: Path) -> None:
    wanted = tmp_path / "mine.yaml"
    wanted.write_text(f"{MATRIX}family: ipv6\n", encoding="utf-8")
    (cell,) = api.load_matrix(wanted).cells
    with pytest.raises(InputError) as raised:
        switch_config(cell, LINE6, Catalog.load(), SWITCH, hosts())
    message = f"{cell.id}: the program on a switch is for IPv4 only, not for IPv6; write family: ipv4"
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: ncf", "name: other", "the folder is named ncf"),
        ("percent_of: rest", "percent_of: rho", "choose from buffer, mice_share, rest"),
        ("cell_bytes: 80", "cell_bytes: 0", "cell_bytes"),
        ("lacks:", "lack:", "lack"),
    ],
)
def test_what_no_program_states_is_refused_with_its_place(
    programs: Path, old: str, new: str, message: str
) -> None:
    file = programs / "ncf/module.yml"
    file.write_text(file.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=rf"module\.yml:\d+:\d+: .*{message}"):
        switch_programs()
