# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The command line: one module per command; this one maps errors to messages and exit codes.

The answer goes to stdout, everything else to stderr. Modules of this package import at their top only what is
cheap, so that `l4sbench plan` starts quickly.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from l4sbench.cli import (
    ask,
    bundle,
    clean,
    collect,
    compare,
    completion,
    conform,
    docs,
    doctor,
    history,
    hostkernel,
    init,
    lab,
    plan,
    report,
    run,
    senders,
    show,
    streams,
    words,
)
from l4sbench.cli import slice as slices
from l4sbench.cli.options import add_subcommands
from l4sbench.cli.terminal import Styled, answer, say
from l4sbench.disk.userfiles import short
from l4sbench.errors import InputError, L4sbenchError, TestbedError, did_you_mean, suggest
from l4sbench.version import __version__

OK: Final = 0
SOME_FAILED: Final = 1
BAD_INPUT: Final = 2
TESTBED: Final = 3
BUG: Final = 4
INTERRUPTED: Final = 130

_ERROR: Final = Styled("error:", "red")
_LONGEST_LINE: Final = 2000
_BUG: Final = Styled("bug:", "red")

_COMMANDS: Final = (
    ask,
    init,
    plan,
    run,
    collect,
    report,
    show,
    compare,
    conform,
    history,
    bundle,
    clean,
    words,
    docs,
    lab,
    hostkernel,
    senders,
    slices,
    doctor,
    completion,
)

_EPILOG: Final = """\
exit codes:
  0    ok
  1    a trial failed or is invalid, a comparison found a regression, or a MUST of a standard fails
  2    bad input: a matrix, a filter, a name
  3    the testbed, or a place such as the folder for results, cannot be used
  4    a bug in l4sbench; the traceback is saved
  130  interrupted

first steps:
  l4sbench ask                     get an answer from measured cells, without a lab
  l4sbench doctor                  check that everything needed is installed
  l4sbench lab build               build the lab, once
  l4sbench plan quickstart         show what would run, and for how long
  l4sbench run quickstart          run it and print the decision table
  l4sbench docs tutorial           from a question to an answer, step by step
"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors like any other bad input, and prints help like any other answer."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, f"see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is not among an argument's choices; argparse itself only lists them."""
        if action.choices is not None and value not in action.choices:
            word = short(str(value))
            what = f"there is no command {word}"
            if action.metavar != "COMMAND":
                what = f"{'/'.join(action.option_strings) or action.dest}: {word} is not a valid choice"
            raise InputError(what, suggest(str(value), map(str, action.choices)))

    def _print_message(self, message: str, file: object = None) -> None:  # noqa: ARG002  (argparse's own)
        """Print help or the version; argparse itself ignores that they cannot be written."""
        answer(message.rstrip("\n"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` defaults to the arguments of this process."""
    streams.prepare()
    # pydantic would look for plug-ins among all packages that are installed, which takes long
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        args = _parse(argv)
        code: int = args.command(args)
        streams.flush_answer()
    except L4sbenchError as error:
        if isinstance(error, streams.OutputFailed):
            streams.forget_answer()
        _show(error)
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of stdout (head, less) has closed it; Python must not report that at exit either
        streams.forget_answer()
        return OK
    except OSError as error:
        # places that cannot be used: no permission, too long a name, a file where a folder is expected
        _show(TestbedError(streams.reason(error)))
        return TESTBED
    except UnicodeEncodeError as error:
        text = f"this locale has no {error.object[error.start : error.end]}, which a name of a file contains"
        _show(TestbedError(text, "set LC_ALL=C.UTF-8"))
        return TESTBED
    except MemoryError:
        _show(TestbedError("there is not enough memory", "use fewer cells or trials, or fewer --jobs"))
        return TESTBED
    except Exception as error:  # noqa: BLE001  (the place where a bug becomes an exit code)
        _show_bug(error)
        return BUG
    return code


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments; filters and words may follow options, which argparse alone does not accept."""
    parser = _parser()
    words = list(sys.argv[1:] if argv is None else argv)
    before, after = (words[: (cut := words.index("--"))], words[cut + 1 :]) if "--" in words else (words, [])
    args, rest = parser.parse_known_args(before)
    if after:
        if "words" not in args:
            parser.error("-- and what follows it are for l4sbench lab shell")
        args.words = after
    if not rest:
        return args
    own = _parser_of(parser, before)
    many = next((one for one in own._actions if not one.option_strings and one.nargs in ("*", "+")), None)  # noqa: SLF001
    unknown = [word for word in rest if word.startswith("-") or many is None]
    if unknown:
        word = unknown[0].partition("=")[0]
        options = (text for action in own._actions for text in action.option_strings)  # noqa: SLF001
        hint = did_you_mean(word, options) if word.startswith("--") else None
        raise InputError(f"unknown argument {short(unknown[0])}", hint or f"see {own.prog} --help")
    if many is not None:
        parse = many.type if callable(many.type) else str
        setattr(args, many.dest, [*getattr(args, many.dest), *map(parse, rest)])
    return args


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="l4sbench",
        description="Is it okay to switch to L4S congestion control? Run a matrix of cells and judge them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"l4sbench {__version__}")
    parser.set_defaults(parser=parser)  # completion needs the whole
    commands = add_subcommands(parser)
    for module in _COMMANDS:
        module.add_parser(commands)
    return parser


def _parser_of(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that words name: `lab build` of `lab build --kepe-tree`."""
    for word in words:
        commands = [action.choices for action in parser._actions if action.metavar == "COMMAND"]  # noqa: SLF001
        if not commands or not isinstance(commands[0], dict) or word not in commands[0]:
            break
        parser = commands[0][word]
    return parser


def _show(error: L4sbenchError) -> None:
    problems = error.problems if isinstance(error, InputError) else ()
    if problems:
        for problem in problems:
            say(_ERROR, f" {short(str(problem), _LONGEST_LINE)}")
        if len(problems) > 1:
            say(f"{len(problems)} problems")
        return
    say(_ERROR, f" {short(error.message, _LONGEST_LINE)}")
    if error.hint:
        say(f"  {error.hint}")


def _show_bug(error: Exception) -> None:
    import platform
    import tempfile
    import traceback
    from pathlib import Path

    from platformdirs import user_log_path

    text = "\n".join(
        (
            f"l4sbench {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"arguments: {sys.argv[1:]}",
            "",
            *traceback.format_exception(error),
        )
    )
    folder = user_log_path("l4sbench", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir())
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="bug-", suffix=".txt", delete=False) as file:
            file.write(text.encode(errors="backslashreplace"))
    except OSError as unwritable:
        say(text)
        say(_BUG, f" {error!r} (the traceback could not be saved: {unwritable})")
        return
    say(_BUG, f" {type(error).__name__}: {error}")
    say(f"  This should not happen. Please report it with {file.name}")
