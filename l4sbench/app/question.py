# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Questions to the atlas, as `KEY=VALUE` words and in plain words, and the factors of the cells they mean."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from l4sbench.app.atlas import AtlasCell, AtlasColumn
from l4sbench.errors import BadValueError, InputError, suggest
from l4sbench.text.units import Duration, Packets, Rate

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
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

_NUMBER: Final = r"(?<![\w.])(\d+(?:\.\d+)?)"
_RATE: Final = re.compile(rf"{_NUMBER}\s*([kmg])(?:bit/s|bit|bps|b/s)(?!\w)", re.IGNORECASE)
_RTT: Final = re.compile(rf"{_NUMBER}\s*(us|ms|s)(?!\w)", re.IGNORECASE)
_BUFFER: Final = re.compile(rf"{_NUMBER}\s*bdp(?!\w)", re.IGNORECASE)
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
    def parse(cls, words: Sequence[str], catalog: Catalog, usual: AtlasColumn) -> Self:
        """Return the question of `KEY=VALUE` words, of plain words, or of both.

        Keys are `aqm`, `rate` and `rtt`, and where they are not the usual ones `buffer_bdp` (1), `against`,
        `ecn` of the competitor, `to` and `min_qlen_step` of DualPI2.

        Raises:
            InputError: a word is not valid, or the queue, the rate or the round-trip time is missing.
        """
        stated = stated_by(words, catalog)
        if lacking := [key for key in ("aqm", "rate", "rtt") if key not in stated]:
            example = "for example `l4sbench ask aqm=fq-codel rate=50mbit rtt=20ms`"
            raise InputError(f"the question states no {', no '.join(lacking)}", example)
        try:
            step = stated.get("min_qlen_step")
            return cls(
                Rate.parse(stated["rate"]),
                Duration.parse(stated["rtt"]),
                _buffer(stated.get("buffer_bdp", "1")),
                AtlasColumn(
                    catalog.queue_name(stated["aqm"]),
                    None if step is None else Packets.parse(step).count,
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
    """Return what `KEY=VALUE` words and plain words state."""
    plain = " ".join(word for word in words if "=" not in word)
    return _plain_words(plain, catalog) | dict(_pair(word) for word in words if "=" in word)


def _pair(word: str) -> tuple[str, str]:
    key, _, text = word.partition("=")
    key = _ALIKE.get(key.strip(), key.strip())
    keys = ("aqm", "rate", "rtt", "buffer_bdp", "against", "ecn", "to", "min_qlen_step")
    if key not in keys:
        raise InputError(f"{key[:40]!r} is not a valid key of a question", suggest(key, keys))
    return key, text.strip()


def _buffer(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{text[:40]!r} is not a valid buffer_bdp; write a number such as 2")
    return value


def _plain_words(text: str, catalog: Catalog) -> dict[str, str]:
    """Return what plain words state; each word must be understood or be without a meaning here."""
    if len(text) > _LONGEST:
        raise InputError(f"a question has at most {_LONGEST} signs")
    found: dict[str, str] = {}
    rest = text
    for key, pattern in (("rate", _RATE), ("rtt", _RTT), ("buffer_bdp", _BUFFER)):
        if (match := pattern.search(rest)) is not None:
            number, *unit = match.groups()
            found[key] = f"{number}{unit[0].lower()}{'bit' if key == 'rate' else ''}" if unit else number
            rest = f"{rest[: match.start()]} {rest[match.end() :]}"
    rest = _folded(rest)
    names = [
        ("aqm", one.name, _folded(name)) for one in catalog.queues.values() for name in (one.name, one.label)
    ]
    ccs = catalog.congestion_controls.values()
    names += [("against", one.name, _folded(name)) for one in ccs for name in (one.name, one.label)]
    for key, name, written in sorted(names, key=lambda one: -len(one[2])):
        if key not in found and (match := re.search(rf"(?<!\S){re.escape(written)}(?!\S)", rest)) is not None:
            found[key] = name
            rest = f"{rest[: match.start()]} {rest[match.end() :]}"
    if unknown := [word for word in rest.split() if word not in _IDLE]:
        known = [name for _, name, _ in names]
        raise InputError(f"{unknown[0][:40]!r} is not a word of a question", suggest(unknown[0], known))
    return found


_IDLE: Final = frozenset(
    (
        *("a", "against", "an", "and", "at", "behind", "beside", "buffer", "i", "is", "it", "my", "of"),
        *("okay", "on", "queue", "rtt", "the", "to", "with"),
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
