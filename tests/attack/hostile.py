# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Hostile inputs, made from a seed: real files that are damaged, and well-formed ones that are nasty.

A case is a folder with files and the commands to run there. It depends on nothing but the kind, the seed and
its number: `make_case("matrices", 1, 17, folder)` makes the same files on every machine.
"""

from __future__ import annotations

import copy
import gzip
import io
import itertools
import json
import os
import random
import re
import shutil
import socket
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

ROOT: Final = Path(__file__).parents[2]

MARKER: Final = "l4sbench-was-here"
"""Name of a file that a command makes if it executes what an input says."""

SECRET: Final = "hunter2-of-somebody"
"""Content of a file outside of a case, which links lead to and nothing may repeat."""

OUTSIDE: Final = f"outside-{os.getpid()}"
"""Folder beside the cases with that file, in which nothing may change; other processes have their own."""

NOBODY: Final = "nobody"
"""Name of no congestion control, by which a command that would run trials ends before them."""

Tree: TypeAlias = Any


FABLIB_CPU_S: Final = 30.0
"""Allowance for importing fablib, which needs 5 s on a quiet machine."""


@dataclass(frozen=True)
class Case:
    """Files in a folder, and commands to run in it.

    Attributes:
        kind: what is hostile, a key of `KINDS`.
        seed: the generator's seed.
        number: which of the inputs of that seed.
        folder: the files are here, and the commands run here.
        commands: arguments of l4sbench.
        files: names of the files at fault; a command that refuses them must give a position in one of them.
        exits: codes that are right.
        cpu_s: processor time that a command may need.
    """

    kind: str
    seed: int
    number: int
    folder: Path
    commands: tuple[tuple[str, ...], ...]
    files: tuple[str, ...] = ()
    exits: tuple[int, ...] = (0, 2)
    cpu_s: float = 10.0

    def limit_s(self, argv: tuple[str, ...]) -> float:
        """Return the processor time that one of its commands may need: those of slices also import fablib."""
        return self.cpu_s + (FABLIB_CPU_S if argv[:1] == ("slice",) else 0.0)


# ---- what is nasty

TEXTS: Final = (
    "",
    " ",
    ".",
    "..",
    "../../../etc",
    "/",
    "/dev/zero",
    "/dev/full",
    "~",
    "-",
    "--help",
    "-rf",
    "*",
    "[",
    "[!",
    "[z-a]",
    "**?[[a]",
    "a,b,,c",
    "off",
    "null",
    "x" * 300,
    "x" * 5000,
    "é\u0301ß",
    "\u202egnp.exe",
    "日本語",
    "\U0001f600",
    "a\nb",
    "a\tb",
    "a b",
    "{limit}",
    "{",
    "%s%n",
    "$(touch " + MARKER + ")",
    "`touch " + MARKER + "`",
    "; touch " + MARKER,
    "{{ lookup('pipe', 'touch " + MARKER + "') }}",
    "<script>alert(1)</script>",
    "100mbit",
    "0.0000001ms",
    "1e400mbit",
    "9" * 400 + "ms",
    "-5ms",
    "9999999999h",
    "10ms,20ms",
    "default",
    "codel",
    "prague",
    "l4s",
    "net.ipv4.tcp_ecn",
    "kernel.core_pattern",
    "(a+)+$",
    "(?P<x>",
)
_DIGITS: Final = (17, 18, 19, 20, 30, 300, 308, 309, 310, 320, 400, 401)
"""Lengths of whole numbers around the limits of 64 bits and of floats."""
NUMBERS: Final = (
    *(0, 1, -1, 2, 3, 0.5, 1.5, 255, 2**31, 2**32, 2**63 - 1, 2**63, 2**64),
    *(sign * (10**digits - 1) for digits in _DIGITS for sign in (1, -1)),
)
FLOATS: Final = (
    *(float("inf"), float("-inf"), float("nan"), 1e308, -1e308, -0.0),
    *(sys.float_info.max, -sys.float_info.max, sys.float_info.min, 5e-324, -5e-324, 1e-300),
)
SHAPES: Final[tuple[Tree, ...]] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [{}],
    [None],
    {"": None},
    {"a": {"b": {"c": 1}}},
)
YAML_TOKENS: Final = (
    ".inf",
    "-.inf",
    *(".nan", ".NaN", ".NAN", "nan", "NaN", "-.nan", "+.inf", ".Inf", "-.INF", "inf", "Infinity"),
    *("1e999", "1e400", "-1e400", "1e308", "1.8e308", "1e-400", "4.9e-324", "9" * 400 + ".0"),
    *(f"{prefix}{digit * many}" for prefix, digit in (("0x", "f"), ("0o", "7")) for many in (40, 298, 5000)),
    *(f"{sign}{'9' * many}" for many in (*_DIGITS, 4300, 4301) for sign in ("", "-", "+")),
    "1_000",
    "1:30",
    "2026-01-02",
    "!!python/object/apply:os.system ['touch " + MARKER + "']",
    "!!binary aGVsbG8=",
    "!!set {a, b}",
    "!include /etc/passwd",
    "!<tag:yaml.org,2002:str> x",
    "&a [*a]",
    "&a {b: *a}",
    "*nothing",
    "[&x 1, *x, *x]",
    '"\\0"',
    '"\\x1b[2J"',
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\UFFFFFFFF"',
    '"\\N"',
    "'unended",
    '"unended',
    "[1, 2",
    "{a: 1",
    "]",
    "}",
    ", ",
    "@at",
    "`tick`",
    "%percent",
    "? a",
    "- - - -",
    "|\n  block",
    ">-\n  folded",
    "|99\n  block",
    "[" * 200,
    "{a: " * 200,
    "[" + "1, " * 3000 + "]",
    "[" + ", ".join(f"x{n}" for n in range(2000)) + "]",
    "{" + ", ".join(f"k{n}: {n}" for n in range(1000)) + "}",
    "<<: *x",
    "a: b: c",
)
LINES: Final = (
    "---",
    "...",
    "%YAML 9.9",
    "%YAML 1.1",
    "%TAG ! !",
    "\tx: 1",
    "  x: 1",
    ": 1",
    "? 1",
    "<<: {rate: 1mbit}",
    "x: &x [*x]",
    "- 1",
    "#" * 3000,
    "__proto__: 1",
    "? [a, b]\n: 1",
    "\u2028x: 1",
    "\ufeffx: 1",
    "a: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "\n".join(f"a{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 8)),
)


def _junk(rng: random.Random) -> Tree:
    """Return a value that is most likely wrong where it is put."""
    match rng.randrange(5):
        case 0 | 1:
            return rng.choice(TEXTS)
        case 2:
            return rng.choice(NUMBERS)
        case 3:
            return rng.choice(FLOATS)
        case _:
            return copy.deepcopy(rng.choice(SHAPES))


def _paths(tree: Tree, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from _paths(value, (*path, key))


def damaged_tree(rng: random.Random, tree: Tree) -> Tree:
    """Return a copy of a tree with one to three values replaced, removed, doubled, renamed or moved."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        paths = list(_paths(tree))
        if not paths:
            return _junk(rng)
        path = rng.choice(paths)
        above = tree
        for part in path[:-1]:
            above = above[part]
        _change(rng, above, path[-1], [tree, *(above[key] for key in _keys(above))])
    return _junk(rng) if rng.random() < 0.02 else tree


def _keys(tree: Tree) -> list[Any]:
    return list(tree) if isinstance(tree, dict) else list(range(len(tree)))


def _change(rng: random.Random, above: Tree, key: Any, others: list[Tree]) -> None:
    match rng.randrange(7):
        case 0 | 1 | 2:
            above[key] = _junk(rng)
        case 3:
            del above[key]
        case 4:  # a value of another place
            above[key] = copy.deepcopy(rng.choice(others))
        case 5 if isinstance(above, dict):
            above[str(_junk(rng))] = above.pop(key)
        case 5:
            above.insert(key, copy.deepcopy(above[key]))
        case _:
            above[key] = [above[key]] * rng.choice((1, 2, 50)) if rng.random() < 0.5 else {"x": above[key]}


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with a few replaced, removed, doubled or inserted, or in another encoding."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((0, 1, 1, 8, 100)))
        match rng.randrange(7):
            case 0:
                data = data[:start]
            case 1:
                data = data[:start] + rng.randbytes(max(1, end - start)) + data[end:]
            case 2:
                data = data[:start] + data[end:]
            case 3:
                data = data[:end] + data[start:end] * rng.choice((1, 2, 100)) + data[end:]
            case 4:
                inserted = rng.choice(
                    (b"\0", b"\xff", b"\xed\xa0\x80", b"\x1b[2J", b"\r", b"\x85", b"\xc2\x9b")
                )
                data = data[:start] + inserted + data[start:]
            case 5 if start < len(data):
                flipped = bytes([data[start] ^ (1 << rng.randrange(8))])
                data = data[:start] + flipped + data[start + 1 :]
            case _:
                data = rng.choice(_RECODED)(data)
    return data


def _recoded(encoding: str) -> Callable[[bytes], bytes]:
    return lambda data: data.decode(errors="replace").encode(encoding, errors="replace")


_RECODED: Final[tuple[Callable[[bytes], bytes], ...]] = (
    _recoded("utf-16"),
    _recoded("utf-32"),
    _recoded("utf-8-sig"),
    _recoded("latin-1"),
    lambda data: data.replace(b"\n", b"\r\n"),
    lambda data: data.replace(b" ", b"\t"),
    lambda data: b"",
    gzip.compress,
)


_NUMBER: Final = re.compile(r"(?<![\w.-])[0-9]+(?:\.[0-9]+)?")


def damaged_yaml(rng: random.Random, text: str) -> bytes:
    """Return a YAML file with damaged values, tokens, lines, numbers or bytes."""
    from l4sbench.disk.document import parse

    kind = rng.randrange(11)
    if kind < 5:
        return as_yaml(damaged_tree(rng, parse(text.encode(), "x").content)).encode(errors="surrogatepass")
    if kind < 8:
        lines = text.splitlines()
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(lines))
            head, colon, _rest = lines[at].partition(": ")
            if colon and rng.random() < 0.7:
                lines[at] = f"{head}: {rng.choice(YAML_TOKENS)}"
            elif rng.random() < 0.5:
                lines.insert(at, rng.choice(LINES))
            else:
                lines.insert(at, lines[rng.randrange(len(lines))])
        return "\n".join(lines).encode(errors="surrogatepass")
    if kind == 8:
        share = rng.choice((0.1, 0.5, 1.0))
        return _NUMBER.sub(
            lambda found: str(rng.choice((*NUMBERS, *FLOATS))) if rng.random() < share else found[0], text
        ).encode()
    return damaged_bytes(rng, text.encode())


def as_yaml(tree: Tree, level: int = 0) -> str:
    """Return a tree as YAML, the outer levels in lines of their own so that positions differ."""
    if isinstance(tree, dict) and tree and level < 3:
        indent = "  " * level
        lines = (f"{indent}{_scalar(key)}:{_below(value, level)}" for key, value in tree.items())
        return "\n".join(lines) + ("\n" if not level else "")
    return _scalar(tree)


def _below(value: Tree, level: int) -> str:
    if isinstance(value, dict) and value and level < 2:
        return "\n" + as_yaml(value, level + 1)
    return f" {_scalar(value)}"


def _scalar(value: Tree) -> str:
    match value:
        case float() if value != value:  # noqa: PLR0124  (NaN)
            return ".nan"
        case float() if value in {float("inf"), float("-inf")}:
            return ".inf" if value > 0 else "-.inf"
        case list():
            return f"[{', '.join(map(_scalar, value))}]"
        case dict():
            return "{" + ", ".join(f"{_scalar(key)}: {_scalar(item)}" for key, item in value.items()) + "}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def damaged_file(rng: random.Random, path: Path) -> None:
    """Damage a file of a run directory or catalog: its content, or what is at its place."""
    match rng.randrange(12):
        case 0:
            path.unlink()
        case 1:
            path.unlink()
            path.mkdir()
        case 2:
            path.unlink()
            path.symlink_to(path.name)
        case 3:
            path.unlink()
            path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/nowhere", "..")))
        case 4:
            path.unlink()
            os.mkfifo(path)
        case 5 | 6 | 7 | 8 if path.suffix == ".json":
            damage_json(rng, path)
        case 9 if path.suffix == ".json":
            path.write_text(rng.choice(("[" * 100_000, "{}", "[]", "null", "1e999", '"\\ud800"', "9" * 5000)))
        case _:
            path.write_bytes(damaged_bytes(rng, path.read_bytes()))


def damage_json(rng: random.Random, path: Path) -> None:
    """Damage values of a JSON file."""
    path.write_text(json.dumps(damaged_tree(rng, json.loads(path.read_text()))), encoding="utf-8")


_NAME_PARTS: Final = (
    f"$(touch {MARKER})",
    f"`touch {MARKER}`",
    f";touch {MARKER};",
    f"\ntouch {MARKER}\n",
    f"|touch {MARKER}",
    f"&touch {MARKER}&",
    f"$({{touch,{MARKER}}})",
    f"a[$(touch {MARKER})]",
    f"=(touch {MARKER})",
    f"(e:'touch {MARKER}':)",
    "${IFS}",
    "'",
    '"',
    "\\",
    "*",
    "?",
    "~",
    "-",
    "#",
    "!!",
    "^a^b",
    " ",
    "\t",
    "\r",
    "\x1b[2J",
    "\udcff",
    ":",
    "a",
    "mine",
    "é",
)


def file_name(rng: random.Random) -> str:
    """Return a name that a file can have, and that a shell which expands it would obey."""
    parts = [rng.choice(_NAME_PARTS[:10]), *rng.choices(_NAME_PARTS, k=rng.choice((0, 0, 1, 2)))]
    rng.shuffle(parts)
    return "".join(parts).replace("/", "_")[:100]


# ---- the kinds

Maker: TypeAlias = Callable[[random.Random, Path, Path], Mapping[str, Any]]
"""Writes the files of a case; gets the base run too, and returns further arguments of `Case`."""


def _matrix_texts() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / "matrices").glob("*.yaml"))]


def _matrices(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    if rng.random() < _SELDOM:
        (folder / "m.yaml").write_text(about_the_bound(rng), encoding="utf-8")
        return {"commands": (("plan", "m.yaml"),), "files": ("m.yaml",), "cpu_s": 90.0}
    texts = [text for text in _matrix_texts() if "extends:" not in text]
    files = ["m.yaml"]
    if rng.random() < 0.1:
        text = _LARGE[rng.randrange(len(_LARGE))](rng)
        (folder / "m.yaml").write_text(text, encoding="utf-8")
    else:
        (folder / "m.yaml").write_bytes(damaged_yaml(rng, rng.choice(texts)))
    if rng.random() < 0.15:  # the damaged one is extended
        (folder / "m.yaml").rename(folder / "base.yaml")
        bases = rng.choice(
            ("base.yaml", "[base.yaml, base.yaml]", "[base.yaml, m.yaml]", "[base.yaml, nowhere]")
        )
        (folder / "m.yaml").write_text(f"matrix: top\nextends: {bases}\n", encoding="utf-8")
        files.append("base.yaml")
    if rng.random() < 0.05:
        damaged_file(rng, folder / "m.yaml")
    command = rng.choice(
        (
            ("plan", "m.yaml"),
            ("plan", "m.yaml"),
            ("plan", "m.yaml", "--json"),
            ("plan", "m.yaml", "--cells", "--trials", "2"),
            ("plan", "m.yaml", "--export", "exported"),
            ("run", "m.yaml"),
            ("lab", "shell", "m.yaml"),
        )
    )
    # without a lab, what is fine up to there ends with 3
    exits = (0, 2) if command[0] == "plan" else (2, 3)
    return {"commands": (command,), "files": tuple(files), "exits": exits}


_HEAD: Final = """\
matrix: large
rate: 100mbit
rtt: 10ms
duration: 30s
flows: {l4s: {cc: prague}, classic: {cc: cubic}}
"""
_LARGE: Final[tuple[Callable[[random.Random], str], ...]] = (
    lambda rng: _HEAD + "aqm: codel\naxes:\n" + _axis("buffer_bdp", 400) + _axis("path.noise", 3000),
    lambda rng: _HEAD + "aqm: codel\ntrials: 9999\naxes:\n" + _axis("buffer_bdp", 400),
    lambda rng: _HEAD + "axes:\n" + _axis("aqm", 500, "q"),
    lambda rng: _HEAD + "aqm: codel\nexclude:\n" + "  - {aqm: 'c*', buffer_bdp: 4}\n" * 300,
    lambda rng: _HEAD + "aqm: codel\n" + "".join(f"word{n}: {n}\n" for n in range(rng.choice((90, 3000)))),
    lambda rng: _HEAD + f"aqm: codel\nexclude: [{{aqm: '{'*a' * 50}b'}}]\n",
    lambda rng: _HEAD + f"aqm: codel\nl4s.count: {rng.choice((1000, 1001, 10**9))}\n",
    lambda rng: _HEAD + f"aqm: codel\ndescription: '{'x' * 300_000}'\n",
    lambda rng: _HEAD + f"aqm: {'x' * 300_000}\n",
    lambda rng: _HEAD + "aqm: codel\n" + "\n" * 300_000,
    lambda rng: crossed({"aqm": 5, "buffer_bdp": 20, "rtt": 40, "rate": rng.choice((1, 10))}),
    lambda rng: crossed({"path.jitter": 10, "duration": 20, "l4s.start": rng.choice((20, 100))}),
)


def _axis(name: str, count: int, prefix: str = "", suffix: str = "") -> str:
    return f"  {name}: [{', '.join(f'{prefix}{number}{suffix}' for number in range(1, count + 1))}]\n"


_SELDOM: Final = 0.003
"""Share of matrices with about as many cells as there may be: each takes half a minute."""


def about_the_bound(rng: random.Random) -> str:
    """Return a matrix that has, with its baselines, somewhat less or more than 1,000,000 cells."""
    wanted, one = rng.choice((("none", 1), ("solo", 3), ("solo-and-same", 4)))
    rates = 1_000_000 // (5 * 20 * 40 * one)
    axes = {"aqm": 5, "buffer_bdp": 20, "rtt": 40, "rate": rates + rng.choice((-3, 0, 1, rates))}
    return f"{crossed(axes)}baselines: {wanted}\n"


_SUFFIXES: Final = {"rate": "mbit", "rtt": "ms", "l4s.start": "ms", "path.jitter": "us", "duration": "s"}
_QUEUES: Final = ("fifo", "codel", "pie", "fq-codel", "dualpi2")


def crossed(axes: Mapping[str, int]) -> str:
    """Return a matrix that crosses axes of these numbers of values; their product is that of its cells."""
    head = "".join(
        f"{line}\n" for line in _HEAD.splitlines() if line.partition(":")[0] not in axes.keys() | {"aqm"}
    )
    text = head + ("" if "aqm" in axes else "aqm: codel\n") + "trials: 1\naxes:\n"
    for name, count in axes.items():
        if name == "aqm":
            text += f"  aqm: [{', '.join(_QUEUES[:count])}]\n"
        else:
            text += _axis(name, count, suffix=_SUFFIXES.get(name, ""))
    return text


def _catalogs(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    sources = sorted((ROOT / "kernels").glob("*/module.yml"))
    source = rng.choice(sources)
    entry = folder / "mine" / "own"
    entry.mkdir(parents=True)
    text = source.read_text(encoding="utf-8")
    name = text.split("name: ", 1)[1].split("\n", 1)[0].strip()
    text = text.replace(f"name: {name}\n", "name: own\n", 1).replace("source: true", "source: false")
    (entry / "module.yml").write_bytes(damaged_yaml(rng, text))
    if rng.random() < 0.1:
        damaged_file(rng, entry / "module.yml")
    queue = "kind: queue" in text
    aqm, cc = ("own", "prague") if queue else ("codel", "own")
    (folder / "m.yaml").write_text(
        "matrix: m\nrate: 100mbit\nrtt: 10ms\nduration: 3s\n"
        f"aqm: {aqm}\nflows: {{l4s: {{cc: {cc}}}, classic: {{cc: cubic}}}}\n",
        encoding="utf-8",
    )
    if rng.random() < 0.3:
        with (folder / "m.yaml").open("a", encoding="utf-8") as file:
            file.write("catalog: mine\n")
        more: tuple[str, ...] = ()
    else:
        more = ("--catalog", "mine")
    end = rng.choice(((), ("--json",), ("--export", "exported")))
    # an entry that has lost its name leaves a matrix that names nothing
    return {"commands": (("plan", "m.yaml", *more, *end),), "files": ("module.yml", "m.yaml")}


def _senders(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    """Make folders of senders: a damaged `sender.yml`, programs that nobody may build, and links."""
    source = rng.choice(sorted((ROOT / "senders").glob("*/sender.yml")))
    stated = source.read_text(encoding="utf-8").replace(f"sender: {source.parent.name}\n", "sender: own\n", 1)
    entry = folder / "mine" / "own"
    entry.mkdir(parents=True)
    (entry / "sender.yml").write_bytes(damaged_yaml(rng, stated))
    if rng.random() < 0.1:
        damaged_file(rng, entry / "sender.yml")
    if rng.random() < 0.5:
        (entry / "main.c").write_text(f"#error {rng.choice(TEXTS)!r}\n", encoding="utf-8")
        (entry / "build.rs").write_text(
            f'fn main() {{ std::fs::write("{MARKER}", ""); }}\n', encoding="ascii"
        )
    if rng.random() < 0.2:
        (entry / "linked.c").symlink_to(f"../../../../{OUTSIDE}/secret")
    by_path = rng.random() < 0.5
    (folder / "m.yaml").write_text(
        "matrix: m\nrate: 100mbit\nrtt: 10ms\nduration: 3s\naqm: codel\ncapture: headers\n"
        f"flows: {{l4s: {{send: {'./mine/own' if by_path else 'own'}}}, classic: {{cc: cubic}}}}\n",
        encoding="utf-8",
    )
    more = () if by_path else ("--catalog", "mine")
    command = rng.choice((("plan", "m.yaml", *more), ("senders", "build", "own", "--catalog", "mine")))
    # a folder whose sender has lost its name leaves a matrix, or a command, that names nothing
    files = ("sender.yml", "m.yaml", "linked.c") if command[0] == "plan" else ()
    return {"commands": (command,), "files": files}


_FILTERS: Final = (
    "aqm",
    "rate",
    "rtt",
    "buffer_bdp",
    "cell",
    "l4s.cc",
    "classic.ecn",
    "expect.bottleneck",
    "x",
    "",
)
_ODD: Final = (
    "0",
    "-1",
    "1e3",
    "0x10",
    "1_0",
    "",
    *("9" * many for many in (17, 19, 20, 309, 400, 4301)),
    "99999",
    "nan",
    "inf",
    "2.5",
    "٣",
    "1 ",
    "all",
)


def _filters(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    def word() -> str:
        text = rng.choice(TEXTS) if rng.random() < 0.7 else str(rng.choice((*NUMBERS, *FLOATS)))
        word = f"{rng.choice(_FILTERS)}{rng.choice(('=', '=', '=', '=', '=', '=', '==', '', '!='))}{text}"
        match rng.randrange(12):
            case 0:
                return word[:200] + "," + ",".join(TEXTS[:20])
            case 1:
                return f"{word[:100]}\udcff"  # a byte that is not UTF-8
            case 2:
                return f"aqm={'*a' * rng.choice((10, 1000))}"
            case 3:
                return f"aqm={','.join(map(str, range(rng.choice((10, 5000)))))}"
            case _:
                return word

    words = [word() for _ in range(rng.choice((1, 1, 1, 2, 5)))]
    option = rng.choice(
        (
            (),
            (),
            ("--trials", rng.choice(_ODD)),
            ("--jobs", rng.choice(_ODD)),
            ("--slices", rng.choice(_ODD)),
            (
                "--on",
                rng.choice(
                    ("", "virtual:x", "ssh", "ssh:", "ssh:/nowhere", "fabric:../x", rng.choice(TEXTS))
                ),
            ),
            ("--dir", rng.choice(TEXTS)),
            ("--catalog", rng.choice(TEXTS)),
        )
    )
    plan = ("plan", "quickstart", *option)
    about = (
        plan,
        plan,
        plan,
        ("report", str(run), "--json"),
        ("compare", str(run), str(run)),
        ("run", "quickstart"),
    )
    command = rng.choice(about)
    name = rng.choice(TEXTS) if rng.random() < 0.1 else command[1]
    # what a name or folder says may be a place that cannot be used
    return {"commands": ((command[0], name, *command[2:], *words),), "exits": (0, 1, 2, 3)}


def _documents(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    errors = ROOT / "tests" / "errors"
    choices: tuple[tuple[Path, tuple[str, ...]], ...] = (
        (ROOT / "reports/compare/default.yml", ("compare", str(run), str(run), "--margins", "d.yml")),
        (errors / "prevalence/weights.yml", ("report", str(run), "--json", "--prevalence", "d.yml")),
        (Path(__file__).with_name("prevalence.yml"), ("report", str(run), "--prevalence", "d.yml")),
        (
            ROOT / "reports/published/claims/segsize26.yml",
            ("report", str(run), "aqm=*", "--claims", "./d.yml"),
        ),
        (ROOT / "reports/published/standards/rfc9331.yml", ("conform", "./d.yml", "--cc", NOBODY)),
        (ROOT / "matrices/topologies/parking-lot.yml", ("explain", "topology", "./d.yml")),
        (ROOT / "matrices/topologies/line6.yml", ("explain", "./d.yml", "--json")),
        (errors / "slices/wrong.yaml", ("slice", "plan", "d.yaml", "--offline")),
        (errors / "slices/nodes.yaml", ("slice", "plan", "d.yaml", "--offline", "--json")),
        (errors / "slices/ports.yaml", ("slice", "plan", "d.yaml", "--offline")),
    )
    source, command = rng.choice(choices)
    name = next(word.removeprefix("./") for word in command if word.startswith(("d.y", "./d.y")))
    text = source.read_text(encoding="utf-8").replace(f"topology: {source.stem}\n", "topology: d\n")
    text = text.replace(f"sheet: {source.stem}\n", "sheet: d\n")
    (folder / name).write_bytes(damaged_yaml(rng, text))
    if rng.random() < 0.05:
        damaged_file(rng, folder / name)
    return {"commands": (command,), "files": (name,), "exits": (0, 1, 2)}


_SWITCH: Final = (
    "l4sbench_node: router\n",
    (
        "l4sbench_switch: {node: router, ports: {net-mid: {port: 132, mac: '02:00:00:00:01:84'}, "
        "net-rx: {port: 140, mac: '02:00:00:00:01:8c', speed: 25G, fec: NONE}}}\n"
    ),
)
"""A host of an inventory, and a switch in its place."""


def _inventories(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    text = (ROOT / "tests/cases/export/hosts.yml").read_text(encoding="utf-8")
    if rng.random() < 0.3:
        numbers = itertools.count(1)
        text = re.sub("00:00:00:00:00:00", lambda _: f"02:00:00:00:00:{next(numbers):02x}", text)
        text = text.replace(*_SWITCH)
    name = rng.choice(("hosts.yml", "hosts.yml", "hosts.ini", "hosts"))
    (folder / name).write_bytes(damaged_yaml(rng, text))
    if rng.random() < 0.1:
        damaged_file(rng, folder / name)
    command = ("plan", "quickstart", "--on", f"ssh:{name}", *rng.choice(((), ("--export", "exported"))))
    return {"commands": (command,), "files": (name,)}


def _bundles(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    from l4sbench.store.bundle import write_bundle

    path = folder / "b.tar.gz"
    write_bundle(run, path)
    if rng.random() < 0.25:
        path.write_bytes(damaged_bytes(rng, path.read_bytes()))
    else:
        _repack(rng, path)
    if rng.random() < 0.05:
        damaged_file(rng, path)
    commands = (("bundle", "--check", "b.tar.gz"), ("bundle", "--unpack", "b.tar.gz", "--dir", "there"))
    return {"commands": commands, "files": ("b.tar.gz", "there"), "exits": (0, 2, 3)}


_NAMES: Final = (
    "../x",
    "/tmp/x",
    "a/../../x",
    "",
    ".",
    "..",
    "a\0b",
    "x" * 300,
    "a/" * 500 + "x",
    "lock.json",
    "\x1b[2J",
)


_DAMAGED: Final = (ValueError, TypeError, KeyError, RecursionError)
"""Errors of reading the list of a bundle that was damaged before."""


def _repack(rng: random.Random, path: Path) -> None:
    """Damage the list of a bundle, or its members."""
    members: list[tuple[tarfile.TarInfo, bytes]] = []
    with tarfile.open(path) as old:
        for member in old:
            file = old.extractfile(member)
            members.append((member, file.read() if file else b""))
    for _ in range(rng.choice((1, 1, 2))):
        at = 0 if rng.random() < 0.4 else rng.randrange(len(members))
        member, data = members[at]
        member = copy.copy(member)
        match rng.randrange(8):
            case 0 | 1 | 2 if at == 0:
                with suppress(*_DAMAGED):
                    data = json.dumps(damaged_tree(rng, json.loads(data))).encode()
            case 3:
                data = damaged_bytes(rng, data)
            case 4:
                member.name = rng.choice(_NAMES)
            case 5:
                member.type = rng.choice(
                    (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
                )
                member.linkname = rng.choice(_NAMES)
                data = b""
            case 6:
                members.insert(rng.randrange(len(members)), members[at])
            case _ if at == 0:  # the run's name, in the list and of all members
                run = rng.choice(
                    (*_NAMES, "a/b/c", "quickstart/20260102T030405Z", "base/20261399T250000Z", "base/latest")
                )
                with suppress(*_DAMAGED):
                    plain = json.loads(data)
                    data = json.dumps(plain | {"run": run}).encode()
                    members = [(_renamed(one, str(plain["run"]), run), content) for one, content in members]
            case _:
                del members[at]
                continue
        member.size = len(data)
        members[at] = (member, data)
    with tarfile.open(path, "w:gz", errors="surrogateescape") as new:
        for member, data in members:
            new.addfile(member, io.BytesIO(data))


def _renamed(member: tarfile.TarInfo, old: str, new: str) -> tarfile.TarInfo:
    member = copy.copy(member)
    if member.name.startswith(f"{old}/"):
        member.name = f"{new}/{member.name.removeprefix(f'{old}/')}"
    return member


def _runs(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    own = folder / "run"
    shutil.copytree(run, own, symlinks=True)
    whole = [path for path in sorted(own.rglob("*")) if path.is_file() and not path.is_symlink()]
    groups = (
        [path for path in whole if path.parent == own],
        [path for path in whole if path.name == "trial.json"],
        [path for path in whole if "raw" in path.parts],
        [path for path in whole if path.suffix == ".parquet"],
    )
    commands = ("report", "report", "collect", "compare", "bundle", "figures", "plan", "elsewhere")
    command = rng.choice(commands)
    chosen: set[Path] = set()
    for _ in range(rng.choice((1, 1, 2, 4))):
        chosen.add(rng.choice(rng.choice([group for group in groups if group])))
    for path in sorted(chosen):
        if path.suffix == ".parquet" and rng.random() < 0.7:
            _damage_table(rng, path)
        elif path.name == "matrix.yaml" and rng.random() < 0.8:
            path.write_bytes(damaged_yaml(rng, path.read_text(encoding="utf-8")))
        else:
            damaged_file(rng, path)
    odd = _oddity(rng, own) if rng.random() < 0.4 else ()
    if odd:
        command = rng.choice(("bundle", "bundle", "report", "collect", "plan"))
    argv: dict[str, tuple[str, ...]] = {
        "report": ("report", "run", *rng.choice(((), ("--json",), ("aqm=*",)))),
        "collect": ("collect", "run", *rng.choice(((), ("--full",)))),
        "compare": ("compare", *rng.choice((("run", str(run)), (str(run), "run")))),
        "bundle": ("bundle", "run", "-o", "out.tar.gz"),
        "elsewhere": ("report", "run", "-o", "run/report"),
        "figures": ("report", "run", "--figures", "drawn", "--format", "json"),
        "plan": ("plan", "run/matrix.yaml"),
    }
    # raw files that cannot be read are problems of trials (1), a lock that cannot be made is one of places
    names = tuple(path.name for path in sorted(chosen))
    return {"commands": (argv[command],), "files": ("run", *names, *odd), "exits": (0, 1, 2, 3)}


_ODD_NAMES: Final = ("a\nb", "a\udcff", "\x1b[2J", "x" * 250, " ", "-rf", "$(touch " + MARKER + ")", "a\\b")


def _oddity(rng: random.Random, run: Path) -> tuple[str, ...]:
    """Put into a run directory what l4sbench never makes: links, FIFOs, rights, odd names and dates."""
    places = [path for path in sorted(run.rglob("*")) if not path.is_symlink()]
    place = rng.choice([run, *places])
    folder = place if place.is_dir() else place.parent
    outside = run.parent.parent.parent / OUTSIDE
    match rng.randrange(7):
        case 0 | 1 if place != run:  # at the place of what was there
            shutil.rmtree(place) if place.is_dir() else place.unlink()
            place.symlink_to(rng.choice((outside, outside / "secret", "/nowhere", place.name, "..")))
        case 0 | 1 | 2:
            place = folder / rng.choice(("notes", "link.json", "1-abcdef", "decision.md", *_ODD_NAMES))
            if not os.path.lexists(place):
                place.symlink_to(
                    rng.choice((outside, outside / "secret", outside / "secret", "/nowhere", place.name))
                )
        case 3 if place.is_file():
            place.unlink()
            os.mkfifo(place)
        case 3 | 4:
            place = folder / rng.choice(_ODD_NAMES)
            place.touch()
        case 5:
            place.chmod(0o6755)
        case _:
            place = run.parent / "20261399T250000Z"
            place.symlink_to(run.name)
    return (place.name,)


def _damage_table(rng: random.Random, path: Path) -> None:
    """Write a Parquet file that is not of its schema."""
    import polars as pl

    frame = pl.read_parquet(path)
    names = frame.columns
    name = rng.choice(names) if names else "x"
    match rng.randrange(8):
        case 0:
            frame = frame.drop(name)
        case 1:
            frame = frame.with_columns(pl.lit(None).alias(name))
        case 2:
            frame = frame.with_columns(pl.lit(rng.choice(("x", "\x1b[2J", "<b>"))).alias(name))
        case 3:
            frame = frame.with_columns(pl.lit(float(rng.choice(("inf", "nan", "-1")))).alias(name))
        case 4:
            frame = frame.head(0)
        case 5:
            frame = frame.rename({name: f"{name}x"})
        case 6:
            frame = pl.concat([frame, frame])
        case _:
            frame = pl.DataFrame({"x": [1]})
    frame.write_parquet(path)


def _places(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    """Outputs at places that cannot be written."""
    (folder / "file").write_text("of a user")
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket is short
        try:
            bound.bind("socket")
        finally:
            os.chdir(here)
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    place = rng.choice(
        (
            "file/below",
            "file",
            "socket",
            "loop",
            "loop/below",
            "/dev/full",
            "/dev/full/below",
            "/proc/nothing",
            "/proc/nothing/below",
            "x" * 300,
            "x" * 300 + "/below",
            "a/" * 2500,
            "\udcff",
            "",
            ".",
            "/sys/x",
        )
    )
    commands: tuple[tuple[str, ...], ...] = (
        ("plan", "quickstart", "aqm=codel", "--export", place),
        ("plan", "quickstart", "--dir", place),
        ("run", "quickstart", "--dir", place),
        ("run", "quickstart", "--detach", "--dir", f"{place}/x"),
        ("report", str(run), "--figures", place, "--format", "json"),
        ("compare", str(run), str(run), "--junit", place),
        ("compare", str(run), str(run), "--page", place),
        ("ask", "--map", f"{place}.svg"),
        ("history", str(run), "-o", place),
        ("history", place),
        ("bundle", str(run), "-o", place),
        ("bundle", "--unpack", place),
        ("bundle", "--check", place),
        ("collect", place),
        ("slice", "plan", "x1", "--offline", "--graph", place),
        ("report", place),
    )
    return {"commands": (rng.choice(commands),), "exits": (0, 2, 3)}


def _questions(rng: random.Random, folder: Path, run: Path) -> Mapping[str, Any]:
    """Make questions to the atlas: keys with nasty values, and nasty plain words."""
    words = ["aqm=fifo", "rate=20mbit", "rtt=15ms", "buffer_bdp=2", "against=cubic", "to=prague"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        text = rng.choice(TEXTS) if rng.random() < 0.5 else str(rng.choice((*NUMBERS, *FLOATS)))
        key = rng.choice(("aqm", "rate", "rtt", "buffer_bdp", "against", "ecn", "min_qlen_step", "x", ""))
        words.append(
            rng.choice((f"{key}={text}", text, f"{text}mbit", f"{text}ms", f"{text} BDP", "1" * 2000))
        )
    rng.shuffle(words)
    return {"commands": (("ask", "--", *words[: rng.randrange(1, len(words) + 1)]),)}


KINDS: Final[Mapping[str, Maker]] = {
    "matrices": _matrices,
    "catalogs": _catalogs,
    "senders": _senders,
    "filters": _filters,
    "documents": _documents,
    "inventories": _inventories,
    "bundles": _bundles,
    "runs": _runs,
    "places": _places,
    "questions": _questions,
}


def make_case(kind: str, seed: int, number: int, folder: Path, run: Path) -> Case:
    """Make the files of a case in an empty folder; `run` is the run directory that some are made from."""
    rng = random.Random(f"{kind}/{seed}/{number}")
    folder.mkdir(parents=True)
    outside = folder.parent.parent / OUTSIDE
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text(SECRET, encoding="ascii")
    return Case(kind, seed, number, folder, **KINDS[kind](rng, folder, run))


def make_run(folder: Path) -> Path:
    """Make an undamaged run directory, of captured trials, with tables; return its path."""
    from collectors.assemble import collect
    from l4sbench.catalog import Catalog
    from l4sbench.store import Run
    from tests.captured import as_matrix, captured_trial

    names = ("captured-dualpi2", "lean-codel-warmup")
    source, trials = as_matrix("base", *map(captured_trial, names))
    run = Run.create(folder, "base", source, 1, {})
    for trial in trials:
        for number in (1, 2):
            trial.store(run, number)
    collect(run, Catalog.load())
    return run.path
