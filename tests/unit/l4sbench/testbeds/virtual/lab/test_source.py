# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kernel sources, from a real apt on a small archive of files."""

import hashlib
import shutil
import socket
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.aptsources import Archive
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.scratchapt import ScratchApt
from l4sbench.testbeds.virtual.lab.source import (
    cached,
    fetch,
    fetch_kernel_org,
    from_tarball,
    from_tree,
    version_key,
)
from tests.patience import PATIENCE_S

needs_apt = pytest.mark.skipif(
    not shutil.which("apt-get") or not shutil.which("dpkg-deb"), reason="no apt on this machine"
)


def say(message: str, fraction: float | None) -> None:
    pass


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache.open(tmp_path / "cache")


def make_tarball(path: Path) -> Path:
    makefile = path.parent / "Makefile"
    makefile.write_text("VERSION = 7\n")
    with tarfile.open(path, "w:xz") as tar:
        tar.add(makefile, "linux-7/Makefile")
    return path


def make_archive(root: Path, packages: dict[str, list[tuple[str, str, str]]]) -> Archive:
    """An archive as apt reads it: by suite, packages of name, version and dependencies."""
    for suite, offered in packages.items():
        index = []
        for name, version, depends in offered:
            work = root / "work" / name
            shutil.rmtree(work, ignore_errors=True)
            (work / "usr" / "src").mkdir(parents=True)
            make_tarball(work / "usr" / "src" / f"{name}.tar.xz")
            (work / "DEBIAN").mkdir()
            control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: n <n@a.example>\n"
            control += f"Depends: {depends}\n" if depends else ""
            control += "Description: x\n"
            (work / "DEBIAN" / "control").write_text(control)
            deb = root / "pool" / suite / f"{name}_{version.replace(':', '%3a')}_all.deb"
            deb.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                ["dpkg-deb", "--build", work, deb], check=True, capture_output=True, timeout=PATIENCE_S
            )
            digest = hashlib.sha256(deb.read_bytes()).hexdigest()
            where = f"Filename: {deb.relative_to(root)}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
            index.append(control + where)
        packages_file = root / "dists" / suite / "main" / "binary-amd64" / "Packages"
        packages_file.parent.mkdir(parents=True)
        packages_file.write_text("\n".join(index))
        digest = hashlib.sha256(packages_file.read_bytes()).hexdigest()
        (root / "dists" / suite / "Release").write_text(
            f"Origin: Test\nSuite: {suite}\nCodename: {suite}\nArchitectures: amd64 all\nComponents: main\n"
            f"Date: Sat, 01 Jan 2022 00:00:00 UTC\nValid-Until: Sat, 08 Jan 2022 00:00:00 UTC\n"
            f"SHA256:\n {digest} {packages_file.stat().st_size} main/binary-amd64/Packages\n"
        )
    return Archive(f"file://{root}", (("Trusted", "yes"),), ("bookworm", "bookworm-updates"))


@pytest.mark.parametrize(
    ("older", "newer"),
    [("7.3.4-1~bpo13+1", "7.10.1-1"), ("7.3", "7.3.1-1"), ("1:7.3.9", "8.0"), ("6.99", "7.0~rc1")],
)
def test_versions_order_by_number(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


@needs_apt
def test_the_newest_packaged_source_wins_whatever_suite_has_it(cache: Cache, tmp_path: Path) -> None:
    archive = make_archive(
        tmp_path / "archive",
        {
            "bookworm": [("linux-source-6.1", "6.1.170-1", "")],
            "trixie-backports": [("linux-source-7.2", "7.2.12-1", ""), ("linux-source-7.10", "7.10.1-1", "")],
            "sid": [("linux-source-7.9", "7.9.13-1", ""), ("linux-source", "7.9.13-1", "linux-source-7.9")],
        },
    )
    source = fetch(cache, (archive,), say)
    assert source.description == "linux-source-7.10 7.10.1-1"
    with tarfile.open(source.path) as tar:
        assert tar.getnames() == ["linux-7/Makefile"]
    assert cached(cache) == source
    assert sorted(path.name for path in source.path.parent.iterdir()) == [
        "info.json",
        "linux-source-7.10.tar.xz",
    ]


@needs_apt
def test_when_no_suite_has_one_every_try_is_told(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("l4sbench.testbeds.virtual.lab.source.KERNEL_ORG", "http://127.0.0.1:9")
    archive = make_archive(tmp_path / "archive", {"bookworm": [("linux-source-6.1", "6.1.170-1", "")]})
    with pytest.raises(TestbedError) as caught:
        fetch(cache, (archive,), say)
    message = str(caught.value)
    assert "bookworm at file:" in message
    assert "no linux-source-7.0 or later" in message
    assert "trixie-backports at file:" in message
    assert "kernel.org" in message
    assert "--tarball FILE" in message


@needs_apt
def test_packages_come_with_what_they_depend_on_and_expired_lists_do_for_a_lagging_mirror(
    tmp_path: Path,
) -> None:
    archive = make_archive(
        tmp_path / "archive",
        {"forky": [("tool", "1:2.0-1", "library (>= 1)"), ("library", "1.5", ""), ("other", "1", "")]},
    )
    apt = ScratchApt.open(tmp_path / "apt", archive, "forky", tmp_path / "log")
    for _ in range(2):  # what is downloaded already must not change the answer
        found = apt.resolve(("tool",))
        versions = {package.name: package.version for package in found}
        assert versions == {"library": "1.5", "tool": "1:2.0-1"}
        assert all(len(package.digest) > 32 for package in found)
        assert len(apt.download(found, tmp_path)) == 2
    with pytest.raises(TestbedError, match="Unable to locate package absent"):
        apt.resolve(("absent",))


@needs_apt
def test_an_archive_without_trust_is_refused(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "archive", {"forky": [("tool", "1", "")]})
    with pytest.raises(TestbedError, match="not signed"):
        ScratchApt.open(tmp_path / "apt", Archive(archive.uri, (), archive.suites), "forky", tmp_path / "log")


def test_kernel_org_gives_its_newest_when_the_checksum_is_right(cache: Cache, tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.mkdir()
    newest = make_tarball(server / "linux-7.10.2.tar.xz")
    digest = hashlib.sha256(newest.read_bytes()).hexdigest()
    (server / "sha256sums.asc").write_text(
        f"-----BEGIN PGP SIGNED MESSAGE-----\n\n{'0' * 64}  linux-7.9.tar.xz\n{digest}  linux-7.10.2.tar.xz\n"
        f"{'1' * 64}  patch-7.11.xz\n"
    )
    source = fetch_kernel_org(cache, say, f"file://{server}")
    assert source.path.read_bytes() == newest.read_bytes()
    assert source.description == "linux-7.10.2.tar.xz from kernel.org"
    newest.unlink()  # from now on the cache serves
    assert fetch_kernel_org(cache, say, f"file://{server}") == source


def test_a_damaged_download_is_refused_and_not_kept(cache: Cache, tmp_path: Path) -> None:
    make_tarball(tmp_path / "linux-7.1.tar.xz")
    (tmp_path / "sha256sums.asc").write_text(f"{'0' * 64}  linux-7.1.tar.xz\n")
    with pytest.raises(TestbedError, match="does not match its checksum"):
        fetch_kernel_org(cache, say, f"file://{tmp_path}")
    assert cached(cache) is None
    assert list((cache.root / "source").iterdir()) == []


def test_an_unreachable_kernel_org_is_an_error(cache: Cache) -> None:
    with pytest.raises(TestbedError, match=r"kernel\.org"):
        fetch_kernel_org(cache, say, "http://127.0.0.1:9")


def test_an_answer_that_is_no_http_is_an_error(cache: Cache) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1024)
                client.sendall(b"220 mail.example.org ESMTP\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(TestbedError, match=r"kernel\.org: 220 mail"):
            fetch_kernel_org(cache, say, f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_a_tarball_is_known_by_its_content(tmp_path: Path) -> None:
    first = make_tarball(tmp_path / "linux-7.1.tar.xz")
    copy = Path(shutil.copy(first, tmp_path / "copy.tar.xz"))
    assert from_tarball(first).digest == from_tarball(copy).digest
    copy.write_bytes(first.read_bytes() + b"\0")
    assert from_tarball(first).digest != from_tarball(copy).digest
    with pytest.raises(TestbedError, match="no such file"):
        from_tarball(tmp_path / "absent.tar.xz")


def test_a_tree_changes_with_its_sources_and_not_with_its_objects(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="not a Linux source tree"):
        from_tree(tmp_path)
    (tmp_path / "arch" / "um").mkdir(parents=True)
    (tmp_path / "arch" / "um" / "Kconfig").write_text("config HZ\n")
    (tmp_path / "net.c").write_text("int x;")
    before = from_tree(tmp_path)
    (tmp_path / "net.o").write_text("object")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "index").write_text("index")
    assert from_tree(tmp_path).digest == before.digest
    (tmp_path / "net.c").write_text("int yy;")
    assert from_tree(tmp_path).digest != before.digest
    assert str(tmp_path) not in before.description  # results carry it; they name no machine
