# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The kernel package for hosts: builds of equal inputs are equal to the byte, and have what hosts need.

A small configuration stands for Debian's, with which a build takes an hour (test_emulated.py boots that one).
"""

import re
from pathlib import Path

import pytest

from l4sbench.testbeds.ssh.ownkernel import RELEASE, KernelPackage, build
from l4sbench.testbeds.virtual.lab.aptsources import debian_archives, read_sources
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.source import Source, chosen
from tests.patience import ran

pytestmark = [pytest.mark.lab, pytest.mark.long]

BASE = """\
CONFIG_64BIT=y
CONFIG_MODULES=y
CONFIG_NET=y
CONFIG_INET=y
CONFIG_NET_SCHED=y
CONFIG_NETDEVICES=y
CONFIG_ETHERNET=y
CONFIG_PCI=y
CONFIG_PCI_MSI=y
CONFIG_DEVTMPFS=y
CONFIG_DEBUG_KERNEL=y
CONFIG_PTP_1588_CLOCK=y
CONFIG_BLOCK=y
CONFIG_VIRTIO_MENU=y
CONFIG_VIRTIO_PCI=y
CONFIG_TCP_CONG_ADVANCED=y
# CONFIG_DRM is not set
# CONFIG_SOUND is not set
# CONFIG_USB_SUPPORT is not set
# CONFIG_WIRELESS is not set
# CONFIG_WLAN is not set
"""


@pytest.fixture(scope="module")
def source() -> Source:
    return chosen(Cache.open(), None, None, lambda: debian_archives(read_sources()), lambda *_: None)


def _built(source: Source, folder: Path, jobs: int) -> KernelPackage:
    """Build the packages in a cache of their own."""
    folder.mkdir()
    (base := folder / "config").write_text(BASE)
    return build(Cache(folder), source, base, jobs, lambda *_: None)


def _contents(package: Path) -> str:
    return ran(["dpkg-deb", "--contents", str(package)], check=True).stdout


def test_equal_inputs_give_equal_packages(source: Source, tmp_path: Path) -> None:
    first, again = _built(source, tmp_path / "first", 2), _built(source, tmp_path / "elsewhere", 3)
    assert first.note == again.note
    release = first.note.release
    assert re.fullmatch(rf"7\.\d+(\.\d+)?-{RELEASE}", release)
    names = [file.name.partition("_")[0] for file in first.note.files]
    assert names == [f"linux-headers-{release}", f"linux-image-{release}"]
    headers, image = map(_contents, first.files)
    assert f"/boot/vmlinuz-{release}" in image
    for module in ("sch_dualpi2", "sch_plug", "tcp_bbr", "ice"):
        assert f"/{module}.ko" in image
    # DKMS builds modules against these
    assert f"/usr/src/linux-headers-{release}/Module.symvers" in headers
    assert f"/usr/src/linux-headers-{release}/scripts/mod/modpost" in headers
