# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A first matrix: choices become a commented file that `plan` accepts, or it extends another matrix.

Whatever is not chosen is as in the matrix `quickstart`, but for the limits of AQMs: they keep their own, as
where an operator sets none.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from l4sbench.errors import BadValueError, InputError, Problem
from l4sbench.text.parameters import OWN

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog

_COLUMN: Final = 34
_BARE: Final = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*|[0-9.]+[a-z%]+")
"""Texts that YAML reads as such without quotes."""
_WORDS: Final = frozenset({"on", "off", "yes", "no", "true", "false", "null"})
"""Words that are no texts without quotes, at least in YAML 1.1."""


@dataclass(frozen=True)
class Option:
    """Something that is chosen.

    Attributes:
        name: as the option of `l4sbench init`, without dashes.
        about: what it is.
        several: True if commas separate several values, all of which are crossed.
        default: what holds unless it is chosen, in words.
    """

    name: str
    about: str
    several: bool = False
    default: str = "as quickstart"


CHOICES: Final = (
    Option("cc", "congestion control in question"),
    Option("against", "congestion control that it competes with", several=True),
    Option("queues", "queues at the bottleneck", several=True),
    Option("rate", "rate of the bottleneck", several=True),
    Option("rtt", "round-trip time without queues", several=True),
    Option(
        "buffers",
        f"limits of queues: in bandwidth-delay products, or {OWN} (AQMs keep their own, FIFOs are as in "
        "quickstart)",
        several=True,
        default=OWN,
    ),
    Option("duration", "measured time of a trial"),
    Option("trials", "trials per cell"),
)


def defaults() -> dict[str, str]:
    """Return what is chosen where nothing else is."""
    found = _quickstart()
    groups = zip(("cc", "against"), found["flows"].values(), strict=True)
    return {
        **{name: group["cc"] for name, group in groups},
        "queues": ",".join(found["axes"]["aqm"]),
        "buffers": OWN,
        **{name: str(found[name]) for name in ("rate", "rtt", "duration", "trials")},
    }


def _quickstart() -> Any:
    from l4sbench.disk import assets
    from l4sbench.disk.document import read

    return read(assets.folder("matrices") / "quickstart.yaml").content


def checked(choice: Option, text: str, catalog: Catalog) -> str:
    """Return the values of a choice, with commas between them.

    Raises:
        InputError: it is not valid.
    """
    from l4sbench.facts.factors import FACTORS, MAX_TRIALS
    from l4sbench.text.parameters import Parameter

    values, place = _split(text), f"--{choice.name}"
    problems = [] if values else [Problem("", place, "needs a value")]
    if len(values) > 1 and not choice.several:
        problems.append(Problem("", place, f"takes one value, not {len(values)}"))
    if choice.name == "buffers" and OWN in values:
        if len(values) > 1:
            problems.append(Problem("", place, f"takes either numbers or the word {OWN}"))
        values = [value for value in values if value != OWN]
        if not values and not problems:
            return OWN
    for value in values:
        try:
            match choice.name:
                case "queues":
                    catalog.queue(catalog.queue_name(value))
                case "cc" | "against":
                    catalog.congestion_control(value)
                case "trials":
                    Parameter("trials", "int", minimum=1, maximum=MAX_TRIALS).parse(value)
                case name:
                    FACTORS["buffer_bdp" if name == "buffers" else name].parse(value)
        except (BadValueError, InputError) as error:
            wrong = error.problems[0] if isinstance(error, InputError) else error
            problems.append(Problem("", place, wrong.message, wrong.hint))
    if problems:
        raise InputError(problems)
    return ",".join(dict.fromkeys(map(catalog.queue_name, values)) if choice.name == "queues" else values)


def write(file: Path, chosen: Mapping[str, str], catalog: Catalog) -> int:
    """Write the matrix with these choices and return the number of its cells.

    Raises:
        InputError: the file exists, or the choices do not fit together.
    """
    from l4sbench.disk.files import write_whole
    from l4sbench.matrix import Matrix

    require_new(file)
    text = _text(_name_of(file), defaults() | dict(chosen), catalog)
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / "matrix.yaml"
        trial.write_text(text, encoding="utf-8")
        try:
            cells = Matrix.load(trial, catalog).cells
        except InputError as error:
            raise InputError([replace(problem, where="") for problem in error.problems]) from None
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text)
    return len(cells)


def write_extending(file: Path, matrix: str) -> int:
    """Write a matrix that extends another, given as for `run`; return the number of its cells.

    What one would change first is in it as comments, as the other matrix states it.

    Raises:
        InputError: the file exists, there is no such matrix, or it is not valid.
    """
    from l4sbench.app.finding import find_matrix, load_matrix
    from l4sbench.disk.files import write_whole
    from l4sbench.disk.userfiles import is_file
    from l4sbench.matrix.model import DEFAULT_TRIALS
    from l4sbench.matrix.reading import read_source

    require_new(file)
    cells = load_matrix(matrix).cells
    base = matrix
    if is_file(Path(matrix)):
        base = os.path.relpath(matrix, file.parent)
        base = base if "/" in base else f"./{base}"
    source, _ = read_source(find_matrix(matrix))
    stated = source.settings.get("trials", {"min": DEFAULT_TRIALS, "whole": True})
    trials = stated["min"] if "whole" in stated else stated
    name = _name_of(file)
    crossed = {
        axis.name: axis
        for factor in ("duration", "aqm")
        for axis in source.axes.values()
        if factor in axis.factors
    }
    lines = [
        (f"matrix: {name}", f"its name; results go to runs/{name}/"),
        (f"extends: {_flow(base)}", "what is not stated here is as there"),
        ("# description: What is the question?", ""),
        *(
            (f"# {factor}: {_flow(source.fixed[factor].raw)}", about)
            for factor, about in (("duration", "measured time"), ("aqm", "the queue: l4sbench list queues"))
            if factor in source.fixed
        ),
        (f"# trials: {_flow(trials)}", "repetitions of each cell; intervals need 3 or more"),
        *([("# axes:", "an axis replaces the one of there: l4sbench list queues")] if crossed else []),
    ]
    for axis in crossed.values():
        points = [{own: statement.raw for own, statement in point.items()} for point in axis.points]
        if axis.linked:
            lines.append((f"#   {_flow(axis.name)}:", ""))
            lines += [(f"#     - {_flow(point)}", "") for point in points]
        else:
            lines.append((f"#   {axis.name}: {_flow([point[axis.name] for point in points])}", ""))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, _head() + _lines(lines))
    return len(cells)


def _flow(value: object) -> str:
    """Return a value as a matrix states it in one line."""
    match value:
        case Mapping():
            return f"{{{', '.join(f'{_flow(key)}: {_flow(below)}' for key, below in value.items())}}}"
        case list():
            return f"[{', '.join(map(_flow, value))}]"
        case str() if _BARE.fullmatch(value) and value not in _WORDS:
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


def _name_of(file: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip("-._") or "mine"


def require_new(file: Path) -> None:
    """Raise InputError if there is such a file."""
    if file.exists() or file.is_symlink():
        raise InputError(f"{file} exists already", "choose another name")


def _text(matrix: str, made: Mapping[str, str], catalog: Catalog) -> str:
    against = _split(made["against"])
    controls = [catalog.congestion_control(name) for name in against]
    # without and with marks, where each one reacts to them
    both = all("off" in one.ecn_allowed and "classic" in one.ecn_reacts for one in controls)
    fixed: list[tuple[str, str]] = []
    axes: list[tuple[str, str]] = []
    of_queues, each = _queues(made, catalog)
    for name, listed, about in (
        ("rate", made["rate"], "rate of the bottleneck"),
        ("rtt", made["rtt"], "round-trip time without queues"),
        *of_queues,
        ("classic.cc", made["against"] if len(against) > 1 else "", "l4sbench list ccs"),
        ("classic.ecn", "off,classic" if both else "", "how the classic group uses ECN"),
    ):
        # a bare off is a boolean in YAML 1.1
        values = [json.dumps(one) if one == "off" else one for one in _split(listed)]
        if len(values) == 1:
            fixed.append((f"{name}: {values[0]}", about))
        elif values:
            axes.append((f"  {name}: [{', '.join(values)}]", about))
    axes = each + axes
    alone = f"{{cc: {against[0]}}}" if len(against) == 1 else "{}"
    lines = [
        (f"matrix: {matrix}", f"its name; results go to runs/{matrix}/"),
        (f"description: Is it okay to switch to {made['cc']}?", ""),
        ("topology: line6", "two senders, a delay, a router, two receivers"),
        *fixed,
        (f"duration: {made['duration']}", "measured time; `warmup: 2s` would come before it and not count"),
        (f"trials: {made['trials']}", "repetitions of each cell; intervals need 3 or more"),
        ("flows:", "named groups; each has its own sender and receiver"),
        (f"  l4s: {{cc: {made['cc']}}}", "the group in question; `count: 2` would make it two flows"),
        (f"  classic: {alone}", "the group it competes with"),
        *([("axes:", "lists are crossed: each combination is a cell")] if axes else []),
        *axes,
    ]
    return _head() + _lines(lines)


def _head() -> str:
    from l4sbench.disk import assets

    return (
        f"# yaml-language-server: $schema={assets.folder('matrices') / 'matrix.schema.json'}\n"
        "# Check it and list its cells: l4sbench plan FILE. Run it: l4sbench run FILE.\n"
        "# What a factor means: l4sbench explain NAME. Every key: l4sbench docs matrix.\n"
    )


def _lines(lines: Iterable[tuple[str, str]]) -> str:
    """Return lines, each with what it is about as a comment."""
    return "".join(
        f"{line.ljust(_COLUMN - 1)} # {about}\n" if about else f"{line}\n" for line, about in lines
    )


_Lines: TypeAlias = list[tuple[str, str]]


def _queues(made: Mapping[str, str], catalog: Catalog) -> tuple[list[tuple[str, str, str]], _Lines]:
    """Return factors of queues and limits with their values, and the lines of an axis of both together."""
    aqm = ("aqm", made["queues"], "queues at the bottleneck: l4sbench list queues")
    queues = [catalog.queue(name) for name in _split(made["queues"])]
    limits = {queue.name: f"aqm.{queue.buffer}" for queue in queues if queue.keeps_own_limit}
    buffers = made["buffers"]
    if buffers == OWN:
        buffers = ",".join(map(str, _quickstart()["axes"]["buffer_bdp"]))
    if made["buffers"] != OWN or not limits:
        return [aqm, ("buffer_bdp", buffers, "limit of the queue in bandwidth-delay products")], []
    if len(limits) == len(queues) and len(names := set(limits.values())) == 1:
        return [aqm, (names.pop(), OWN, "the queue's own limit, as on a router that sets none")], []
    lines = [("  queue:", f"{OWN}: its own limit; a FIFO needs one, in bandwidth-delay products")]
    for queue in queues:
        if queue.name in limits:
            lines.append((f"    - {{aqm: {queue.name}, {limits[queue.name]}: {OWN}}}", ""))
        else:
            lines += ((f"    - {{aqm: {queue.name}, buffer_bdp: {size}}}", "") for size in _split(buffers))
    return [], lines


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
