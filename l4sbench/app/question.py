# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Questions to the atlas, as `KEY=VALUE` words and in plain words, and the factors of the cells they mean."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from l4sbench.app.atlas import AtlasCell, AtlasColumn
from l4sbench.errors import BadValueError, InputError, did_you_mean, suggest
from l4sbench.text.parameters import OWN
from l4sbench.text.units import Duration, Packets, Rate

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CatalogEntry
    from l4sbench.facts.cell import Cell

_ALIKE: Final = {
    "aqm.min_qlen_step": "min_qlen_step",
    "buffer": "buffer_bdp",
    "classic.cc": "against",
    "classic.ecn": "ecn",
    "competitor": "against",
    "l4s.cc": "to",
    "queue": "aqm",
    "switch": "to",
}
"""Other spellings of keys -> the keys."""

_PLURALS: Final = {
    "aqm": "queues",
    "rate": "rates",
    "rtt": "round-trip times",
    "buffer_bdp": "buffers",
    "against": "competitors",
    "ecn": "ECN modes",
    "to": "congestion controls",
    "min_qlen_step": "values of min_qlen_step",
}
"""Keys of a question, and what more than one of each is called."""

_BETWEEN: Final = frozenset({"against", "beside", "v", "versus", "vs"})
"""Words between a congestion control and its competitor."""

_CHANGE_TO: Final = frozenset({"to", "use", "deploy", "enable"})
"""Words before the congestion control that is asked about."""

_TO_L4S: Final = re.compile(rf"(?<!\S)(?:{'|'.join(sorted(_CHANGE_TO))}) l4s(?!\S)")
"""A switch to L4S, which is the usual one and needs no name; as a pair, `to=L4S`."""

_RATE_UNITS: Final = {
    **{f"{of}{bit}": f"{of}bit" for of in "kmg" for bit in ("bit", "bits", "bit/s", "bits/s", "bps", "b/s")},
    **{
        f"{of}bit{plural}{per}": f"{of[0]}bit"
        for of in ("kilo", "mega", "giga")
        for plural in ("", "s")
        for per in ("", "/s", " per second")
    },
}
_RTT_UNITS: Final = {
    **{f"{of}{end}": f"{of}s" for of in ("u", "m") for end in ("s", "sec", "secs")},
    **{
        f"{of}second{plural}": f"{unit}s"
        for of, unit in {"micro": "u", "milli": "m"}.items()
        for plural in ("", "s")
    },
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    "\N{GREEK SMALL LETTER MU}s": "us",  # which is the micro sign, case-folded
}
"""Spellings of units, case-folded -> the unit of `Rate` or `Duration`."""


def _alternatives(spellings: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))


_NUMBER: Final = r"(?<![\w.])(-?\d+(?:\.\d+)?)"
_RATE: Final = re.compile(rf"{_NUMBER}\s*({_alternatives(_RATE_UNITS)})(?!\w)", re.IGNORECASE)
_SHORT_RATE: Final = re.compile(rf"{_NUMBER}\s*([MG])(?!\w)")
"""A rate as iperf3 takes it; `m` may be anything."""
_BYTES: Final = re.compile(rf"{_NUMBER}\s*([kKmMgG])B(?:/s|ps)(?!\w)")
"""A rate in bytes: `MB/s` is eight times `Mb/s`."""
_RTT: Final = re.compile(rf"{_NUMBER}\s*({_alternatives(_RTT_UNITS)})(?!\w)", re.IGNORECASE)
_STEP: Final = re.compile(rf"(?<!\w)min_qlen_step\s+{_NUMBER}(?:p|\s*packets?)?(?!\w)")
_BUFFER: Final = re.compile(rf"{_NUMBER}\s*x?\s*bdps?(?!\w)", re.IGNORECASE)
_QUANTITIES: Final[Sequence[tuple[str, re.Pattern[str], Mapping[str, str]]]] = (
    ("rate", _RATE, _RATE_UNITS),
    ("rate", _SHORT_RATE, {"m": "mbit", "g": "gbit"}),
    ("rtt", _RTT, _RTT_UNITS),
    ("buffer_bdp", _BUFFER, {}),
    ("min_qlen_step", _STEP, {}),
)
"""Keys, how plain words state them, and the units of what is stated."""
_MEASURED: Final = frozenset(key for key, _, _ in _QUANTITIES)
_BEFORE_KEY: Final = re.compile(r"\s(?=[\w.]+=)")
_LONGEST: Final = 1000


@dataclass(frozen=True)
class AtlasQuestion:
    """A link, its queue, and who shares it.

    Attributes:
        rate: Rate of the link.
        rtt: Round-trip time without queuing.
        buffer_bdp: The queue's buffer in bandwidth-delay products.
        column: The queue and the flows.
    """

    rate: Rate
    rtt: Duration
    buffer_bdp: float
    column: AtlasColumn

    @classmethod
    def parse(cls, words: Sequence[str], catalog: Catalog, columns: Iterable[AtlasColumn]) -> Self:
        """Return the question of `KEY=VALUE` words, of plain words, or of both.

        Keys are `aqm`, `rate` and `rtt`, and where they are not the usual ones `buffer_bdp` (1), `against`,
        `ecn` of the competitor, `to` and `min_qlen_step` of DualPI2. The usual flows are those of the first
        column that has all that are stated, or else of the first one.

        Raises:
            InputError: a word is not valid, or the queue, the rate or the round-trip time is missing.
        """
        stated = stated_by(words, catalog)
        if lacking := [key for key in ("aqm", "rate", "rtt") if key not in stated]:
            if longer := [f"{key}={value}" for key, value in stated.items() if " " in value]:
                hint = "a value ends where the next key begins, so write plain words first"
                raise InputError(f"{longer[0][:60]!r} is not understood", hint)
            example = "for example `l4sbench ask aqm=fq-codel rate=50mbit rtt=20ms`"
            raise InputError(f"the question states no {', no '.join(lacking)}", example)
        usual = _usual(stated, columns)
        try:
            return cls(
                Rate.parse(stated["rate"]),
                Duration.parse(stated["rtt"]),
                _buffer(stated.get("buffer_bdp", "1")),
                AtlasColumn(
                    catalog.queue_name(stated["aqm"]),
                    _step(stated, catalog),
                    stated.get("to", usual.l4s),
                    stated.get("against", usual.classic),
                    stated.get("ecn", usual.classic_ecn),
                ),
            )
        except BadValueError as error:
            raise InputError(error.message, error.hint) from None

    @classmethod
    def of(cls, cell: Cell) -> Self:
        """Return the question that a cell of the atlas's matrices answers."""
        return cls(cell.rate, cell.rtt, cell.buffer_bdp, AtlasColumn.of(cell))

    def __str__(self) -> str:
        column = self.column
        step = "" if column.min_qlen_step is None else f", min_qlen_step {column.min_qlen_step}p"
        ecn = "" if column.classic_ecn == "off" else f", ECN {column.classic_ecn}"
        return (
            f"{column.aqm}{step}, {self.buffer_bdp:g} BDP, {self.rate}, {self.rtt}: "
            f"{column.l4s} against {column.classic}{ecn}"
        )


def stated_by(words: Sequence[str], catalog: Catalog) -> dict[str, str]:
    """Return what `KEY=VALUE` words and plain words state; a word may have several of them, as a quoted one.

    Raises:
        InputError: a word is not valid, or one thing is stated twice.
    """
    parts = [part for word in words for part in _BEFORE_KEY.split(word)]
    plain = " ".join(part for part in parts if "=" not in part)
    found: dict[str, str] = {}
    pairs = (_pair(part, catalog) for part in parts if "=" in part)
    for key, value in (*_plain_words(plain, catalog), *pairs):
        if key == "to" and _folded(value) == "l4s":
            continue
        if _folded(found.setdefault(key, value)) != _folded(value):
            raise InputError(f"the question states two {_PLURALS[key]}: {found[key][:40]}, {value[:40]}")
    return found


def _usual(stated: Mapping[str, str], columns: Iterable[AtlasColumn]) -> AtlasColumn:
    """Return the first column with the flows that are stated, else the first one."""
    columns = list(columns)

    def agrees(column: AtlasColumn) -> bool:
        flows = {"to": column.l4s, "against": column.classic, "ecn": column.classic_ecn}
        return all(stated.get(key, name) == name for key, name in flows.items())

    return next(filter(agrees, columns), columns[0])


def _pair(word: str, catalog: Catalog) -> tuple[str, str]:
    """Return the key and the value, which may be written as plain words write it."""
    key, _, text = word.partition("=")
    key = _ALIKE.get(key.strip(), key.strip())
    if key not in _PLURALS:
        raise InputError(f"{key[:40]!r} is not a valid key of a question", suggest(key, _PLURALS))
    text = text.strip().rstrip(",;")
    if key in _MEASURED:
        quantities, rest = _quantities(text)
        return quantities[0] if not rest.strip() and [of for of, _ in quantities] == [key] else (key, text)
    offered = {written: name for of, name, written in _names(catalog) if (of == "aqm") == (key == "aqm")}
    return key, offered.get(_folded(text), text)


def _buffer(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{text[:40]!r} is not a valid buffer_bdp; write a number such as 2")
    return value


def _step(stated: Mapping[str, str], catalog: Catalog) -> int | None:
    """Return `min_qlen_step` in packets; None for the queue's own, as columns have it."""
    if (text := stated.get("min_qlen_step")) is None:
        return None
    queue = catalog.queues.get(catalog.queue_name(stated["aqm"]))
    own = None if queue is None or (param := queue.params.get("min_qlen_step")) is None else param.own
    if own is not None and text == OWN:
        return None
    step = Packets.parse(f"{text}p" if text.isdigit() else text)
    return None if step == own else step.count


def _plain_words(text: str, catalog: Catalog) -> list[tuple[str, str]]:
    """Return keys with values that plain words state; each must be understood or without a meaning here."""
    if len(text) > _LONGEST:
        raise InputError(f"a question has at most {_LONGEST} signs")
    found, rest = _quantities(text)
    rest, names = _TO_L4S.sub(" ", _folded(rest)), _names(catalog)
    for key, name, written in names:
        while (match := re.search(rf"(?<!\S){re.escape(written)}(?!\S)", rest)) is not None:
            before, after = rest[: match.start()], rest[match.end() :]
            side = _side(before, after) if key in ("to", "against") else None
            found.append((side or key, name))
            rest = f"{before} {after}"
    if unknown := [word for word in rest.split() if word not in _IDLE]:
        known = [name for _, name, _ in names]
        raise InputError(f"{unknown[0][:40]!r} is not a word of a question", _hint(unknown[0], known))
    return found


def _quantities(text: str) -> tuple[list[tuple[str, str]], str]:
    """Return keys with the quantities of a text, as their types read them, and the text without these.

    Raises:
        InputError: a rate is in bytes.
    """
    if (rate := _BYTES.search(text)) is not None:
        number, prefix = rate.groups()
        bits = f"{prefix.lower()}bit"
        hint = f"write {8 * float(number):g}{bits}, or {number}{bits} if bits are meant"
        raise InputError(f"{rate[0][:40]} is a rate in bytes", hint)
    found: list[tuple[str, str]] = []
    for key, pattern, units in _QUANTITIES:
        while (match := pattern.search(text)) is not None:
            number, *unit = match.groups()
            found.append((key, number + "".join(units[one.casefold()] for one in unit)))
            text = f"{text[: match.start()]} {text[match.end() :]}"
    return found, text


def _names(catalog: Catalog) -> list[tuple[str, str, str]]:
    """Return the key, the name and each spelling of all that has names, the longest first."""
    names = [("ecn", mode, f"ecn {mode}") for mode in ("classic", "off")]
    entries: list[tuple[str, CatalogEntry]] = [("aqm", queue) for queue in catalog.queues.values()]
    entries += [("to" if cc.l4s else "against", cc) for cc in catalog.congestion_controls.values()]
    names += [
        (key, one.name, _folded(name)) for key, one in entries for name in (one.name, one.label, *one.also)
    ]
    return sorted(names, key=lambda one: -len(one[2]))


def _hint(word: str, known: Sequence[str]) -> str:
    """Return what to write instead of a word that is not understood."""
    if word in ("ecn", "classic"):
        return "write ecn=classic if the competitor uses ECN, and fifo-ecn if the queue marks"
    if word == "l4s":
        return "write `switch to L4S`, and fq-codel-l4s if the queue marks L4S on its own"
    if word[0].isdigit():
        return "write a rate such as 50mbit, a round-trip time such as 20ms or a buffer such as 2bdp"
    return (
        did_you_mean(word, known) or "leave it out, or write KEY=VALUE, such as aqm=fq-codel or against=cubic"
    )


def _side(before: str, after: str) -> str | None:
    """Return the key of a congestion control by the word before or after it; None if neither tells."""
    last = before.split()[-1:]
    if _BETWEEN.intersection(last) or last == ["competitor"]:
        return "against"
    if last == ["from"]:
        return "against"
    if _CHANGE_TO.intersection(last):
        return "to"
    return "to" if _BETWEEN.intersection(after.split()[:1]) else None


_IDLE: Final = (
    _BETWEEN
    | _CHANGE_TO
    | frozenset(
        (
            *("a", "an", "and", "aqm", "are", "at", "bandwidth", "behind", "buffer", "by", "can"),
            *("competes", "competing", "competitor", "connection", "delay", "flow", "flows", "for", "from"),
            *("has", "have", "i", "if", "in", "is", "it", "latency", "link", "my", "network", "of", "ok"),
            *("okay", "on", "our", "over", "path", "per", "please", "queue", "rate", "router", "rtt", "run"),
            *("runs", "safe", "should", "speed", "switch", "tcp", "the", "there", "traffic", "uses", "we"),
            *("what", "when", "where", "with"),
        )
    )
)
"""Words that a question may have and that state nothing."""


def _folded(text: str) -> str:
    """Return a text in which spellings of one name are equal: `FQ-CoDel (+ECN)`, `fq_codel +ecn`."""
    return " ".join(re.sub(r"[^\w+]+", " ", text.casefold().replace("_", " ")).split())


def factors_of(question: AtlasQuestion, timing: AtlasCell) -> Mapping[str, str | float]:
    """Return the factors of the question's cell, with the duration of `timing`."""
    column = question.column
    step = {} if column.min_qlen_step is None else {"aqm.min_qlen_step": f"{column.min_qlen_step}p"}
    return {
        "rate": str(question.rate),
        "rtt": str(question.rtt),
        "duration": f"{timing.duration_s:g}s",
        "warmup": f"{timing.warmup_s:g}s",
        "aqm": column.aqm,
        **step,
        "buffer_bdp": question.buffer_bdp,
        "l4s.cc": column.l4s,
        "classic.cc": column.classic,
        "classic.ecn": column.classic_ecn,
    }


def changes_of(question: AtlasQuestion, timing: AtlasCell) -> tuple[str, ...]:
    """Return the changes (`--set`) of the matrix `atlas` that make it exactly the question's cell."""
    factors = factors_of(question, timing)

    def axis(*names: str) -> str:
        point = ", ".join(f"{name}: {factors[name]}" for name in names if name in factors)
        return f"[{{{point}}}]"

    return (
        f"rate={question.rate}",
        f"path={axis('rtt', 'duration', 'warmup')}",
        f"queue={axis('aqm', 'aqm.min_qlen_step')}",
        f"buffer_bdp={question.buffer_bdp:g}",
        f"competitor={axis('classic.cc', 'classic.ecn')}",
        f"l4s.cc={question.column.l4s}",
    )
