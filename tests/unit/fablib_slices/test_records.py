# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Records of slices: an inventory that Ansible reads as it was meant."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fablib_slices.access import Access
from fablib_slices.answers import Machine, Slice
from fablib_slices.records import folder, keep_inventory, numbered
from fablib_slices.spec import SliceFile, spec_of
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.topology import topology

DIGITS = "11:22:33:44:55:06"
"""A number to the base 60 for YAML 1.1, unless it is quoted."""


def test_ansible_reads_addresses_of_digits_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    address = "2001:10:11:12:13:14:15:16"
    machine = Machine("router", "router", "STAR", address, "debian", (("net-rx", DIGITS),))
    found = Slice("0f" * 16, "mine", "StableOK", datetime(2026, 1, 1, tzinfo=UTC), None, (machine,), ())
    key = tmp_path / "key"
    access = Access("bastion.example.org", "tester", key, key, Path(f"{key}.pub"))
    (host,) = read_inventory(keep_inventory(found, access)).values()
    assert "l4sbench_kernel" not in host
    assert host["l4sbench_ports"] == {"net-rx": DIGITS}
    assert host["ansible_host"] == address


def test_the_kernel_of_a_slice_is_in_its_inventory_and_no_part_of_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plain = spec_of(topology("line6"), SliceFile(slice="mine"))
    kept = spec_of(topology("line6"), SliceFile(slice="mine", kernel="keep"))
    assert kept.digest == plain.digest
    machine = Machine("router", "router", "STAR", "192.0.2.1", "debian", (("net-rx", DIGITS),))
    found = Slice("0f" * 16, "mine", "StableOK", datetime(2026, 1, 1, tzinfo=UTC), None, (machine,), ())
    key = tmp_path / "key"
    access = Access("bastion.example.org", "tester", key, key, Path(f"{key}.pub"))
    for spec, expected in ((plain, None), (kept, "keep")):
        (host,) = read_inventory(keep_inventory(found, access, spec)).values()
        assert host.get("l4sbench_kernel") == expected


def test_only_names_with_a_number_are_those_of_a_run_with_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("l4s", "l4s-1", "l4s-2", "l4s-ncf", "my-l4s-1"):
        folder(name).mkdir(parents=True)
        (folder(name) / "slice.json").write_text("{}")
    assert numbered("l4s") == ("l4s-1", "l4s-2")
