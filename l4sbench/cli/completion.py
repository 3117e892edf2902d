# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench completion`: commands, options and names that a shell completes."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from l4sbench.cli.options import Subparsers, add_command
from l4sbench.cli.terminal import answer

_SHELLS: Final = ("bash", "zsh", "tcsh")
_BASH_FILES: Final = (
    '  compgen -d -S/ -- "$1"\n  compgen -f -X "!*.yaml" -- "$1"\n  compgen -f -X "!*.yml" -- "$1"\n'
)
_BASH_RUNS: Final = """\
_l4sbench_runs() {
  compgen -W "$(for run in runs/*/latest; do [ -e "$run" ] && basename "$(dirname "$run")"; done)" -- "$1"
  compgen -d -S/ -- "$1"
}
"""
_ZSH_RUNS: Final = """\
_l4sbench_runs() {
  local -a names
  names=(runs/*/latest(N:h:t))
  _alternative "runs:run:($names)" 'folders:run directory:_files -/'
}
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "completion",
        completion,
        help="print what makes a shell complete commands, options and names",
        examples=(
            'eval "$(l4sbench completion bash)"      in ~/.bashrc',
            "l4sbench completion zsh > DIR/_l4sbench  a folder of $fpath",
        ),
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=f"one of {', '.join(_SHELLS)}")


def completion(args: argparse.Namespace) -> int:
    """Print the completions of a shell."""
    import shtab

    words = _words()
    for parser in _parsers(args.parser):
        for action in parser._actions:  # noqa: SLF001  (argparse has no other way)
            _teach(action, words)
    preamble = {"bash": _BASH_RUNS, "zsh": _ZSH_RUNS}
    for name, offered in words.items():
        listed = " ".join(shlex.quote(word) for word in offered)
        files = name == "matrices"
        body = f'  compgen -W {shlex.quote(" ".join(offered))} -- "$1"\n' + (_BASH_FILES if files else "")
        preamble["bash"] += f"_l4sbench_{name}() {{\n{body}}}\n"
        more = " 'files:file:_files'" if files else ""
        preamble["zsh"] += (
            f"_l4sbench_{name}() {{\n  _alternative {shlex.quote(f'{name}:{name}:({listed})')}{more}\n}}\n"
        )
    text = shtab.complete(args.parser, args.shell, preamble=preamble)  # type: ignore[arg-type]  # by shell
    answer(text.rstrip("\n"))
    return 0


def _words() -> dict[str, list[str]]:
    """Return the words that names on the command line are completed from."""
    from l4sbench.app import words
    from l4sbench.app.pages import pages
    from l4sbench.catalog import Catalog

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
    }


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
}
_RUNS: Final = frozenset({"run", "base", "new"})


def _teach(action: argparse.Action, words: Iterable[str]) -> None:
    """Set what an argument is completed from, where that is more than a list of choices."""
    import shtab

    metavar = str(action.metavar)
    if (name := _LISTED.get(action.dest, "")) in words:
        function = f"_l4sbench_{name}"
    elif action.dest in _RUNS and action.nargs != 0:
        function = "_l4sbench_runs"
    elif metavar in ("FILE", "DIR", "RUNS"):
        setattr(action, "complete", shtab.FILE if metavar == "FILE" else shtab.DIRECTORY)  # noqa: B010
        return
    else:
        return
    setattr(action, "complete", {"bash": function, "zsh": function})  # noqa: B010  (not in the class)
