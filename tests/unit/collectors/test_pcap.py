# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures of a real trial (tests/cases/trials/captured-dualpi2) against tshark's reading of the same files.

tests/cases/pcap/*.tsv are by tshark 4.0.17, the other two files by editcap from net-mid.pcap.gz:

    tshark -r net-mid.pcap.gz -T fields -E header=y -e frame.time_epoch -e tcp.srcport -e tcp.dstport \\
        -e ip.len -e ip.id -e ip.dsfield.ecn -e tcp.seq_raw -e tcp.ack_raw -e tcp.flags -e tcp.len
    editcap -F pcapng net-mid.pcap net-mid.pcapng; editcap -F pcap net-mid.pcap net-mid-us.pcap
"""

import gzip
from pathlib import Path

import polars as pl
import pytest

from collectors.collector import BadRawError
from collectors.pcap import SCHEMA, find_capture, read_capture

NANOSECONDS, MICROSECONDS = 1, 1000


@pytest.fixture
def router(cases: Path) -> Path:
    return cases / "trials" / "captured-dualpi2" / "raw" / "router"


def by_tshark(path: Path, unit_ns: int = NANOSECONDS) -> pl.DataFrame:
    names = dict(zip(pl.read_csv(path, separator="\t", n_rows=0).columns, SCHEMA.names(), strict=True))
    text = pl.read_csv(path, separator="\t", infer_schema=False).rename(names)
    whole = pl.col("time_ns").str.replace(".", "", literal=True).cast(pl.Int64)
    hexadecimal = [pl.col(name).str.strip_prefix("0x").str.to_integer(base=16) for name in ("ip_id", "flags")]
    return text.with_columns(whole // unit_ns * unit_ns, *hexadecimal).cast(SCHEMA)


@pytest.mark.parametrize("network", ["net-mid", "net-rx"])
def test_every_field_as_tshark_reads_it(router: Path, cases: Path, network: str) -> None:
    path = find_capture(router, f"{network}.pcap")
    assert path is not None
    assert path.suffix == ".gz"
    found = read_capture(path)
    assert found.height > 500
    assert found.equals(by_tshark(cases / "pcap" / f"{network}.tsv"))


@pytest.mark.parametrize(
    ("name", "unit_ns"), [("net-mid.pcapng", NANOSECONDS), ("net-mid-us.pcap", MICROSECONDS)]
)
def test_other_formats_of_the_same_packets(cases: Path, name: str, unit_ns: int) -> None:
    folder = cases / "pcap"
    assert read_capture(folder / name).equals(by_tshark(folder / "net-mid.tsv", unit_ns))


@pytest.mark.parametrize("name", ["net-mid.pcapng", "net-mid-us.pcap"])
def test_a_file_cut_short_ends_with_its_last_whole_packet(cases: Path, tmp_path: Path, name: str) -> None:
    whole = read_capture(cases / "pcap" / name)
    cut = tmp_path / name
    cut.write_bytes((cases / "pcap" / name).read_bytes()[:-7])
    assert 0 < whole.height - read_capture(cut).height <= 3  # pcapng ends with statistics
    assert whole.head(500).equals(read_capture(cut).head(500))


def test_a_capture_without_packets(cases: Path, tmp_path: Path) -> None:
    head = (cases / "pcap" / "net-mid-us.pcap").read_bytes()[:24]
    path = tmp_path / "none.pcap.gz"
    path.write_bytes(gzip.compress(head))
    found = read_capture(path)
    assert found.height == 0
    assert found.schema == SCHEMA


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (b"PK\x03\x04 and so on", "neither pcap nor pcapng"),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "empty"),
        # a header that says link type 113, Linux cooked
        (b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + bytes(12) + b"\x71\x00\x00\x00", "not Ethernet"),
    ],
)
def test_what_is_no_capture(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    with pytest.raises(BadRawError, match=what):
        read_capture(path)


def test_a_damaged_gzip_file(tmp_path: Path, router: Path) -> None:
    path = tmp_path / "x.pcap.gz"
    path.write_bytes((router / "net-mid.pcap.gz").read_bytes()[:1000])
    with pytest.raises(BadRawError, match=r"x\.pcap\.gz"):
        read_capture(path)
