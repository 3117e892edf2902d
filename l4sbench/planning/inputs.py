# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The inputs digest of a trial, which covers everything that decides what the trial does.

It covers the cell, its topology, the catalog entries that it uses, the code that makes programs, the seed,
and the testbed's software: kernel, userland and sampler, and the modules and the traffic tool that this cell
uses. It is cheap because no programs are made for it. A queue that is added to the catalog, or a rebuilt
module that a cell does not load, does not change the digest of that cell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk import assets
from l4sbench.disk.memo import Memo
from l4sbench.facts.factors import DEFAULT_LAB, refers
from l4sbench.facts.traits import Needs
from l4sbench.program.refusals import lab_refusals, refusals
from l4sbench.program.trial import seed_of
from l4sbench.program.uses import Uses, executables, kernel_options, modules, senders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from l4sbench.catalog import Catalog, CongestionControl, Queue
    from l4sbench.errors import Problem
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.traits import Identity, TestbedTraits
    from l4sbench.text.units import Value

DIGITS: Final = 12
"""Hex digits of an inputs digest, which distinguishes the inputs of one trial of one cell."""

AUTHORS: Final = (
    *("catalog", "disk/executables.py", "disk/workloads.py", "program", "text/units.py", "topology"),
    "traffic",
)
"""Packages and modules of l4sbench that make programs and conditions."""

READERS: Final = frozenset(
    {"check.py", "describe.py", "outside.py", "readback.py", "refusals.py", "__main__.py"}
)
"""Files there that only inspect cells and results, or describe: better words do not make a trial new."""

_SIZES: Final = frozenset({"rate", "rtt", "buffer_bdp"})
"""Factors that a cell needs nothing for, and that large matrices have the most values of."""

_MOST_SEEN: Final = 100_000


@cache
def authors_digest() -> str:
    """Return the digest of all source files that decide what is in a program."""
    here = Path(__file__).parents[1]
    found = (
        file
        for name in AUTHORS
        for file in ((here / name).glob("*.py") if (here / name).is_dir() else [here / name])
    )
    files = [file for file in sorted(found) if file.name not in READERS]
    memo = Memo.of("authors", code=(Path(__file__), Path(assets.__file__)), data=files)
    if isinstance(known := memo.load(), str):  # parsing all of them takes long
        return known
    made = _hash([[file.name, assets.digest(file)] for file in files])
    memo.save(made)
    return made


class TrialInputs:
    """Digests of the trials of one matrix on one testbed; with `capture`, of trials with captures."""

    def __init__(
        self,
        catalog: Catalog,
        matrix_seed: int,
        identity: Identity,
        traits: TestbedTraits,
        *,
        capture: bool = False,
    ) -> None:
        self._capture = capture
        self._catalog = catalog
        self._matrix_seed = matrix_seed
        self.identity = identity
        self._traits = traits
        self._bases: dict[str, hashlib._Hash] = {}
        self._parts: dict[tuple[str, Uses], bytes] = {}
        self._seeds: dict[int, bytes] = {}
        self._topologies: dict[str, bytes] = {}

    def digests(self, cell: Cell, trials: Iterable[int]) -> list[str]:
        """Return the inputs digests of these trials of a cell."""
        return self._digests(cell, trials, capture=self._capture)

    def accepted(self, cell: Cell, trials: Iterable[int]) -> list[tuple[str, ...]]:
        """Return for each trial the digests of results that serve: its own, then that with captures.

        A trial with captures serves where none are wanted, but not the other way round.
        """
        variants = (self._capture, True) if cell.capture == "off" and not self._capture else (self._capture,)
        numbers = tuple(trials)
        return list(zip(*(self._digests(cell, numbers, capture=one) for one in variants), strict=True))

    def without_capture(self, cell: Cell, trials: Iterable[int]) -> list[str]:
        """Return the digests of these trials without captures; empty where these inputs ask for none."""
        numbers = tuple(trials)
        if not self._capture or cell.capture != "off":
            return [""] * len(numbers)
        return self._digests(cell, numbers, capture=False)

    def _digests(self, cell: Cell, trials: Iterable[int], *, capture: bool) -> list[str]:
        total = self._base(cell.lab).copy()
        total.update(self._part(cell.lab, Uses.of(cell, self._traits)))
        total.update("\0".join((cell.id, *cell.group_names)).encode())
        total.update(self._topology(cell.topology))
        for workload in _workloads(cell.given):
            from l4sbench.disk.workloads import digest  # slow to import, and few cells need it

            total.update(f"\0{digest(str(cell.factors[workload]))}".encode())
        for program in sorted(executables(cell)):
            total.update(f"\0{self._catalog.executable(program).digest}".encode())
        if capture and cell.capture == "off":  # otherwise the cell's id says so
            total.update(b"\0capture")
        found = []
        for trial in trials:
            one = total.copy()
            one.update(self._seed(trial))
            found.append(one.hexdigest()[:DIGITS])
        return found

    def _base(self, lab: str) -> hashlib._Hash:
        if lab not in self._bases:
            identity = self.identity.of(lab)
            about = [
                authors_digest(),
                identity.testbed,
                identity.kernel_release,
                dict(identity.common),
                self._traits.wires,
            ]
            self._bases[lab] = hashlib.sha256(_canonical(about))
        return self._bases[lab]

    def _seed(self, trial: int) -> bytes:
        if trial not in self._seeds:
            self._seeds[trial] = f"\0{seed_of(self._matrix_seed, trial)}".encode()
        return self._seeds[trial]

    def _topology(self, name: str) -> bytes:
        if name not in self._topologies:
            self._topologies[name] = f"\0{self._catalog.topology(name).digest}".encode()
        return self._topologies[name]

    def _part(self, lab: str, names: Uses) -> bytes:
        """Digests of the queue, the traffic tool and the congestion controls, in catalog and testbed."""
        key = (lab, names)
        if key not in self._parts:
            identity = self.identity.of(lab)
            used = names.entries(self._catalog)
            loaded = sorted(modules(used) | {f"CONFIG_{name}" for name in kernel_options(used)})
            about = [
                [entry.digest for entry in used],
                {name: identity.modules[name] for name in loaded if name in identity.modules},
                [identity.tools.get(tool, "") for tool in names.tools],
                names.tools,
            ]
            self._parts[key] = _canonical(about)
        return self._parts[key]


def entries_used(
    catalog: Catalog, cells: Iterable[Cell], traits: TestbedTraits
) -> list[Queue | CongestionControl]:
    """Return the catalog entries that these cells use, each once."""
    return _entries_of(catalog, {Uses.of(cell, traits) for cell in _samples(cells)})


def _entries_of(catalog: Catalog, names: Iterable[Uses]) -> list[Queue | CongestionControl]:
    found = (entry for used in sorted(names) for entry in used.entries(catalog))
    return list({(type(entry), entry.name): entry for entry in found}.values())


def needs(catalog: Catalog, cells: Iterable[Cell], traits: TestbedTraits, *, capture: bool = False) -> Needs:
    """Return what these cells need from a testbed, with the packets of all trials captured or not."""
    listed = _samples(cells)
    kinds = {(cell.factors["topology"], Uses.of(cell, traits), cell.factors["capture"]) for cell in listed}
    names = {used for _, used, _ in kinds}
    found = _entries_of(catalog, names)
    options: dict[str, frozenset[str]] = {}
    for entry in found:  # a queue and a congestion control may share a name
        options[entry.name] = options.get(entry.name, frozenset()) | frozenset(entry.needs.config)
    return Needs(
        topologies=frozenset(str(topology) for topology, *_ in kinds),
        queues=frozenset(used.queue for used in names),
        traffic=frozenset(tool for used in names for tool in used.tools),
        congestion_controls=frozenset(cc for used in names for cc in used.ccs),
        modules=frozenset(modules(found)),
        options=options,
        catalog=catalog.folders,
        capture=capture or any(kind[2] != "off" for kind in kinds),
        hosts=frozenset(_only_of_hosts(listed)),
        executables=executables_used(listed),
        labs=labs_used(listed) - {DEFAULT_LAB},
        families=frozenset(cell.family for cell in listed),
    )


def impossible(cells: Iterable[Cell], traits: TestbedTraits) -> list[Problem]:
    """Return why a testbed with these traits cannot run some of these cells, whatever its hosts are."""
    refuse = lab_refusals if traits.wires else refusals
    return list(dict.fromkeys(problem for cell in _samples(cells) for problem in refuse(cell)))


def _samples(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Return cells such that each other one differs from one of them in `_SIZES` alone.

    Few are returned twice. What was seen is forgotten when it is much, as then hardly any are alike.
    """
    cells = tuple(cells)  # kept, as their halves are told apart by their addresses
    found: list[Cell] = []
    seen: set[object] = set()
    halves: set[tuple[int, int]] = set()
    rests: dict[int, int] = {}  # of each mapping of own values, which of their kind it is
    kinds: dict[object, int] = {}
    for cell in cells:
        rest = rests.get(id(cell.own))
        if rest is None:
            kind = tuple(item for item in cell.own.items() if item[0] not in _SIZES)
            rest = rests[id(cell.own)] = kinds.setdefault(kind, len(kinds))
        half = (id(cell.common), rest)
        if half in halves:
            continue
        if len(halves) >= _MOST_SEEN:
            halves.clear()
            seen.clear()
        halves.add(half)
        given = cell.given
        key = (given, _besides_sizes(given)(cell.factors))
        if key not in seen:
            seen.add(key)
            found.append(cell)
    return tuple(found)


@lru_cache(maxsize=1024)
def _besides_sizes(given: frozenset[str]) -> Callable[[Mapping[str, Value]], object]:
    return itemgetter("topology", "aqm", *sorted(given - _SIZES))


def _only_of_hosts(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield the factors of these cells that need the wall clock."""
    for cell in cells:
        yield from (f"{group.name}.send" for group in cell.groups if group.kind.hosts_only)


@lru_cache(maxsize=1024)
def _workloads(given: frozenset[str]) -> tuple[str, ...]:
    """Return which factors name a workload, in order."""
    return tuple(sorted(name for name in given if refers(name, "workload")))


def executables_used(cells: Iterable[Cell]) -> frozenset[str]:
    """Return the programs of the user's own and of senders that these cells run, by name."""
    return frozenset(name for cell in _samples(cells) for name in executables(cell))


def senders_used(cells: Iterable[Cell]) -> frozenset[str]:
    """Return the senders that these cells use, by name."""
    return frozenset(name for cell in _samples(cells) for name in senders(cell))


def labs_used(cells: Iterable[Cell]) -> frozenset[str]:
    """Return the values of the factor `lab` in these cells."""
    return frozenset(cell.lab for cell in _samples(cells))


def _hash(value: object) -> str:
    return hashlib.sha256(_canonical(value)).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
