# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The README of a bundle, for reviewers of artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from reports.render.answer import answers, scope_text
from reports.render.documents import TEMPLATES, decision_table
from reports.render.templating import Markdown, markdown_templates

if TYPE_CHECKING:
    from reports.result.verdicts import Decision


@dataclass(frozen=True)
class About:
    """Facts that a README has about a run besides its verdicts.

    Attributes:
        mark: First line of the README.
        run: Matrix and time of the run, `quickstart/20260102T030405Z`.
        description: What it is about.
        parts: What is in the bundle, by path.
        versions: What made it, one line each.
        licence: SPDX id of its data's licence; empty where `no_licence` says that there is none.
        without: Why there are no verdicts; empty where there are some.
    """

    mark: str
    run: str
    description: str
    parts: Mapping[str, str]
    versions: tuple[str, ...]
    licence: str
    no_licence: str
    without: str


def readme(about: About, decision: Decision | None) -> str:
    """Return the README of a bundle as Markdown."""
    template = markdown_templates(TEMPLATES).get_template("bundle.md.j2")
    return template.render(
        about=about,
        mark=Markdown(about.mark),
        decision=decision,
        answers=()
        if decision is None
        else tuple((question, str(found)) for question, found in answers(decision)),
        scope="" if decision is None else scope_text(decision),
        decision_table=None if decision is None else partial(decision_table, decision),
    )
