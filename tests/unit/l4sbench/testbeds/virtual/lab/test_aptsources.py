# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Sources files as they stand on real machines, host names aside."""

from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab.aptsources import AptSource, Archive, debian_archives, read_sources

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

CONTAINER = """\
Types: deb
# http://snapshot.mirror.example/archive/debian/20250520T000000Z
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
# http://snapshot.mirror.example/archive/debian-security/20250520T000000Z
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

CLOUD = """\
Types: deb deb-src
URIs: mirror+file:///etc/apt/mirrors/debian.list
Suites: trixie trixie-updates trixie-backports
Components: main

Types: deb deb-src
URIs: mirror+file:///etc/apt/mirrors/debian-security.list
Suites: trixie-security
Components: main
"""

INSTALLER = """\
# deb cdrom:[Debian GNU/Linux 12.5.0 _Bookworm_ - Official amd64 NETINST]/ bookworm main
deb cdrom:[Debian GNU/Linux 12.5.0 _Bookworm_]/ bookworm main

deb http://ftp.mirror.example/debian/ bookworm main non-free-firmware
deb-src http://ftp.mirror.example/debian/ bookworm main non-free-firmware
deb http://security.mirror.example/debian-security bookworm-security main # security
"""

OTHERS_ONE_LINE = """\
deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://docker.example/linux/debian bookworm stable
deb [ signed-by=/usr/share/keyrings/hashicorp.gpg ] https://hashicorp.example bookworm main
"""

INLINE_KEY = """\
X-Repolib-Name: a mirror of our own
Types: deb
URIs: https://mirror.example/own/debian https://second.example/debian
Suites: trixie
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEZ0rbYhYJKwYBBAHaRw8BAQdA
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: https://off.example/debian
Suites: sid
Components: main

Types: deb
URIs: https://node.example/node_20.x
Suites: nodistro
Components: main
"""


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def put(etc: Path, name: str, text: str) -> None:
    (etc / name).write_text(text, encoding="utf-8")


def test_a_containers_sources_give_one_archive_with_its_keyring(etc: Path) -> None:
    put(etc, "sources.list.d/debian.sources", CONTAINER)
    assert debian_archives(read_sources(etc)) == (
        Archive("http://mirror.example/debian", (("Signed-By", KEYRING),), ("bookworm", "bookworm-updates")),
    )


def test_a_cloud_images_mirror_list_is_passed_on_as_it_is(etc: Path) -> None:
    put(etc, "sources.list.d/debian.sources", CLOUD)
    (archive,) = debian_archives(read_sources(etc))
    assert archive.uri == "mirror+file:///etc/apt/mirrors/debian.list"
    assert archive.suites == ("trixie", "trixie-updates", "trixie-backports")


def test_the_installers_lines_leave_out_discs_sources_and_comments(etc: Path) -> None:
    put(etc, "sources.list", INSTALLER)
    assert read_sources(etc) == (
        AptSource("http://ftp.mirror.example/debian/", "bookworm", ("main", "non-free-firmware"), ()),
        AptSource("http://security.mirror.example/debian-security", "bookworm-security", ("main",), ()),
    )
    assert [archive.uri for archive in debian_archives(read_sources(etc))] == [
        "http://ftp.mirror.example/debian/"
    ]


def test_third_parties_come_last_or_not_at_all(etc: Path) -> None:
    put(etc, "sources.list.d/00-others.list", OTHERS_ONE_LINE)
    put(etc, "sources.list.d/debian.sources", CONTAINER)
    archives = debian_archives(read_sources(etc))
    assert [archive.uri for archive in archives] == [
        "http://mirror.example/debian",
        "https://hashicorp.example",
    ]
    assert archives[1].trust == (("Signed-By", "/usr/share/keyrings/hashicorp.gpg"),)


def test_inline_keys_survive_and_what_is_disabled_does_not(etc: Path) -> None:
    put(etc, "sources.list.d/own.sources", INLINE_KEY)
    archives = debian_archives(read_sources(etc))
    assert [archive.uri for archive in archives] == [
        "https://mirror.example/own/debian",
        "https://second.example/debian",
    ]
    stanza = archives[0].stanza("sid")
    put(etc, "sources.list.d/own.sources", stanza)
    (again,) = read_sources(etc)
    assert again.suite == "sid"
    assert again.trust == archives[0].trust
    assert "BEGIN PGP" in dict(again.trust)["Signed-By"]


def test_an_empty_stanza_and_files_of_other_kinds_are_no_sources(etc: Path) -> None:
    put(etc, "sources.list.d/debian.sources", "\n\n# nothing here\n\n")
    put(etc, "sources.list.d/debian.sources.save", CONTAINER)
    assert read_sources(etc) == ()
    assert read_sources(etc / "missing") == ()
