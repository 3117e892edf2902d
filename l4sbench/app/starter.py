# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A first matrix: choices become a commented file that `plan` accepts.

Whatever is not chosen is as in the matrix `quickstart`.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench import assets
from l4sbench.errors import BadValueError, InputError, Problem
from l4sbench.factors import FACTORS, MAX_TRIALS
from l4sbench.files import write_whole
from l4sbench.parameters import Parameter

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog

_COLUMN: Final = 34
_TRIALS: Final = Parameter("trials", "int", minimum=1, maximum=MAX_TRIALS)


@dataclass(frozen=True)
class Option:
    """Something that is chosen.

    Attributes:
        name: as the option of `l4sbench init`, without dashes.
        question: what it is.
        several: True if commas separate several values, all of which are crossed.
    """

    name: str
    question: str
    several: bool = False


CHOICES: Final = (
    Option("cc", "congestion control in question"),
    Option("against", "congestion control that it competes with", several=True),
    Option("queues", "queues at the bottleneck", several=True),
    Option("rate", "rate of the bottleneck", several=True),
    Option("rtt", "round-trip time without queues", several=True),
    Option("buffers", "buffer in bandwidth-delay products", several=True),
    Option("duration", "measured time of a trial"),
    Option("trials", "trials per cell"),
)


@dataclass(frozen=True)
class Starter:
    """The choices of a first matrix, each as one text; those that are not made are the defaults."""

    catalog: Catalog
    chosen: Mapping[str, str] = field(default_factory=dict)

    @property
    def defaults(self) -> Mapping[str, str]:
        """The choices of the matrix `quickstart`."""
        from l4sbench.document import read

        found = read(assets.folder("matrices") / "quickstart.yaml").content
        if not isinstance(found, dict):
            raise TypeError("quickstart.yaml is not a map")
        flows, axes = found["flows"], found["axes"]
        if not isinstance(flows, dict) or not isinstance(axes, dict):
            raise TypeError("quickstart.yaml has no flows or axes")
        (first, second) = (group["cc"] for group in flows.values() if isinstance(group, dict))
        texts = {name: str(found[name]) for name in ("rate", "rtt", "duration", "trials")}
        listed = {"queues": axes["aqm"], "buffers": axes["buffer_bdp"]}
        return {
            "cc": str(first),
            "against": str(second),
            **{
                name: ",".join(map(str, values))
                for name, values in listed.items()
                if isinstance(values, list)
            },
            **texts,
        }

    def choose(self, name: str, text: str) -> Starter:
        """Return the starter with one more choice.

        Raises:
            InputError: it is not valid.
        """
        values = _split(text)
        choice = next(one for one in CHOICES if one.name == name)
        problems = [Problem("", f"--{name}", "needs a value")] if not values else []
        if len(values) > 1 and not choice.several:
            problems.append(Problem("", f"--{name}", f"takes one value, not {len(values)}"))
        for value in values:
            try:
                self._check(name, value)
            except (BadValueError, InputError) as error:
                wrong = error.problems[0] if isinstance(error, InputError) else error
                problems.append(Problem("", f"--{name}", wrong.message, wrong.hint))
        if problems:
            raise InputError(problems)
        return replace(self, chosen={**self.chosen, name: ",".join(values)})

    def _check(self, name: str, value: str) -> None:
        match name:
            case "queues":
                self.catalog.queue(value)
            case "cc" | "against":
                self.catalog.congestion_control(value)
            case "trials":
                _TRIALS.parse(value)
            case "buffers":
                FACTORS["buffer_bdp"].parse(value)
            case _:
                FACTORS[name].parse(value)

    def write(self, file: Path) -> int:
        """Write the matrix and return the number of its cells.

        Raises:
            InputError: the file exists, or the choices do not fit together.
        """
        from l4sbench.matrix import Matrix

        if file.exists() or file.is_symlink():
            raise InputError(f"{file} exists already", "choose another name")
        text = self.text(re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip("-._") or "mine")
        with tempfile.TemporaryDirectory() as folder:
            trial = Path(folder) / "matrix.yaml"
            trial.write_text(text, encoding="utf-8")
            try:
                cells = Matrix.load(trial, self.catalog).cells
            except InputError as error:
                raise InputError([replace(problem, where="") for problem in error.problems]) from None
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
        return len(cells)

    def text(self, matrix: str) -> str:
        """Return the text of the file."""
        made = {**self.defaults, **self.chosen}
        against = _split(made["against"])
        fixed: list[tuple[str, str]] = []
        axes: list[tuple[str, str]] = []
        factors = (
            ("rate", made["rate"], "rate of the bottleneck"),
            ("rtt", made["rtt"], "round-trip time without queues"),
            ("aqm", made["queues"], "queues at the bottleneck: l4sbench list queues"),
            ("buffer_bdp", made["buffers"], "limit of the queue in bandwidth-delay products"),
            ("classic.cc", made["against"] if len(against) > 1 else "", "l4sbench list ccs"),
            ("classic.ecn", self._ecn(against), "how the classic group uses ECN"),
        )
        for name, listed, about in factors:
            # a bare off is a boolean in YAML 1.1
            values = [json.dumps(one) if one == "off" else one for one in _split(listed)]
            if len(values) == 1:
                fixed.append((f"{name}: {values[0]}", about))
            elif values:
                axes.append((f"  {name}: [{', '.join(values)}]", about))
        schema = assets.folder("matrices") / "matrix.schema.json"
        alone = f"{{cc: {against[0]}}}" if len(against) == 1 else "{}"
        lines = [
            (f"matrix: {matrix}", f"its name; results go to runs/{matrix}/"),
            (f"description: Is it okay to switch to {made['cc']}?", ""),
            ("topology: line6", "two senders, a delay, a router, two receivers"),
            *fixed,
            (
                f"duration: {made['duration']}",
                "measured time; `warmup: 2s` would come before it and not count",
            ),
            (f"trials: {made['trials']}", "repetitions of each cell; intervals need 3 or more"),
            ("flows:", "named groups; each has its own sender and receiver"),
            (f"  l4s: {{cc: {made['cc']}}}", "the group in question; `count: 2` would make it two flows"),
            (f"  classic: {alone}", "the group it competes with"),
            *([("axes:", "lists are crossed: each combination is a cell")] if axes else []),
            *axes,
        ]
        return "".join(
            (
                f"# yaml-language-server: $schema={schema}\n",
                "# Check it and list its cells: l4sbench plan FILE. Run it: l4sbench run FILE.\n",
                "# What a factor means: l4sbench explain NAME. Every key: l4sbench docs matrix.\n",
                *(
                    f"{line.ljust(_COLUMN - 1)} # {about}\n" if about else f"{line}\n"
                    for line, about in lines
                ),
            )
        )

    def _ecn(self, against: list[str]) -> str:
        """Return the ways of using ECN to compare: without and with marks, where each one reacts to them."""
        controls = [self.catalog.congestion_control(name) for name in against]
        both = all("off" in one.ecn_allowed and "classic" in one.ecn_reacts for one in controls)
        return "off,classic" if both else ""


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
