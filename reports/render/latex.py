# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The decision table for a paper: LaTeX with booktabs, signs defined once so that a paper can change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from reports.render.terminal import notes
from reports.result.verdicts import Verdict, Word

if TYPE_CHECKING:
    from reports.result.regret import Regret
    from reports.result.verdicts import CellMean, Decision

_SIGNS: Final[Mapping[Word, tuple[str, str]]] = {
    Word.OK: ("LsbOk", r"\ensuremath{\checkmark}"),
    Word.L4S_STARVED: ("LsbStarved", r"\ensuremath{\blacktriangledown}"),
    Word.CLASSIC_STARVED: ("LsbStarves", r"\ensuremath{\blacktriangle}"),
    Word.BOTH: ("LsbBoth", r"\ensuremath{\blacklozenge}"),
    Word.UNDECIDED: ("LsbUndecided", r"\textbf{?}"),
    Word.INVALID: ("LsbInvalid", r"\ensuremath{\times}"),
}
"""Word -> the command that stands for it, and what it is unless a paper says otherwise."""

_STARS: Final = {
    "all": ("LsbStar", r"\ensuremath{\bigstar}"),
    "some": ("LsbSomeStar", r"\ensuremath{\star}"),
}

_GLYPHS: Final = {
    "✓": rf"\{_SIGNS[Word.OK][0]}{{}}",
    "▼": rf"\{_SIGNS[Word.L4S_STARVED][0]}{{}}",
    "▲": rf"\{_SIGNS[Word.CLASSIC_STARVED][0]}{{}}",
    "◆": rf"\{_SIGNS[Word.BOTH][0]}{{}}",
    "★": rf"\{_STARS['all'][0]}{{}}",
    "☆": rf"\{_STARS['some'][0]}{{}}",
}

_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **_GLYPHS,
}


def latex(decision: Decision, regrets: Sequence[Regret] = ()) -> str:
    r"""A `table` per question; `\input` it in a document that uses booktabs and amssymb."""
    lines = ["% written by l4sbench; \\usepackage{booktabs,amssymb}"]
    lines += [rf"\providecommand{{\{name}}}{{{sign}}}" for name, sign in (*_SIGNS.values(), *_STARS.values())]
    for question in decision.questions:
        said = [regret.text for regret in regrets if regret.l4s == question]
        lines += ["", *_question(decision, question, said)]
    return "\n".join(lines) + "\n"


def _question(decision: Decision, question: str, remarks: Sequence[str]) -> list[str]:
    columns = decision.columns(question)
    rule = decision.rule
    caption = f"Is it okay to switch to {question}? Rule {rule.rule}, version {rule.version}."
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(caption)}}}",
        rf"\begin{{tabular}}{{l{'l' * len(columns)}}}",
        r"\toprule",
        rf"Queue & {' & '.join(escape(column) for column in columns)} \\",
        r"\midrule",
    ]
    for row in decision.rows(question):
        entries = [decision.entry(question, row, column) for column in columns]
        verdicts = " & ".join(_verdict(entry) for entry in entries)
        places = " & ".join(_small(entry.worst.label if entry else "") for entry in entries)
        figures = " & ".join(_small(_figures(entry.worst) if entry else "") for entry in entries)
        lines += [rf"{escape(row)} & {verdicts} \\", rf" & {places} \\", rf" & {figures} \\[0.4ex]"]
    noted = [line for line in notes(decision) if not line.startswith("  ")]
    said = r" \\ ".join(escape(line) for line in (*noted, *remarks))
    return [
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
        "",
        rf"\begin{{minipage}}{{\linewidth}}\footnotesize\raggedright {said}\end{{minipage}}",
        r"\end{table}",
    ]


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run"
    star = _STARS.get(verdict.low_latency)
    signs = [f"\\{_SIGNS[verdict.word][0]}{{}}", escape(verdict.word.value)]
    return " ".join([*signs, *([f"\\{star[0]}{{}}"] if star else [])])


def _small(text: str) -> str:
    """What stands below a verdict; nothing below `not run`."""
    return rf"{{\footnotesize {escape(text)}}}" if text else ""


def _figures(cell: CellMean) -> str:
    """The figures of the cell that decides, shorter than elsewhere: percent of the rate, Mbit/s of both."""
    if cell.percent is None or cell.l4s_mbps is None or cell.classic_mbps is None:
        return "no valid trial"
    return f"{cell.percent:.0f} % ({cell.l4s_mbps:.1f} v {cell.classic_mbps:.1f})"


def escape(text: str) -> str:
    """Text as LaTeX prints it, whatever signs it holds."""
    return "".join(_SPECIAL.get(sign, sign) for sign in text)
