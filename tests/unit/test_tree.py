# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What the tree as a whole must keep to, so that the wheel and other people's machines stay right."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.patience import PATIENCE_S, ran

ROOT = Path(__file__).parents[2]
PACKAGES = ("l4sbench", "collectors", "reports", "fablib_slices")
DATA = ("kernels", "matrices", "p4", "playbooks", "roles", "senders")
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="looks at a git checkout")


def tracked() -> list[str]:
    """Every file that git has or would take."""
    listed = ran(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def test_one_gitignore() -> None:
    assert [name for name in tracked() if Path(name).name == ".gitignore"] == [".gitignore"]


def test_no_modules_import_each_other_even_for_types() -> None:
    first, *others = PACKAGES
    graph = grimp.build_graph(first, *others, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert set(imports["l4sbench.store"]) > {"l4sbench.store.run"}
    list(TopologicalSorter(imports).static_order())  # raises CycleError with the circle


def test_data_folders_are_no_packages() -> None:
    # p4/ above all: a P4 library installs an import package of that name
    assert [name for name in tracked() if name.startswith(DATA) and name.endswith("__init__.py")] == []


def test_locks_name_no_index_and_every_hash() -> None:
    locks = sorted((ROOT / "requirements").glob("*.txt"))
    every = ["bench.txt", "dev.txt", "docs.txt", "flent.txt", "run.txt", "scale.txt"]
    assert [lock.name for lock in locks] == every
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        assert not re.search(
            r"https?:|^\s*-|--index|--find-links|--trusted|@ file",
            text.replace("    --hash", ""),
            re.MULTILINE,
        )
        for requirement in re.split(r"\n(?=\S)", text):
            assert requirement.startswith("#") or "--hash=sha256:" in requirement


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_functions_stay_short(path: Path) -> None:
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > 80
    }
    assert long == {}


WAITS = {"timeout", "timeout_s", "limit_s", "wall_limit_s"}
"""Arguments of what waits."""


def limits(tree: ast.Module) -> Iterator[ast.expr]:
    """Every limit that a test states: arguments of what waits, their defaults, and what is added to now."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=name, value=value) if name in WAITS:
                yield value
            case ast.Call(func=ast.Attribute(attr="wait"), args=[value]):
                yield value
            case ast.BinOp(left=ast.Call() as now, op=ast.Add(), right=value):
                if ast.unparse(now) == "time.monotonic()":
                    yield value
            case ast.arguments():
                named = [*node.posonlyargs, *node.args][::-1]
                yield from (
                    value for arg, value in zip(named, node.defaults[::-1], strict=False) if arg.arg in WAITS
                )
                pairs = zip(node.kwonlyargs, node.kw_defaults, strict=True)
                yield from (value for arg, value in pairs if value is not None and arg.arg in WAITS)


def test_tests_wait_long_enough_for_a_busy_machine() -> None:
    """A limit is at least `PATIENCE_S`; a comment `expires: ...` marks one that is there to be reached."""
    short = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines, tree = text.splitlines(), ast.parse(text)
        constants = {
            target.id: statement.value
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
        for limit in limits(tree):
            match constants.get(limit.id) if isinstance(limit, ast.Name) else limit:
                case ast.Constant(value=int() | float() as seconds) if seconds < PATIENCE_S:
                    if "# expires: " not in lines[limit.lineno - 1]:
                        short.append(f"{path.relative_to(ROOT)}:{limit.lineno}: {ast.unparse(limit)}")
    assert short == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_docstrings_begin_with_a_verb_or_a_noun(path: Path) -> None:
    # ruff's D401 requires a verb of functions; classes, modules and values are left to this test
    text = path.read_text(encoding="utf-8")
    assert re.findall(r'"""(?:What|Whether|Who|How|Where|When|Which) .*', text) == []


def _is_of_dotted_name(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        last = node.values[-1]
        return isinstance(last, ast.Constant) and last.value == "."
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return text == "." or re.fullmatch(r"\.[a-z_]+|[a-z_]+\.", text) is not None


CUTTING = frozenset(
    {"partition", "rpartition", "split", "rsplit", "startswith", "endswith", "removeprefix", "removesuffix"}
)

BORDERS = {
    "l4sbench/facts/factors.py": "takes dotted names apart, for all others",
    "l4sbench/matrix/": "reads matrix files and filters",
    "l4sbench/disk/document.py": "shows the paths of keys in a file",
    "l4sbench/errors.py": "finds what a misspelled name may mean",
    "l4sbench/text/wording.py": "quotes a name part by part",
    "l4sbench/app/words.py": "takes what a user asks about",
    "l4sbench/program/readback.py": "keys of JSON that tc prints",
    "collectors/validity.py": "names of sysctls",
    "l4sbench/testbeds/dask/worker.py": "a release",
    "l4sbench/testbeds/ssh/facts.py": "a release",
    "l4sbench/testbeds/virtual/lab/source.py": "a release",
    "l4sbench/testbeds/virtual/lab/linuxmodules.py": "names of files",
    "l4sbench/testbeds/dask/address.py": "names of files",
    "l4sbench/app/pages.py": "names of files",
    "l4sbench/store/bundle.py": "names of files",
    "l4sbench/disk/trust.py": "names of files",
    "reports/figures/files.py": "names of files",
    "reports/figures/save.py": "names of files",
}
"""Modules that cut up texts with dots, and what those are."""


def test_no_module_learns_a_fact_by_cutting_up_the_name_of_a_factor() -> None:
    """`l4sbench.facts.factors.name_of` returns the parts of a dotted name."""
    found: set[str] = set()
    for part in ("l4sbench", "collectors", "reports"):
        for file in sorted((ROOT / part).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in CUTTING
                    and node.args
                    and _is_of_dotted_name(node.args[0])
                ):
                    found.add(file.relative_to(ROOT).as_posix())
    assert {file for file in found if not file.startswith(tuple(BORDERS))} == set()
    unused = {border for border in BORDERS if not any(file.startswith(border) for file in found)}
    assert unused == set()


def test_no_two_classes_have_one_name() -> None:
    """Whoever searches for a public name finds one thing."""
    places: dict[str, list[str]] = {}
    for part in ("l4sbench", "collectors", "reports", "fablib_slices", "roles/helper/files"):
        for file in sorted((ROOT / part).rglob("*.py")):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(file.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
