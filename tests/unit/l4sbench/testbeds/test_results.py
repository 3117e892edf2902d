# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Archives of results: what a host's part leaves comes whole, and whatever else a host sends is refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from l4sbench.errors import TrialFailed
from l4sbench.testbeds.ssh import results
from l4sbench.testbeds.ssh.results import HostReport, NodeReport, skew_ms, unpack, write_start

GOOD = {
    "ok": True,
    "nodes": {
        "router": {"start_epoch_ns": 17, "flows": None},
        "delay": {"flows": [{"flow": "a", "late_ms": 1.5}, {"flow": "b", "late_ms": 4}]},
        "rx-l4s": {"start_epoch_ns": 4},
    },
}
HELD = ("delay", "router")


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


def archive(folder: Path, *more: tuple[tarfile.TarInfo, bytes], report: object = GOOD) -> Path:
    """An archive of a host's results, with further entries."""
    path = folder / "a.tar.gz"
    text = json.dumps(report).encode()
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as packed:
        listed = [(entry("result.json", size=len(text)), text), (entry("log", size=2), b"ok")]
        listed += [(entry(name, tarfile.DIRTYPE), b"") for name in ("raw", "raw/router", "raw/delay")]
        listed += [(entry("raw/router/q.json", size=2), b"[]")]
        listed += [(entry("raw/delay/sockets.jsonl", size=3), b"{}\n")]
        for told, content in (*listed, *more):
            packed.addfile(told, io.BytesIO(content))
    return path


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "trial" / "raw"
    folder.mkdir(parents=True)
    return folder


def files(raw: Path) -> set[str]:
    return {path.relative_to(raw.parent).as_posix() for path in raw.parent.rglob("*") if not path.is_dir()}


def test_results_of_a_host_become_those_of_its_nodes(tmp_path: Path, raw: Path) -> None:
    told = unpack(archive(tmp_path), "2001:db8::1", HELD, raw)
    assert files(raw) == {
        "raw/router/q.json",
        "raw/sockets.jsonl",
        "raw/hosts/2001:db8::1.result.json",
        "raw/hosts/2001:db8::1.log",
    }
    assert set(told.nodes) == set(HELD)  # and not a node of another host
    assert skew_ms({"a": told}) == 2.5
    write_start(raw, {"a": told}, "router")
    assert json.loads((raw / "start.json").read_text()) == {"t0_ns": 17}
    assert unpack(tmp_path / "none.tar.gz", "a", HELD, raw).nodes == {}


def test_captures_are_dated_by_the_clock_of_the_node_that_has_them(raw: Path) -> None:
    """A topology of several bottlenecks may capture at another one than that by whose clock trials start."""
    first = HostReport(nodes={"router-1": NodeReport(start_epoch_ns=17)})
    second = HostReport(nodes={"router-2": NodeReport(start_epoch_ns=4), "delay-2": NodeReport()})
    for capture, dated in (("router-2", 4), ("router-1", 17), ("delay-2", 17), ("a-switch", 17)):
        assert write_start(raw, {"a": first, "b": second}, "router-1", capture) == 17
        assert json.loads((raw / "start.json").read_text()) == {"t0_ns": dated}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (entry("../planted"), "'../planted' is not a result of delay, router"),
        (entry("/tmp/planted"), "'/tmp/planted' is not a result"),
        (entry("raw/rx-l4s/q.json"), "'raw/rx-l4s/q.json' is not a result"),
        (entry("raw/hosts/b.log"), "'raw/hosts/b.log' is not a result"),
        (entry("raw/sockets.jsonl"), "'raw/sockets.jsonl' is not a result"),
        (entry("raw/router/../../x"), "is not a result"),
        (entry("raw/router/.."), "is not a result"),
        (entry("raw/router/.hidden"), "is not a result"),
        (entry("raw/router/\x1b[2J"), r"'raw/router/\x1b[2J' is not a result"),
        (entry("programs.json"), "'programs.json' is not a result"),
        (entry("raw/router/x", tarfile.SYMTYPE, "/etc/passwd"), "'raw/router/x' is not a regular file"),
        (entry("raw/router/x", tarfile.LNKTYPE, "result.json"), "'raw/router/x' is not a regular file"),
        (entry("raw/router/x", tarfile.FIFOTYPE), "'raw/router/x' is not a regular file"),
        (entry("raw/router/x", tarfile.CHRTYPE), "'raw/router/x' is not a regular file"),
        (entry("raw/router", tarfile.SYMTYPE, "/tmp"), "'raw/router' is not a result"),
        (entry("raw/router/x", tarfile.GNUTYPE_SPARSE), "'raw/router/x' is not a regular file"),
        (entry("raw/router/q.json"), "'raw/router/q.json' occurs twice"),
        (entry("result.json"), "'result.json' occurs twice"),
    ],
    ids=lambda value: repr(value.name) if isinstance(value, tarfile.TarInfo) else None,
)
def test_entries_that_are_no_results(tmp_path: Path, raw: Path, bad: tarfile.TarInfo, told: str) -> None:
    with pytest.raises(TrialFailed) as raised:
        unpack(archive(tmp_path, (bad, b"")), "a", HELD, raw)
    assert raised.value.message.startswith("a: its results cannot be used: ")
    assert told in raised.value.message
    assert files(raw) == set()
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ([], "result.json: Input should be an object"),
        ({"nodes": []}, "result.json: nodes: Input should be an object"),
        ({"nodes": {"router": 3}}, "result.json: nodes.router: Input should be an object"),
        (
            {"nodes": {"router": {"start_epoch_ns": 1 << 64}}},
            "nodes.router.start_epoch_ns: Input should be less",
        ),
        (
            {"nodes": {"router": {"start_epoch_ns": "x"}}},
            "nodes.router.start_epoch_ns: Input should be a valid int",
        ),
        ({"nodes": {"router": {"flows": [{}]}}}, "nodes.router.flows.0.late_ms: Field required"),
        ({"nodes": {"router": {"flows": [{"late_ms": float("inf")}]}}}, "late_ms: Input should be a finite"),
    ],
)
def test_reports_that_cannot_be_used(tmp_path: Path, raw: Path, report: object, told: str) -> None:
    with pytest.raises(TrialFailed) as raised:
        unpack(archive(tmp_path, report=report), "a", HELD, raw)
    assert told in raised.value.message


def test_damaged_archives(tmp_path: Path, raw: Path) -> None:
    """Cut or changed: the trial fails with a message, or the change had no effect."""
    content = bytes(range(250)) * 8
    good = archive(tmp_path, (entry("raw/router/x", size=2000), content))
    data = good.read_bytes()
    for at in range(0, len(data), 7):
        good.write_bytes(data[:at])
        with pytest.raises(TrialFailed, match="a: its results cannot be used: "):
            unpack(good, "a", HELD, raw)
    for at in range(0, len(data), 7):
        good.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        own = raw / str(at)
        own.mkdir()
        with contextlib.suppress(TrialFailed):
            unpack(good, "a", HELD, own)
            assert (own / "router" / "x").read_bytes() == content
    good.write_bytes(b"no archive")
    with pytest.raises(TrialFailed, match="Not a gzipped file"):
        unpack(good, "a", HELD, raw)


@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.map": "x", "GNU.sparse.size": "x", "GNU.sparse.realsize": "x"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "x"},
    ],
    ids=["0.1", "1.0"],
)
def test_headers_of_sparse_files_that_are_malformed(
    tmp_path: Path, raw: Path, headers: dict[str, str]
) -> None:
    sparse = entry("raw/router/x", size=512)
    sparse.pax_headers = headers
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as packed:
        packed.addfile(sparse, io.BytesIO(b"x" * 512))
    with pytest.raises(TrialFailed, match="a: its results cannot be used: "):
        unpack(path, "a", HELD, raw)


def blanks(folder: Path, *, kind: bytes, size: int) -> Path:
    """An archive whose metadata are blanks, which take no room in a compressed file."""
    path = folder / "blanks.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(entry("x", kind, size=size).tobuf(tarfile.GNU_FORMAT))
        for _ in range(size >> 20):
            out.write(b" " * (1 << 20))
    return path


@pytest.mark.parametrize(
    "kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.SOLARIS_XHDTYPE]
)
def test_metadata_that_fill_the_memory(tmp_path: Path, raw: Path, kind: bytes) -> None:
    path = blanks(tmp_path, kind=kind, size=200 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(TrialFailed, match="its metadata are too long"):
            unpack(path, "a", HELD, raw)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_more_than_a_trial_leaves(tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST_FILES", 50)
    path = archive(tmp_path, *((entry(f"raw/router/{number}"), b"") for number in range(50)))
    with pytest.raises(TrialFailed, match="more than 50 files"):
        unpack(path, "a", HELD, raw)
    monkeypatch.setattr(results, "MOST_BYTES", 1 << 20)
    path = archive(tmp_path, (entry("raw/router/x", size=3 << 20), bytes(3 << 20)))
    with pytest.raises(TrialFailed, match="more than 1 MB"):
        unpack(path, "a", HELD, raw)
    assert files(raw) == set()


def test_of_a_switch_only_its_own_files_are_taken(tmp_path: Path, raw: Path) -> None:
    packed = archive(tmp_path)
    with pytest.raises(TrialFailed, match=r"raw/router/q\.json' is not a result of delay, router"):
        unpack(packed, "tofino", HELD, raw, files={"switch.json"})
    assert files(raw) == set()
    with pytest.raises(TrialFailed, match="more than 0 MB"):
        unpack(packed, "tofino", HELD, raw, most_bytes=1_000)
    assert files(raw) == set()
    unpack(packed, "tofino", HELD, raw, files={"q.json", "sockets.jsonl"})
    assert "raw/router/q.json" in files(raw)
