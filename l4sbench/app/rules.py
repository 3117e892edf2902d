# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The rule that judges a matrix's cells, found before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError, Problem
from l4sbench.program.timing import length, nominal_start
from l4sbench.traffic import kind_of_send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from l4sbench.facts.cell import Cell
    from l4sbench.facts.groups import Group
    from l4sbench.matrix import Matrix
    from l4sbench.text.units import Value
    from reports.result.rules import Rule

TOGETHER: Final = 0.8
"""Least part of its measured time that a group must have beside the other for a rule to compare them."""
_TIMES: Final = ("count", "start", "every", "lifetime", "stop")
"""Factors of a group that decide when its flows send."""
_APART: Final = ("start", "lifetime", "stop")
"""Those of them that may leave two groups little time in common."""
BULK: Final = "bulk"
NO_RULE: Final = "none"
"""The rule of a matrix without verdicts."""


def find_rule(matrix: Matrix, name: str | None = None) -> Rule | None:
    """Return the rule that judges the cells of a matrix, for the groups that have its roles.

    None for a matrix without verdicts: one that states `rule: none`, or one that states neither rule nor
    roles and has a single flow group.

    Args:
        matrix: The matrix.
        name: The rule, instead of the matrix's.

    Raises:
        InputError: there is no such rule, no flow group has one of its roles, one that has does not send as
            fast as it can, or the two send at different times.
    """
    from reports.result.rules import load_rule, offered

    if (name or matrix.rule) == NO_RULE:
        return None
    try:
        rule = load_rule(name or matrix.rule).for_roles(matrix.roles)
    except InputError as error:
        if name or matrix.rule in offered():
            raise
        problem = error.problems[0]
        raise InputError(
            [Problem(matrix.places.get("rule", ""), "rule", problem.message, problem.hint)]
        ) from None
    if not matrix.asked:  # filters that only baselines match; these are judged with the other cells
        return rule
    groups = matrix.asked[0].group_names
    lacking = {role: group for role, group in _roles(rule).items() if group not in groups}
    if not lacking:
        if (odd := _not_bulk(matrix, rule) or _not_together(matrix, rule)) is not None:
            raise InputError([odd])
        return rule
    if name is None and len(groups) == 1 and not {"rule", "roles"} & matrix.places.keys():
        return None
    raise InputError([_lacking(matrix, rule, groups, lacking, asked=name is not None)])


def require_rule(matrix: Matrix, name: str | None = None) -> Rule:
    """Return the rule as `find_rule` does.

    Raises:
        InputError: as there, and for a matrix without verdicts.
    """
    from reports.result.rules import offered

    rule = find_rule(matrix, name)
    if rule is None:
        groups = ", ".join(matrix.asked[0].group_names)
        raise InputError(
            f"{matrix.name} has no rule for verdicts (flow groups: {groups})",
            f"--rule compares two flow groups by {', '.join(offered())}",
        )
    return rule


def _roles(rule: Rule) -> dict[str, str]:
    return {"l4s": rule.l4s, "classic": rule.classic}


def _lacking(
    matrix: Matrix, rule: Rule, groups: tuple[str, ...], lacking: dict[str, str], *, asked: bool
) -> Problem:
    """Return the problem of a rule that compares groups which the matrix does not have."""
    wanted = " and ".join(lacking.values())
    plural = "s" if len(lacking) > 1 else ""
    message = f"rule {rule.rule} compares the flow groups {rule.l4s} and {rule.classic}; "
    message += f"the matrix has no group{plural} {wanted}"
    where = "" if asked else matrix.places.get("rule") or f"{matrix.path}:1:1"
    factors = matrix.asked[0].factors
    bulk = tuple(group for group in groups if _competes(factors.get(f"{group}.send")))
    if len(bulk) < 2:
        return Problem(where, "rule", message, "write rule: none for a matrix without verdicts")
    return Problem(where, "roles", message, f"write {_suggested(matrix, bulk)}, or rule: none")


def _competes(send: object) -> bool:
    """Return True for what sends as fast as its congestion control lets it: bulk flows, and senders."""
    return send in {None, BULK} or kind_of_send(str(send)).has_controls


def _not_bulk(matrix: Matrix, rule: Rule) -> Problem | None:
    """Return the problem of a rule that compares goodputs with that of, say, a flood."""
    for group in (rule.l4s, rule.classic):
        name = f"{group}.send"
        found = (cell.get(name) for cell in matrix.asked)
        send = next((send for send in found if not _competes(send)), None)
        if send is not None:
            message = (
                f"rule {rule.rule} compares what two groups get that send bulk, but {group} sends {send}"
            )
            where = matrix.places.get("rule") or f"{matrix.path}:1:1"
            return Problem(where, "rule", message, "name others as roles, or write rule: none")
    return None


def _not_together(matrix: Matrix, rule: Rule) -> Problem | None:
    """Return the problem of a rule that compares goodputs of different times, as each is of a flow's own."""
    roles = (rule.l4s, rule.classic)
    apart = {f"{group}.{time}" for group in roles for time in _APART}
    names = ("duration", "warmup", *(f"{group}.{time}" for group in roles for time in _TIMES))
    seen: set[tuple[Value | None, ...]] = set()
    for cell in matrix.asked:
        if apart.isdisjoint(cell.given):
            continue
        # groups take 50 µs a cell, and a matrix may have a million of these
        times = tuple(map(cell.get, names))
        if times in seen:
            continue
        seen.add(times)
        groups = {group.name: group for group in cell.groups}
        spans = [_measured_s(cell, groups[name]) for name in roles]
        shared_s = min(last for _, last in spans) - max(first for first, _ in spans)
        longest_s = max(last - first for first, last in spans)
        if shared_s < TOGETHER * longest_s:
            message = f"rule {rule.rule} compares what {rule.l4s} and {rule.classic} get at the same time"
            message += f", and they share {max(0.0, shared_s):g} of {longest_s:g} s that are measured"
            where = matrix.places.get("rule") or f"{matrix.path}:1:1"
            name, change = _cause(cell, roles, spans)
            return Problem(where, name, message, f"make {change}, or write rule: none")
    return None


def _cause(cell: Cell, roles: tuple[str, str], spans: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """Return the factor because of which two groups have little time in common, and what to change."""
    lengths = [last - first for first, last in spans]
    shorter = roles[lengths.index(min(lengths))]
    if lengths[0] != lengths[1]:
        for end, change in (("lifetime", "longer"), ("stop", "later")):
            if (name := f"{shorter}.{end}") in cell.given:
                return name, f"{name} {change}"
    later = roles[0] if spans[0][0] > spans[1][0] else roles[1]
    return f"{later}.start", f"{later}.start sooner or duration longer"


def _measured_s(cell: Cell, group: Group) -> tuple[float, float]:
    """Return when flows of a group are measured: from the first one's warm-up to the last one's end."""
    first, last = nominal_start(group, 0), nominal_start(group, group.count - 1)
    return first.s + cell.warmup.s, last.s + length(cell, group, last).s


def _suggested(matrix: Matrix, groups: tuple[str, ...]) -> str:
    """Return the key `roles` that the matrix probably means, by which of its groups are L4S."""
    controls, cell = matrix.catalog.congestion_controls, matrix.asked[0]
    named = {group: controls.get(str(cell.factors[f"{group}.cc"])) for group in groups}
    is_l4s = {group: control is not None and control.l4s for group, control in named.items()}
    l4s = next((group for group in groups if is_l4s[group]), groups[0])
    classic = next((group for group in groups if group != l4s and not is_l4s[group]), None)
    classic = classic or next(group for group in groups if group != l4s)
    return f"roles: {{l4s: {l4s}, classic: {classic}}}"
