# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Questions to the atlas: how they may be written, and which cell they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from l4sbench.app.atlas import AtlasCell, AtlasColumn
from l4sbench.app.question import AtlasQuestion, changes_of
from l4sbench.catalog import Catalog
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix

CATALOG = Catalog.load()
COLUMNS = tuple(
    AtlasColumn("fq-codel", None, *flows)
    for flows in (("prague", "cubic", "off"), ("bbr3", "bbr1", "off"), ("prague", "cubic", "classic"))
)


@pytest.mark.parametrize(
    "words",
    [
        ("50 Mbit/s, 20 ms, FQ-CoDel (+ECN), 2 BDP",),
        ("50mbit", "20ms", "fq_codel", "2", "BDP", "against", "CUBIC"),
        ("Is", "it", "okay", "behind", "fq-codel", "at", "0.05", "gbit/s", "and", "20", "ms", "buffer=2"),
        ("My router runs fq_codel with a buffer of 2 BDP at a rate of 50mbit, rtt 20ms.",),
        ("aqm=fq_codel", "rate=50mbit", "rtt=20ms", "buffer_bdp=2"),
        ("aqm=fq_codel, rate=50mbit, rtt=20ms, buffer=2",),
        ("fq_codel at 50mbit rtt=20ms buffer=2",),
        ("aqm=FQ-CoDel (+ECN)", "rate=50 Mbit/s", "rtt=20 ms", "buffer=2 BDP", "against=CUBIC", "to=Prague"),
        ("rate=50mbps", "20ms", "aqm=FQ-CoDel +ECN,", "2bdp"),
        ("fq_codel 50M 20 milliseconds 2x BDP",),
        ("50 megabits per second, 20 msec, FQ-CoDel, 2 BDPs", "tcp cubic"),
        ("Is it safe to switch to L4S over a 0.05G link with a latency of 0.02 seconds", "fq_codel 2bdp"),
        ("should we switch from TCP Cubic to TCP Prague?", "rate=50M rtt=20msec aqm=fq_codel buffer=2"),
    ],
)
def test_plain_words_ask_the_same_as_keys(words: tuple[str, ...]) -> None:
    assert (
        str(AtlasQuestion.parse(words, CATALOG, COLUMNS))
        == "fq-codel, 2 BDP, 50mbit, 20ms: prague against cubic"
    )


@pytest.mark.parametrize("sign", ["\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}", "u"])
def test_microseconds_may_be_written_with_either_sign_of_unicode(sign: str) -> None:
    for words in (f"fifo 50mbit 2500{sign}s", f"aqm=fifo rate=50mbit rtt=2500{sign}s"):
        assert str(AtlasQuestion.parse((words,), CATALOG, COLUMNS).rtt) == "2.5ms"


@pytest.mark.parametrize(
    ("flows", "meant"),
    [
        ("prague against cubic", "prague against cubic"),
        ("BBRv3 against Prague", "bbr3 against prague"),
        ("prague beside prague", "prague against prague"),
        ("prague", "prague against cubic"),
        ("prague vs. cubic", "prague against cubic"),
        ("Is it okay to switch to BBRv3 if BBRv1 is the competitor?", "bbr3 against bbr1"),
        ("can we switch to bbr3?", "bbr3 against bbr1"),
        ("from cubic to bbr3", "bbr3 against cubic"),
        ("from reno", "prague against reno"),
        ("to L4S from BBRv3", "prague against bbr3"),
        ("deploy L4S", "prague against cubic"),
        ("to=L4S against=bbr3", "prague against bbr3"),
        ("ecn=classic", "prague against cubic, ECN classic"),
        ("competitor bbr3", "prague against bbr3"),
        ("with a CUBIC competitor", "prague against cubic"),
        ("prague against cubic, ECN classic", "prague against cubic, ECN classic"),
        ("reno", "prague against reno"),
        ("prague against cubic against=cubic", "prague against cubic"),
    ],
)
def test_plain_words_name_who_is_against_whom(flows: str, meant: str) -> None:
    words = (*flows.split(), "fifo", "50mbit", "20ms")
    assert str(AtlasQuestion.parse(words, CATALOG, COLUMNS)) == f"fifo, 1 BDP, 50mbit, 20ms: {meant}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("aqm=dualpi2 aqm=fifo rate=50mbit rtt=20ms", "states two queues: dualpi2, fifo"),
        ("dualpi2 50mbit 20ms aqm=fifo", "states two queues: dualpi2, fifo"),
        ("fifo 50mbit 10mbit 20ms", "states two rates: 50mbit, 10mbit"),
        ("fifo 50mbit 20ms against cubic against reno", "states two competitors: cubic, reno"),
    ],
)
def test_one_thing_stated_twice_is_an_error(words: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AtlasQuestion.parse(words.split(), CATALOG, COLUMNS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "20 metres",
            "'20' is not a word of a question; write a rate such as 50mbit, a round-trip time",
        ),
        (
            "50m",
            "'50m' is not a word of a question; write a rate such as 50mbit, a round-trip time such as 20ms",
        ),
        (
            "buffer 2",
            "'2' is not a word of a question; write a rate such as 50mbit, a round-trip time such as",
        ),
        ("fqcodel", "'fqcodel' is not a word of a question; did you mean fq-codel"),
        ("fq_codel with l4s", "'l4s' is not a word of a question; write `switch to L4S`, and fq-codel-l4s"),
        ("bbr", "'bbr' is not a word of a question; did you mean bbr3, bbr2 or bbr1"),
        ("htb", "'htb' is not a word of a question; leave it out, or write KEY=VALUE, such as aqm=fq-codel"),
        ("classic cubic", "'classic' is not a word of a question; write ecn=classic if the competitor"),
        ("cubic with ecn", "'ecn' is not a word of a question; write ecn=classic if the competitor uses ECN"),
        # what follows a key is its value, whatever else it states
        ("rtt=20ms fifo, rate=50mbit", "'rtt=20ms fifo' is not understood; a value ends where"),
        ("aqm=fifo at 50mbit 20ms", "'aqm=fifo at 50mbit 20ms' is not understood; a value ends where"),
        # negative numbers and bytes are not taken for others
        ("fifo -50mbit 20ms", 'expected a rate such as 100mbit, not "-50mbit"'),
        ("fifo 50mbit -20 ms", 'expected a duration such as 10ms, not "-20ms"'),
        ("fifo 50mbit 20ms -2 BDP", "'-2' is not a valid buffer_bdp; write a number such as 2"),
        ("fifo 12.5 MB/s 20ms", "12.5 MB/s is a rate in bytes; write 100mbit, or 12.5mbit if bits are meant"),
        ("fifo 1GBps 20ms", "1GBps is a rate in bytes; write 8gbit, or 1gbit if bits are meant"),
    ],
)
def test_what_is_not_understood_has_a_hint(words: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        AtlasQuestion.parse((words,), CATALOG, COLUMNS)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("rate=20ms", 'expected a rate such as 100mbit, not "20ms"'),
        ("rate=50m", 'expected a rate such as 100mbit, not "50m"; did you mean 50mbit?'),
        ("rate=50 Mbit/s 20 ms", 'expected a rate such as 100mbit, not "50 Mbit/s 20 ms"'),
        ("rate=50MB/s", "50MB/s is a rate in bytes"),
    ],
)
def test_a_value_of_another_kind_is_an_error(pair: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        AtlasQuestion.parse((pair, "rtt=20ms", "aqm=fifo"), CATALOG, COLUMNS)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("step", "meant"), [("0", None), ("0p", None), ("default", None), ("1", 1), ("2p", 2)]
)
def test_the_step_that_a_queue_has_by_itself_need_not_be_stated(step: str, meant: int | None) -> None:
    question = AtlasQuestion.parse(("dualpi2 4mbit 20ms", f"min_qlen_step={step}"), CATALOG, COLUMNS)
    assert question.column.min_qlen_step == meant


@pytest.mark.parametrize("step", ["2", "2p", "2 packets"])
def test_plain_words_state_a_step_in_packets(step: str) -> None:
    question = AtlasQuestion.parse((f"dualpi2 4mbit min_qlen_step {step} 20ms",), CATALOG, COLUMNS)
    assert question.column.min_qlen_step == 2


@pytest.mark.parametrize("step", [None, 2])
def test_what_is_run_is_exactly_the_cell_of_the_question(step: int | None) -> None:
    of_step = () if step is None else (f"min_qlen_step={step}p",)
    question = AtlasQuestion.parse(("dualpi2", "50mbit", "20ms", "buffer=2", *of_step), CATALOG, COLUMNS)
    timing = AtlasCell("atlas", "", question.column, 100.0, 100.0, 2.0, 8.0, duration_s=100.0, warmup_s=5.0)
    changes = changes_of(question, timing)
    found = Matrix.load(Path("matrices/atlas.yaml").resolve(), CATALOG, changes=changes).asked
    assert len(found) == 1
    cell = found[0]
    assert (str(cell.rate), str(cell.rtt), cell.aqm, cell.buffer_bdp) == ("50mbit", "20ms", "dualpi2", 2.0)
    assert (str(cell.duration), cell.get("classic.ecn")) == ("100s", "off")
    assert AtlasQuestion.of(cell) == question
