# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures of a real trial (tests/cases/trials/captured-dualpi2) against tshark's reading of the same files.

tests/cases/pcap/net-*.tsv are by tshark 4.0.17, net-mid-us.pcap by editcap from net-mid.pcap.gz:

    tshark -r net-mid.pcap.gz -T fields -E header=y -e frame.time_epoch -e tcp.srcport -e tcp.dstport \\
        -e ip.len -e ip.id -e ip.dsfield.ecn -e tcp.seq_raw -e tcp.ack_raw -e tcp.flags -e tcp.len
    editcap -F pcap net-mid.pcap net-mid-us.pcap

ipv6.pcap and cooked.pcap are by dumpcap on a loopback interface and on `any` at the same time, of TCP and UDP
over IPv6 and IPv4: with fragments (MTU 1500), an extension header, ECN. ipv6.tsv is tshark's reading of the
former, in the columns of `SCHEMA`.
"""

import gzip
from pathlib import Path

import polars as pl
import pytest

from collectors import pcap
from collectors.collector import BadRawError
from collectors.pcap import SCHEMA, TCP, UDP, find_capture, read_capture

NANOSECONDS, MICROSECONDS = 1, 1000
READ = (
    *("time_ns", "src_port", "dst_port", "ip_bytes", "ip_id", "ecn", "seq", "ack", "flags", "payload_bytes"),
)
"""The columns that the files by tshark have, in their order."""


@pytest.fixture
def router(cases: Path) -> Path:
    return cases / "trials" / "captured-dualpi2" / "raw" / "router"


def by_tshark(path: Path, unit_ns: int = NANOSECONDS) -> pl.DataFrame:
    names = dict(zip(pl.read_csv(path, separator="\t", n_rows=0).columns, READ, strict=True))
    text = pl.read_csv(path, separator="\t", infer_schema=False).rename(names)
    whole = pl.col("time_ns").str.replace(".", "", literal=True).cast(pl.Int64)
    hexadecimal = [pl.col(name).str.strip_prefix("0x").str.to_integer(base=16) for name in ("ip_id", "flags")]
    return text.with_columns(whole // unit_ns * unit_ns, *hexadecimal).cast(
        {name: SCHEMA[name] for name in READ}
    )


@pytest.mark.parametrize("network", ["net-mid", "net-rx"])
def test_every_field_as_tshark_reads_it(router: Path, cases: Path, network: str) -> None:
    path = find_capture(router, f"{network}.pcap")
    assert path is not None
    assert path.suffix == ".gz"
    found = read_capture(path)
    assert found.height > 500
    assert found.select(READ).equals(by_tshark(cases / "pcap" / f"{network}.tsv"))
    assert set(found["protocol"]) == {TCP}


def test_ipv6_udp_fragments_and_extension_headers(cases: Path) -> None:
    folder = cases / "pcap"
    found = read_capture(folder / "ipv6.pcap")
    wanted = pl.read_csv(folder / "ipv6.tsv", separator="\t", schema=SCHEMA)
    udp = found.filter(pl.col("protocol") == UDP)
    # IPv6 has no identification: the reader has timestamps of TCP and digests of UDP's payload there
    of_ip6 = pl.any_horizontal(pl.col("src_port", "dst_port").is_in([5001, 5002]))
    bare = found.with_columns(
        pl.when(of_ip6).then(0).otherwise("ip_id").cast(pl.UInt16).alias("ip_id"),
        pl.when(of_ip6 & (pl.col("protocol") == UDP)).then(0).otherwise("seq").cast(pl.UInt32).alias("seq"),
    )
    assert bare.equals(wanted)
    sent = found.filter((pl.col("dst_port") == 5001) & (pl.col("payload_bytes") > 0))
    assert sent["ip_id"].to_list() == [47299, 47299, 47300, 47300, 47300]
    assert udp.filter(pl.col("dst_port") == 5002)["seq"].n_unique() == 2  # the last has another payload
    # those of 3,000, 5,000 and 4,000 bytes are fragments, of which the first has the header
    assert udp["payload_bytes"].to_list() == [100, 958, 3000, 5000, 77, 50, 4000]
    assert udp["ip_bytes"].max() == 1500
    assert udp["ecn"].to_list() == [1] * 5 + [2] * 2
    assert found.filter(pl.col("flags") & 2 > 0).height == 4  # two connections, one over IPv6


@pytest.mark.parametrize("network", ["net-mid", "net-rx"])
def test_accecn_options(router: Path, network: str) -> None:
    """The counters only grow, modulo 2^24, and begin where RFC 9768 section 3.2.1 has them begin."""
    path = find_capture(router, f"{network}.pcap")
    assert path is not None
    found = read_capture(path).filter(pl.col("ce_bytes").is_not_null() & (pl.col("src_port") == 5001))
    assert found.height == (0 if network == "net-mid" else 149)
    for name in ("e0_bytes", "ce_bytes", "e1_bytes"):
        assert found[name].drop_nulls().is_sorted()
    if found.height:
        assert (found["e0_bytes"][0], found["ce_bytes"][0]) == (1, 0)


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "link type 113 is not Ethernet"), (b"\n\r\r\n" + bytes(40), "it is not pcap")],
)
def test_a_capture_of_another_kind_is_refused(
    cases: Path, tmp_path: Path, content: bytes | None, what: str
) -> None:
    path = cases / "pcap" / "cooked.pcap"
    if content is not None:
        path = tmp_path / "x.pcapng"
        path.write_bytes(content)
    with pytest.raises(BadRawError, match=what):
        read_capture(path)


def test_times_in_microseconds(cases: Path) -> None:
    folder = cases / "pcap"
    found = read_capture(folder / "net-mid-us.pcap").select(READ)
    assert found.equals(by_tshark(folder / "net-mid.tsv", MICROSECONDS))


def test_a_file_cut_short_ends_with_its_last_whole_packet(cases: Path, tmp_path: Path) -> None:
    file = cases / "pcap" / "net-mid-us.pcap"
    whole, cut = read_capture(file), tmp_path / file.name
    cut.write_bytes(file.read_bytes()[:-7])
    assert whole.height - read_capture(cut).height == 1
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
        (b"PK\x03\x04 and so on", "it is not pcap"),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "it ends within its header"),
    ],
)
def test_what_is_no_capture(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    with pytest.raises(BadRawError, match=what):
        read_capture(path)


@pytest.mark.parametrize("piece_bytes", [117, 5000])
def test_pieces_do_not_matter(router: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    path = router / "net-rx.pcap.gz"
    whole = read_capture(path)
    monkeypatch.setattr(pcap, "PIECE_BYTES", piece_bytes)
    assert read_capture(path).equals(whole)


def test_a_long_capture_is_read_like_its_parts(router: Path, tmp_path: Path) -> None:
    whole = gzip.decompress((router / "net-rx.pcap.gz").read_bytes())
    path = tmp_path / "x.pcap"
    path.write_bytes(whole[:24] + whole[24:] * 40)
    assert path.stat().st_size > 3 << 20
    assert read_capture(path).equals(pl.concat([read_capture(router / "net-rx.pcap.gz")] * 40))


@pytest.mark.parametrize("later_s", [0, 5000])
def test_packets_that_hold_records_are_no_records(cases: Path, tmp_path: Path, later_s: int) -> None:
    whole = (cases / "pcap" / "net-mid-us.pcap").read_bytes()
    head, records, one = whole[:24], whole[24:], read_capture(cases / "pcap" / "net-mid-us.pcap")
    first = 16 + int.from_bytes(records[8:12], "little")
    size = (first - 16 + 3 * len(records)).to_bytes(4, "little")
    forged = records[:8] + size + size + records[16:first] + records * 3
    later = (int.from_bytes(records[:4], "little") + later_s).to_bytes(4, "little")
    path = tmp_path / "x.pcap"
    path.write_bytes(head + (records + forged + later + records[4:]) * 15)
    assert path.stat().st_size > 2 << 20
    first_ns = pl.when(pl.int_range(pl.len()) == 0).then(later_s * 10**9).otherwise(0)
    shifted = one.with_columns(pl.col("time_ns") + first_ns)
    assert read_capture(path).equals(pl.concat([one, one.head(1), shifted] * 15))


def test_a_packet_longer_than_any(cases: Path, tmp_path: Path) -> None:
    whole = bytearray((cases / "pcap" / "net-mid-us.pcap").read_bytes())
    whole[24 + 8 : 24 + 12] = (1 << 30).to_bytes(4, "little")
    path = tmp_path / "x.pcap"
    path.write_bytes(whole)
    with pytest.raises(BadRawError, match=r"^x\.pcap: a packet of 1073741824 bytes is longer than 262144$"):
        read_capture(path)


def test_a_damaged_gzip_file(tmp_path: Path, router: Path) -> None:
    path = tmp_path / "x.pcap.gz"
    whole = (router / "net-mid.pcap.gz").read_bytes()
    for damaged in (whole[:1000], whole[:1000] + b"\xff" * 1000 + whole[2000:]):
        path.write_bytes(damaged)
        with pytest.raises(BadRawError, match=r"x\.pcap\.gz"):
            read_capture(path)


def test_a_gzip_file_that_memory_has_no_room_for(
    tmp_path: Path, router: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = gzip.decompress((router / "net-mid.pcap.gz").read_bytes())[:24]
    monkeypatch.setattr(pcap, "MOST_BYTES", 4 << 20)
    for name, content in (
        ("x.pcap.gz", gzip.compress(head + bytes(8 << 20))),
        ("x.pcap", head + bytes(8 << 20)),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(BadRawError, match=rf"^{name}: the capture is larger than 4 MB$"):
            read_capture(path)
