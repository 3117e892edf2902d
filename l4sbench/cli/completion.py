# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench completion`: commands, options and names that a shell completes."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import Subparsers, add_command, is_filter, lab_name
from l4sbench.cli.terminal import answer
from l4sbench.errors import L4sbenchError
from l4sbench.facts.factors import DEFAULT_LAB

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell

_SHELLS: Final = ("bash", "zsh", "tcsh")
_RUN: Final = "[A-Za-z0-9][A-Za-z0-9._-]*"
"""Names of matrices, hence of runs, as a regular expression. A shell needs no quotes around any of them."""

_BASH: Final = f"""\
# Names from disk are compared and quoted, never expanded: a folder may be called $(reboot).
_l4sbench_runs() {{
  local name
  for name in runs/*/latest; do
    [[ -e $name ]] || continue
    name=${{name#runs/}}
    name=${{name%/latest}}
    [[ $name =~ ^{_RUN}$ && $name == "$1"* ]] && printf '%s\\n' "$name"
  done
  _l4sbench_paths -d -- "$1"
}}
_l4sbench_paths() {{
  local name
  compgen "$@" | while IFS= read -r name; do
    [[ $name == -* ]] && continue
    [[ -d ${{name/#~\\//$HOME/}} ]] && name+=/
    printf '%s\\n' "$name"
  done
}}
_l4sbench_folders() {{
  _l4sbench_paths -d -- "$1"
}}
_l4sbench_files() {{
  _l4sbench_paths -f -- "$1"
}}
# What depends on the cells of a matrix or run, l4sbench answers; `given` are the words of the line.
_l4sbench_values() {{
  local name cut=${{given[-1]%"$1"}}
  ASKED bash --values -- "${{given[@]}}" 2>/dev/null </dev/null |
    while IFS= read -r name; do [[ $name == "$cut"* ]] && printf '%s\n' "${{name#"$cut"}}"; done
}}
"""
_BASH_MATRICES: Final = """\
  _l4sbench_paths -d -- "$1"
  _l4sbench_paths -f -X "!*.yaml" -- "$1"
  _l4sbench_paths -f -X "!*.yml" -- "$1"
"""
_BASH_COMPLETES: Final = """
# Bash's own quoting of names (-o filenames) leaves some $ and ` as they are, so it is left out here.
_l4sbench() {
  local typed=${COMP_WORDS[COMP_CWORD]} name quoted last=
  local -a offered=() given=()
  for name in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    name=${name//\\\\/}
    # readline takes aqm=codel apart into three words
    if [[ ${#given[@]} -gt 0 && ( $name == '=' || $last == '=' ) ]]; then
      given[-1]+=$name
    else
      given+=("$name")
    fi
    last=$name
  done
  [[ $typed == '=' ]] && typed=
  local plain=${typed//\\\\/}
  COMP_WORDS[COMP_CWORD]=$plain
  _shtab_l4sbench "$@"
  compopt +o filenames 2>/dev/null
  if [[ ${#COMPREPLY[@]} = 0 ]]; then
    while IFS= read -r name; do COMPREPLY+=("$name"); done < <(_l4sbench_files "$plain")
  fi
  for name in "${COMPREPLY[@]}"; do
    [[ $name == "$plain"* && $name != *[[:cntrl:]]* ]] || continue
    printf -v quoted %q "${name:${#plain}}"
    [[ $name == "$plain" ]] && quoted=
    [[ $name == */ || $name == *= ]] && compopt -o nospace 2>/dev/null
    offered+=("$typed$quoted")
  done
  COMPREPLY=("${offered[@]}")
}
complete -F _l4sbench l4sbench
"""
_ZSH: Final = f"""\
# Names from disk are elements of arrays for compadd, which quotes what it inserts and evaluates nothing.
_l4sbench_runs() {{
  local -a names expl
  local name
  for name in runs/*/latest(N:h:t); do
    [[ $name =~ '^{_RUN}$' ]] && names+=($name)
  done
  _l4sbench_offer run _files -/
}}
_l4sbench_offer() {{
  local ret=1
  _wanted names expl $1 compadd -a names && ret=0
  (( $# > 1 )) && "${{@:2}}" && ret=0
  return ret
}}
# What depends on the cells of a matrix or run, l4sbench answers; (z) takes the line apart and runs nothing.
_l4sbench_values() {{
  local -a given names expl
  given=("${{(@Q)${{(@z)LBUFFER}}}}")
  [[ $LBUFFER == *' ' ]] && given+=('')
  names=("${{(@f)$(ASKED zsh --values -- "${{given[@]}}" 2>/dev/null </dev/null)}}")
  _wanted names expl value compadd -S '' -a names
}}
"""
_ASKED: Final = "ASKED"
"""Stands for the program that wrote the completions, by its interpreter: no folder of PATH or of Python's own
path that a user happens to be in takes its place."""


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "completion",
        completion,
        help="print what makes a shell complete commands, options and names",
        examples=(
            "l4sbench completion bash > ~/.local/share/bash-completion/completions/l4sbench",
            "l4sbench completion zsh > DIR/_l4sbench  a folder of $fpath",
        ),
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=f"one of {', '.join(_SHELLS)}")
    parser.add_argument("--values", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(words=[])


def completion(args: argparse.Namespace) -> int:
    """Print the completions of a shell, or, for what it wrote, the words in place of the last of some."""
    if args.values:
        for word in _values(args.parser, args.words):
            answer(word)
        return 0
    import shtab

    words = _words()
    for parser in _parsers(args.parser):
        for action in parser._actions:  # noqa: SLF001  (argparse has no other way)
            _teach(action, words)
    preamble = {"bash": _BASH, "zsh": _ZSH}
    for name, offered in words.items():
        files = name in _WITH_FILES
        listed = shlex.join(offered)
        preamble["bash"] += f'_l4sbench_{name}() {{\n  compgen -W {shlex.quote(listed)} -- "$1"\n'
        preamble["bash"] += f"{_BASH_MATRICES if files else ''}}}\n"
        preamble["zsh"] += f"_l4sbench_{name}() {{\n  local -a names=({listed}) expl\n"
        preamble["zsh"] += f"  _l4sbench_offer {name}{' _files' if files else ''}\n}}\n"
    asked = shlex.join((sys.executable, "-P", "-m", "l4sbench", "completion"))
    preamble = {shell: text.replace(_ASKED, asked) for shell, text in preamble.items()}
    text = shtab.complete(args.parser, args.shell, preamble=preamble)  # type: ignore[arg-type]  # by shell
    if args.shell == "bash":
        text += _BASH_COMPLETES
    elif args.shell == "zsh":  # shtab lets zsh complete the first of several filters only
        text = re.sub(r'"\(\*\)::(.*:_l4sbench_values")', r'"*:\1', text)
    answer(text.rstrip("\n"))
    return 0


def _words() -> dict[str, list[str]]:
    """Return the words that names on the command line are completed from."""
    from l4sbench.app import words
    from l4sbench.app.pages import pages
    from l4sbench.catalog import Catalog
    from reports.published.claims.model import offered as claims
    from reports.published.data import studies

    def groups(name: str) -> tuple[str, ...]:
        """Return the usual groups for a factor of any group, else nothing to put in its place."""
        return ("l4s", "classic") if name.startswith(words.GROUP) else ("",)

    catalog = Catalog.load()
    return {
        "matrices": [row["matrix"] for row in words.matrices()],
        "names": [
            name.replace(words.GROUP, group) for name in words.names(catalog) for group in groups(name)
        ],
        "pages": list(pages()),
        "rules": [row["rule"] for row in words.rules()],
        "lists": list(words.LISTS),
        "testbeds": ["virtual", "ssh:", "fabric", "dask:"],
        "studies": list(studies()),
        "claims": list(claims()),
        "sheets": list(words.standards()),
    }


_SAFE: Final = re.compile(r"[A-Za-z0-9._%+:=,/-]+")


def _values(parser: argparse.ArgumentParser, words: Sequence[str]) -> Iterator[str]:
    """Yield what may be typed in place of the last word; nothing where the words before it are wrong."""
    from l4sbench.app import offers
    from l4sbench.catalog import Catalog
    from l4sbench.testbeds.virtual.lab import labs

    begin = max((at for at, word in enumerate(words) if word.rpartition("/")[2] == "l4sbench"), default=-1)
    *before, typed = words[begin + 1 :] or ("",)
    found: list[str] = []
    with suppress(L4sbenchError, SystemExit):
        if before[:1] == ["init"] or before[-1:] in (["--cc"], ["--aqm"]):
            catalog = Catalog.load()
            queues = before[-1] in ("--queues", "--aqm")
            found = offers.listed(catalog.queues if queues else catalog.congestion_controls, typed)
        elif before[:2] == ["lab", "remove"] or before[-1:] in (["--lab"], ["--name"]):
            found = offers.listed((lab.name for lab in labs() if lab.name != DEFAULT_LAB), typed)
        else:
            args, more = parser.parse_known_args(before)
            if {"matrix", "base", "run"} & vars(args).keys():
                ids = "filters" not in args  # of `show`, which takes either
                given = [*(args.cells if ids else args.filters), *more]
                found = offers.filters(_cells(args, given), typed, ids=ids)
    yield from filter(_SAFE.fullmatch, found)


def _cells(args: argparse.Namespace, given: Sequence[str]) -> Sequence[Cell]:
    """Return the cells that a command has after the filters that are given, baselines left out."""
    from l4sbench.app.finding import find_run, load_matrix

    if "matrix" in args:
        matrix = load_matrix(args.matrix, args.catalog, quick=getattr(args, "quick", False))
    else:
        run = args.base if "base" in args else args.run
        matrix = load_matrix(find_run(run, args.runs) / "matrix.yaml")
    return matrix.select([word for word in given if is_filter(word)]).asked


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands, and of theirs."""
    yield parser
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                yield from _parsers(command)


_LISTED: Final = {
    "matrix": "matrices",
    "name": "names",
    "rule": "rules",
    "what": "lists",
    "on": "testbeds",
    "page": "pages",
    "sheet": "sheets",
}
_WITH_FILES: Final = frozenset({"matrices", "sheets"})
_WITH_COMMAS: Final = frozenset({"QUEUES", "AGAINST", "CC"})
_RUNS: Final = frozenset({"run", "base", "new"})


def _teach(action: argparse.Action, words: Iterable[str]) -> None:
    """Set what an argument is completed from, where that is more than a list of choices."""
    import shtab

    metavar = str(action.metavar)
    several = action.dest in ("filters", "cells") and action.nargs == "*"
    if several or metavar in _WITH_COMMAS or action.type is lab_name:
        function = "_l4sbench_values"
    elif metavar == "STUDY":
        function = "_l4sbench_studies" if action.dest == "against" else "_l4sbench_claims"
    elif (name := _LISTED.get(action.dest, "")) in words:
        function = f"_l4sbench_{name}"
    elif action.dest in _RUNS and action.nargs != 0:
        function = "_l4sbench_runs"
    elif metavar in ("FILE", "DIR", "RUNS"):
        native = shtab.FILE if metavar == "FILE" else shtab.DIRECTORY
        function = "_l4sbench_files" if metavar == "FILE" else "_l4sbench_folders"
        setattr(action, "complete", {**native, "bash": function})  # noqa: B010  (not in the class)
        return
    else:
        return
    setattr(action, "complete", {"bash": function, "zsh": function})  # noqa: B010
