# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The rule that judges a matrix's cells, found before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError, Problem
from l4sbench.traffic import kind_of_send

if TYPE_CHECKING:
    from l4sbench.matrix import Matrix
    from reports.result.rules import Rule

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
        InputError: there is no such rule, no flow group has one of its roles, or one that has does not send
            as fast as it can.
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
    groups = matrix.asked[0].group_names
    lacking = {role: group for role, group in _roles(rule).items() if group not in groups}
    if not lacking:
        if (odd := _not_bulk(matrix, rule)) is not None:
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


def _suggested(matrix: Matrix, groups: tuple[str, ...]) -> str:
    """Return the key `roles` that the matrix probably means, by which of its groups are L4S."""
    controls, cell = matrix.catalog.congestion_controls, matrix.asked[0]
    named = {group: controls.get(str(cell.factors[f"{group}.cc"])) for group in groups}
    is_l4s = {group: control is not None and control.l4s for group, control in named.items()}
    l4s = next((group for group in groups if is_l4s[group]), groups[0])
    classic = next((group for group in groups if group != l4s and not is_l4s[group]), None)
    classic = classic or next(group for group in groups if group != l4s)
    return f"roles: {{l4s: {l4s}, classic: {classic}}}"
