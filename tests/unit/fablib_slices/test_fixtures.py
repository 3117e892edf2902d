# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Fixtures of FABRIC's answers keep their form, and none of their secrets."""

from __future__ import annotations

import pytest

from fablib_slices.fixtures import Scrubber

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "me@uni.example.edu, you@uni.edu, me@uni.example.edu",
            "user-1@example.org, user-2@example.org, user-1@example.org",
        ),
        ("inet 198.18.7.9/24, 127.0.0.1", "inet 192.0.2.1/24, 127.0.0.1"),
        ("Linux 7.3.4-1 at 12:34:56", "Linux 7.3.4-1 at 12:34:56"),
        ("fe80::1%eth0 and 2620:0:c80::7", "2001:db8::1%eth0 and 2001:db8::2"),
        ("link/ether 0A:11:22:33:44:55", "link/ether 02:00:00:00:00:01"),
        ("id 123E4567-e89b-12d3-a456-426614174000", "id 00000000-0000-0000-0000-000000000001"),
        ("ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHA= me@laptop", "ecdsa-sha2-nistp256 [removed]"),
        (f"Authorization: Bearer {TOKEN}", "Authorization: Bearer [removed]"),
        ("slice l4s-of-me of project Queues", "slice slice of project project"),
    ],
)
def test_texts(text: str, left: str) -> None:
    assert Scrubber({"l4s-of-me": "slice", "Queues": "project", "me": "no"}).text(text) == left


def test_plain_data_keep_their_structure() -> None:
    scrubber = Scrubber({})
    address = "198.18.0.1"
    found = scrubber.plain({address: [address, 7, None, ("198.18.0.2", True)]})
    assert found == {"192.0.2.1": ["192.0.2.1", 7, None, ["192.0.2.2", True]]}
    # a text about the same machine names it the same
    assert scrubber.text(f"at {address}") == "at 192.0.2.1"
