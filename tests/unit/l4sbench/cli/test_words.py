# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench list` and `l4sbench explain`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from l4sbench.catalog import Catalog
from l4sbench.cli import main
from l4sbench.facts.factors import FACTORS, GROUP_FACTORS

CATALOG = Catalog.load()
EXTRA = """\
name: pfifo
kind: queue
label: FIFO of packets
about: One queue limited in packets.
family: sq-drop
marks: []
buffer: limit
params:
  limit: {kind: packets, from: buffer, minimum: 1p, doc: Packets it holds}
tc: [pfifo, [limit, "{limit}"]]
"""


@pytest.fixture
def extra(tmp_path: Path) -> Path:
    (tmp_path / "mine" / "pfifo").mkdir(parents=True)
    (tmp_path / "mine" / "pfifo" / "module.yml").write_text(EXTRA, encoding="utf-8")
    return tmp_path / "mine"


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == 0
    found = capsys.readouterr()
    assert found.err == ""
    return found.out


@pytest.mark.parametrize(
    ("what", "key", "names"),
    [
        ("queues", "queue", list(CATALOG.queues)),
        ("ccs", "cc", list(CATALOG.congestion_controls)),
        ("factors", "factor", [*FACTORS, *(f"<group>.{name}" for name in GROUP_FACTORS)]),
        ("rules", "rule", ["anrw24", "l4sbench1", "pam25"]),
        ("topologies", "topology", ["dumbbell", "line6", "near8", "parking-lot", "segsize7"]),
        ("runs", "run", []),
    ],
)
def test_lists_have_a_row_for_everything(
    what: str, key: str, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = json.loads(shown(capsys, "list", what, "--json"))
    assert [row[key] for row in rows][: len(names)] == names
    table = shown(capsys, "list", what).splitlines()
    assert [line.split()[0] for line in table[1:]] == [row[key] for row in rows]


def test_matrices_are_listed_with_their_question(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["matrix"]: row for row in json.loads(shown(capsys, "list", "matrices", "--json"))}
    assert rows["quickstart"]["description"].startswith("Is it okay to switch to Prague?")


def test_without_a_choice_it_lists_the_lists(capsys: pytest.CaptureFixture[str]) -> None:
    first = [line.split()[0] for line in shown(capsys, "list").splitlines()]
    names = ["queues", "ccs", "senders", "factors", "rules", "matrices", "topologies", "sheets", "runs"]
    assert first == ["list", *names]


def test_own_queues_are_listed_and_explained(extra: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "\npfifo " in shown(capsys, "list", "queues", "--catalog", str(extra))
    text = shown(capsys, "explain", "pfifo", "--catalog", str(extra))
    assert text.startswith("pfifo: queue\n  One queue limited in packets.\n")


def test_a_queue_is_explained_with_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "explain", "dualpi2")
    assert text.startswith("dualpi2: queue\n")
    assert "source           RFC 9332; tc-dualpi2(8)" in text
    for name in CATALOG.queue("dualpi2").params:
        assert f"\n  {name} " in text


def test_a_parameter_is_explained_by_unit_default_range_and_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, "explain", "l4s.rtt_target")
    assert text == shown(capsys, "explain", "rtt_target") == shown(capsys, "explain", "any.rtt_target")
    assert text.startswith("<group>.rtt_target: parameter\n  Virtual round-trip time")
    for fact in ("of       prague", "duration such as 10ms, 1us to 100ms", "default  25ms", "RFC 9331"):
        assert fact in text


def test_a_parameter_of_several_queues_is_explained_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    words = json.loads(shown(capsys, "explain", "aqm.limit", "--json"))
    owners = [word["facts"]["of"].split(", ") for word in words]
    assert sorted(name for names in owners for name in names) == sorted(
        name for name, queue in CATALOG.queues.items() if "limit" in queue.params
    )


def test_a_name_may_be_explained_as_one_kind_of_thing(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "explain", "queue", "dualpi2") == shown(capsys, "explain", "dualpi2")
    assert shown(capsys, "explain", "factor", "rate").startswith("rate: factor\n")
    assert shown(capsys, "explain", "quick").startswith("quick: key of a matrix\n  Changes for ")
    assert shown(capsys, "explain", "matrix", "pam25").startswith("pam25: matrix\n")
    assert shown(capsys, "explain", "rule", "pam25").startswith("pam25: rule\n")


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("undecided", "undecided: word\n  A verdict: a group's interval straddles its limit, "),
        ("aqm", "aqm: factor\n"),
        ("bdp", "BDP: word\n  Bandwidth-delay product: "),
        ("ECT(1)", "ECT(1): word\n  Marks of packets"),
        ("harm", "harm: word\n  What a group loses because another is there"),
    ],
)
def test_words_of_the_table_are_explained(name: str, about: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "explain", name)
    assert text.startswith(about)
    assert "](" not in text


def test_a_topology_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "explain", "topology", "segsize7")
    assert text == shown(capsys, "explain", "segsize7")
    assert text.startswith("segsize7: topology\n  Seven machines: ")
    assert "                      └── delay-rx  delays by rtt/4 at each of 2 ports\n" in text
    ways = "  flow group 1: tx-l4s - delay-tx - router =net-right=> delay-rx - rx-l4s\n"
    assert ways in text
    (word,) = json.loads(shown(capsys, "explain", "topology", "segsize7", "--json"))
    assert word["drawing"][0] == "tx-l4s  sender"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["explain", "topology", "parkinglot"],
            "topology: unknown topology parkinglot; did you mean parking-lot?",
        ),
        (["explain", "queue", "cubic"], "no queue is called cubic; l4sbench list prints what there is"),
        (["explain", "que", "codel"], "que is not a valid kind of name; did you mean queue?"),
        (
            ["explain", "queue", "codel", "red"],
            "one name is explained at a time, not queue codel red",
        ),
        (["explain", "dulpi2"], "nothing is called dulpi2; did you mean dualpi2?"),
        (["explain", "aqm.tagret"], "nothing is called aqm.tagret; did you mean target?"),
        (
            ["explain", "l4s.rt_target"],
            "nothing is called l4s.rt_target; did you mean rtt_target?",
        ),
        (["explain", "zzzzz"], "nothing is called zzzzz; l4sbench list prints what there is"),
        (["list", "quees"], "quees is not a valid list; did you mean queues or rules?"),
        (
            ["list", "zzz"],
            (
                "zzz is not a valid list; choose from "
                "queues, ccs, senders, factors, rules, matrices, topologies, sheets, runs"
            ),
        ),
    ],
)
def test_unknown_names_suggest(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err == f"error: {message}\n"


def test_a_queue_is_explained_as_linux_spells_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "explain", "fq_codel") == shown(capsys, "explain", "fq-codel")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("regret", ["expected regret: word"]),
        ("l4s.workload", ["facebook-hadoop, facebook-weibull, transfers or web-search"]),
        ("web-search", ["web-search: workload", "<group>.workload: web-search", "Alizadeh"]),
        ("l4s.cc=prague", ["prague: congestion control", "<group>.cc: factor"]),
        ("rtt=10ms", ["rtt: factor"]),
        ("aqm", ["one of l4sbench list queues"]),
    ],
)
def test_what_people_ask_for_is_explained(
    name: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "explain", name)
    assert [word for word in words if word not in text] == []
