# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Everything that has a name in matrices and on the command line, for `list` and `explain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from l4sbench.app.pages import glossary
from l4sbench.app.shipped import Shipped, ShippedMatrix, ShippedSheet
from l4sbench.catalog.describe import Description, described, facts
from l4sbench.catalog.senders import SENDER_FILE
from l4sbench.disk import assets
from l4sbench.disk.userfiles import short
from l4sbench.errors import InputError, did_you_mean
from l4sbench.facts.factors import FACTORS, GROUP_FACTORS, RESERVED
from l4sbench.topology import find_topology, is_path, offered, topology

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CatalogEntry
    from l4sbench.catalog.senders import SenderEntry
    from l4sbench.topology import Topology

Facts: TypeAlias = tuple[tuple[str, str], ...]
Row: TypeAlias = Mapping[str, str]

GROUP: Final = "<group>"
"""Stands for the name of any flow group."""


@dataclass(frozen=True)
class Term:
    """A name and what it means.

    Attributes:
        name: as matrices and commands state it.
        kind: `queue`, `congestion control`, `sender`, `factor`, `parameter`, `key of a matrix`, `rule`,
            `matrix`, `topology`, `workload`, `sheet`, `row of a sheet` or, of the glossary, `word`.
        about: a sentence or more.
        facts: pairs of heading and text.
        params: parameters of a queue or congestion control.
        drawing: lines that draw a topology.
    """

    name: str
    kind: str
    about: str
    facts: Facts
    params: tuple[Description, ...] = ()
    drawing: tuple[str, ...] = ()


KINDS: Final[Mapping[str, str]] = {
    "queue": "queue",
    "cc": "congestion control",
    "sender": "sender",
    "factor": "factor",
    "parameter": "parameter",
    "key": "key of a matrix",
    "rule": "rule",
    "matrix": "matrix",
    "topology": "topology",
    "workload": "workload",
    "sheet": "sheet",
}
"""Word by which a command asks for one kind of thing -> the kind of `Term`."""

LISTS: Final[Mapping[str, str]] = {
    "queues": "queues at the bottleneck, for the factor aqm",
    "ccs": f"congestion controls, for the factor {GROUP}.cc",
    "senders": f"senders such as QUIC stacks, for the factor {GROUP}.send",
    "factors": "factors of cells and flow groups",
    "rules": "rules for verdicts",
    "matrices": "matrices that ship with l4sbench",
    "topologies": "named nodes and networks, for the factor topology",
    "sheets": "requirements of standards, for l4sbench conform",
    "runs": "run directories",
}
"""Everything that can be listed."""


def names(catalog: Catalog) -> tuple[str, ...]:
    """Return every name that has an explanation."""
    found = (*(word.name for word in _words(catalog)), *(one.name for one in Shipped.load().matrices))
    return tuple(dict.fromkeys(found))


def explain(name: str, catalog: Catalog, kind: str = "") -> tuple[Term, ...]:
    """Return everything that a name means; names of factors may lack their first part, or have any group's.

    Args:
        name: the name; of a topology, also the path of its file; of a row of a sheet, `SHEET/ROW`.
        catalog: the queues and congestion controls that there are.
        kind: only things of this kind, one of `KINDS`; empty: of every kind.

    Raises:
        InputError: it means nothing; the hint has similar names. Or a topology's file is not valid.
    """
    sheet, slash, row = name.partition("/")
    if slash and sheet in standards():
        return (_row_of_sheet(sheet, row),)
    if kind == "topology" or (not kind and is_path(name)):
        return (_drawn(find_topology(name)),)
    factor, equals, value = name.partition("=")
    if equals and not kind:  # as filters have it
        of_value: tuple[Term, ...] = ()
        with suppress(InputError):  # most values are numbers
            of_value = explain(value, catalog)
        return (*of_value, *explain(factor, catalog))
    name = catalog.queue_name(name)
    known = [*_words(catalog), *(_matrix(one) for one in Shipped.load().matrices if one.name == name)]
    if kind:
        known = [word for word in known if word.kind == KINDS[kind]]
    head, dot, rest = name.partition(".")
    generic = f"{GROUP}.{rest}" if dot and head not in RESERVED else name
    folded = name.casefold()
    for matches in (
        lambda word: word.name in (name, generic),
        lambda word: word.name.casefold() == folded or word.name.partition(".")[2] == name,
        lambda word: dict(word.facts).get("label", "").casefold() == folded,
    ):
        if found := tuple(word for word in known if matches(word)):
            return tuple(_drawn(topology(one.name)) if one.kind == "topology" else one for one in found)
    if not kind and (meant := _of_glossary(folded)):
        return meant
    every = tuple(word.name for word in known) if kind else names(catalog)
    owner = generic.partition(".")[0]
    siblings = [one.partition(".")[2] for one in every if dot and one.startswith(f"{owner}.")]
    hint = did_you_mean(rest, siblings) or did_you_mean(name, every)
    message = f"no {KINDS[kind]} is called {short(name)}" if kind else f"nothing is called {short(name)}"
    raise InputError(message, hint or "l4sbench list prints what there is")


def _of_glossary(folded: str) -> tuple[Term, ...]:
    """Return words of the documents and of decision tables: the one of this name, else those with it.

    They do not hide what matrices can name.
    """
    found = {word.casefold(): (word, meaning) for word, meaning in glossary().items()}
    names = [folded] if folded in found else [name for name in found if folded in name.split()]
    more = (("more", "l4sbench docs reading words"),)
    return tuple(Term(word, "word", meaning, more) for word, meaning in map(found.__getitem__, names))


def _words(catalog: Catalog) -> Iterator[Term]:
    for kind, entries in (("queue", catalog.queues), ("congestion control", catalog.congestion_controls)):
        for entry in entries.values():
            yield Term(entry.name, kind, entry.about, _entry_facts(entry), _params(entry))
    for sender in catalog.senders.values():
        yield Term(sender.name, "sender", sender.stated.about, _sender_facts(sender))
    for factor in _factors():
        yield Term(factor.name, "factor", f"{factor.meaning}.", _param_facts(factor))
    yield from _parameters("aqm", catalog.queues.values())
    yield from _parameters(GROUP, catalog.congestion_controls.values())
    shipped = Shipped.load()
    yield from (Term(key.name, "key of a matrix", key.about, key.facts) for key in shipped.keys)
    yield from (Term(rule.name, "rule", rule.about, rule.facts) for rule in shipped.rules)
    yield from (Term(name, "topology", "", ()) for name in offered())
    yield from (Term(one.name, "workload", one.about, one.facts) for one in shipped.workloads)
    yield from map(_sheet, shipped.sheets)


def standards() -> tuple[str, ...]:
    """Return the names of all sheets."""
    from reports.published.standards.model import offered as sheets_offered

    return sheets_offered()


def _row_of_sheet(sheet: str, name: str) -> Term:
    """Return a row with its limits. Raises InputError if the sheet has no such row."""
    import json

    from reports.published.standards.model import Kind, load_sheet
    from reports.published.standards.render import filters, limits, measure

    found = load_sheet(sheet)
    row = found.row(name)
    facts = [("section", f"{row.section} of {found.document}"), ("level", row.level.value)]
    facts += [("applies to", f"a {row.applies.value}{' for L4S' if row.l4s_only else ''}")]
    if row.not_possible:
        facts.append(("not possible here", row.not_possible))
    elif row.settings or row.statistics:
        for kind, named in (("setting", row.settings), ("statistic", row.statistics)):
            facts += [(kind, f"{what}: {' or '.join(names)}") for what, names in named.items()]
    else:
        facts.append(("matrix", json.dumps(found.content(row)[0], ensure_ascii=False)))
    for claim in row.claims:
        where = f", where {' '.join(filters(claim))}" if claim.where else ""
        facts.append(("claim", f"{measure(claim)} {limits(claim)}{where}"))
    facts += [("must fail", f"{one.candidate}, as {one.because}") for one in row.controls]
    facts += [("remark", row.remark.strip())] if row.remark else []
    option = "--aqm" if row.applies is Kind.QUEUE else "--cc"
    run = ("run", f"l4sbench conform {sheet} --row {row.id} {option} NAME")
    return Term(f"{sheet}/{row.id}", "row of a sheet", row.requires.strip(), (*facts, run))


def _drawn(found: Topology) -> Term:
    from l4sbench.app.drawing import drawing

    own = (("source", found.source), ("file", str(found.file or "")))
    stated = tuple((heading, text) for heading, text in own if text)
    return Term(found.name, "topology", found.about, stated, drawing=drawing(found))


def _entry_facts(entry: CatalogEntry) -> Facts:
    file = str(entry.folder / "module.yml")
    return (("label", entry.label), *facts(entry), ("source", "; ".join(entry.sources)), ("file", file))


def _sender_facts(sender: SenderEntry) -> Facts:
    stated = sender.stated
    first, *_ = stated.ccs
    return (
        ("label", stated.label),
        ("version", stated.version),
        ("licence", stated.licence),
        ("in a matrix", f"{GROUP}: {{send: {sender.name}, cc: {first}}}, and capture: headers"),
        *((f"cc {own}", cc.about) for own, cc in stated.ccs.items()),
        ("codepoints", ", ".join(sender.codepoints)),
        ("qlog", "yes" if stated.qlog else "no"),
        ("built", "yes" if sender.program.is_built else f"no; l4sbench senders build {sender.name}"),
        ("source", "; ".join(stated.sources)),
        ("file", str(sender.folder / SENDER_FILE)),
    )


def _params(entry: CatalogEntry) -> tuple[Description, ...]:
    return tuple(described(param, entry) for param in entry.params.values())


def _param_facts(param: Description) -> Facts:
    kind = "" if param.kind == "word" and param.values else param.kind
    found = (
        ("values", ", ".join(text for text in (kind, param.values) if text)),
        ("default", param.default),
        ("applies where", param.when),
        ("source", param.source),
    )
    return tuple((heading, text) for heading, text in found if text)


def _parameters(owner: str, entries: Iterable[CatalogEntry]) -> Iterator[Term]:
    """Yield the parameters of entries; those that are alike in several entries once."""
    found: dict[tuple[str, str, Facts], list[CatalogEntry]] = {}
    for entry in entries:
        for param in _params(entry):
            found.setdefault((param.name, param.meaning, _param_facts(param)[:-1]), []).append(entry)
    for (name, meaning, values), owners in found.items():
        of = ("of", ", ".join(entry.name for entry in owners))
        sources = dict.fromkeys(
            text
            for entry in owners
            for text in ([entry.params[name].source] if entry.params[name].source else entry.sources)
        )
        source = (("source", "; ".join(sources)),) if sources else ()
        yield Term(f"{owner}.{name}", "parameter", f"{meaning}.", (of, *values, *source))


def _factors() -> Iterator[Description]:
    for prefix, table in (("", FACTORS), (f"{GROUP}.", GROUP_FACTORS)):
        for factor in table.values():
            found = described(factor)
            yield replace(found, name=f"{prefix}{found.name}", source=found.source or "l4sbench docs matrix")


def queues(catalog: Catalog) -> list[Row]:
    """Return a row for every queue."""
    return [
        {
            "queue": queue.name,
            "label": queue.label,
            "family": queue.family,
            "marks": ", ".join(queue.marks) or "-",
            "L4S": "yes" if queue.l4s else "no",
            "Linux": queue.needs.kernel or "",
            "about": queue.about,
        }
        for queue in catalog.queues.values()
    ]


def ccs(catalog: Catalog) -> list[Row]:
    """Return a row for every congestion control."""
    return [
        {
            "cc": control.name,
            "label": control.label,
            "L4S": "yes" if control.l4s else "no",
            "ECN": ", ".join(control.ecn_allowed),
            "Linux": control.needs.kernel or "",
            "about": control.about,
        }
        for control in catalog.congestion_controls.values()
    ]


def senders(catalog: Catalog) -> list[Row]:
    """Return a row for every sender."""
    return [
        {
            "sender": sender.name,
            "version": sender.stated.version,
            "ccs": ", ".join(sender.stated.ccs),
            "codepoints": ", ".join(sender.codepoints),
            "built": "yes" if sender.program.is_built else "no",
            "about": sender.stated.about,
        }
        for sender in catalog.senders.values()
    ]


def factors() -> list[Row]:
    """Return a row for every factor of cells and flow groups, without parameters of the catalog."""
    return [
        {
            "factor": factor.name,
            "default": factor.default,
            "values": factor.values or factor.kind,
            "meaning": factor.meaning,
        }
        for factor in _factors()
    ]


def rules() -> list[Row]:
    """Return a row for every rule for verdicts that ships with l4sbench."""
    return [
        {"rule": rule.name, **dict(rule.facts[1:3]), "about": rule.about} for rule in Shipped.load().rules
    ]


def ships(file: Path) -> bool:
    """Return True if this is the file of a matrix that ships with l4sbench."""
    return file.resolve().parent == assets.folder("matrices").resolve()


def matrices() -> list[Row]:
    """Return a row for every matrix that ships with l4sbench, study after study, those without one first.

    The time is that of the virtual testbed on this machine as it is now.
    """
    from l4sbench.planning.cost import CostBook
    from l4sbench.testbeds.virtual.traits import TRAITS

    at_once = TRAITS.workers()
    costs = CostBook.of("virtual", TRAITS).costs(at_once)

    def time_of(one: ShippedMatrix) -> str:
        work_s = {work.kind: costs.work_s(work) for work in one.work}
        longest_s = max((costs.work_s(work) / work.trials for work in one.work), default=0.0)
        return str(costs.estimate(work_s, at_once, longest_s)) if one.cells is not None else ""

    return [
        {
            "study": one.study,
            "matrix": one.name,
            "cells": "" if one.cells is None else str(one.cells),
            "time": time_of(one),
            "quick": "yes" if one.quick else "",
            "description": one.about,
        }
        for one in sorted(Shipped.load().matrices, key=lambda one: one.study)
    ]


def _matrix(one: ShippedMatrix) -> Term:
    facts = [("file", str(one.file)), ("run", f"l4sbench run {one.name}")]
    if one.quick:
        facts.append(("quick", f"l4sbench run {one.name} --quick"))
    return Term(one.name, "matrix", one.about, tuple(facts))


def sheets() -> list[Row]:
    """Return a row for every sheet that ships with l4sbench."""
    return [
        {
            "sheet": one.name,
            "rows": str(len(one.rows)),
            "measured": str(one.measured),
            "document": one.document,
            "about": one.about,
        }
        for one in Shipped.load().sheets
    ]


def _sheet(one: ShippedSheet) -> Term:
    run = ("run", f"l4sbench conform {one.name} --cc NAME --aqm NAME")
    return Term(one.name, "sheet", f"{one.document}. {one.about}", (run, *one.rows))


def topologies() -> list[Row]:
    """Return a row for every topology that ships with l4sbench."""
    return [
        {
            "topology": one.name,
            "nodes": str(len(one.nodes)),
            "bottlenecks": ", ".join(f"{port.node} to {port.network}" for port in one.bottlenecks),
            "flow groups": ", ".join(group for group in one.groups if group) or f"any {len(one.pairs)}",
            "about": one.about,
        }
        for one in map(topology, offered())
    ]
