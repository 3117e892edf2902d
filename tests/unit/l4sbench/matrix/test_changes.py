# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A published matrix is changed: by a file that extends it by its name, or by `--set`."""

import json
from pathlib import Path

import pytest

from l4sbench.app.api import RunOptions
from l4sbench.app.finding import load_matrix
from l4sbench.app.prepare import prepare
from l4sbench.catalog import Catalog
from l4sbench.cli import main
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix
from l4sbench.store import Run
from tests.attack.hostile import MARKER, TEXTS

BASE = """\
matrix: base
description: As published.
rate: 10mbit
duration: 60s
buffer_bdp: 1
trials: {min: 3, max: 9, until: decided}
spread: [rtt, classic.cc]
flows: {l4s: {cc: prague}, classic: {}}
axes:
  aqm: [codel, fifo]
  rtt: [10ms, 20ms]
  pairing:
    - {classic.cc: cubic, classic.ecn: classic}
    - {classic.cc: prague}
"""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without runs."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A matrix with a fixed factor, a plain axis and a linked one."""
    path = tmp_path / "base.yaml"
    path.write_text(BASE, encoding="utf-8")
    return path


def planned(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, object]:
    assert main(["plan", *args, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


# ---- extends
def test_a_name_is_that_of_a_shipped_matrix_and_a_path_that_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "quickstart").write_text(BASE, encoding="utf-8")
    (tmp_path / "quickstart.yaml").write_text(BASE, encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    for written, duration in (("quickstart", "30s"), ("./quickstart", "60s"), ("quickstart.yaml", "60s")):
        mine.write_text(f"matrix: mine\nextends: {written}\n", encoding="utf-8")
        assert {str(cell.duration) for cell in load_matrix(mine).cells} == {duration}


def test_what_describes_a_matrix_does_not_describe_one_that_extends_it(base: Path) -> None:
    mine = base.with_name("mine.yaml")
    base.with_name("seed.yaml").write_text("matrix: other\nseed: 2\n", encoding="utf-8")
    mine.write_text("matrix: mine\nextends: [base.yaml, seed.yaml]\n", encoding="utf-8")
    assert load_matrix(mine).description == "extends base, other"
    mine.write_text("matrix: mine\nextends: base.yaml\ndescription: My own.\n", encoding="utf-8")
    found = load_matrix(mine)
    assert (found.description, found.origin) == ("My own.", "extends base")
    # nor does the run's copy
    base.with_name("copy.yaml").write_bytes(found.source)
    copy = load_matrix(base.with_name("copy.yaml"))
    assert (copy.description, copy.origin) == (found.description, found.origin)


def test_every_shipped_matrix_describes_itself() -> None:
    for name in ("pam25-cubic-ideal", "segsize26-cubic", "sure"):
        assert not load_matrix(name).description.startswith("extends")


# ---- --set
def test_values_take_the_place_of_the_matrix(base: Path) -> None:
    found = load_matrix(
        base, changes=["duration=5s", "aqm=[codel]", "rate=[1mbit, 2mbit]", "rtt=30ms", "trials=2"]
    )
    assert {(str(c.duration), c.aqm, str(c.rate), str(c.rtt)) for c in found.cells} == {
        ("5s", "codel", rate, "30ms") for rate in ("1mbit", "2mbit")
    }
    assert (len(found.cells), found.trials.max) == (4, 2)
    assert found.spread == ("classic.cc",)
    dotted = load_matrix(base, changes=["l4s.cc=cubic", "l4s.ecn=off", "classic.count=2"])
    assert {cell.factors["l4s.cc"] for cell in dotted.cells} == {"cubic"}
    linked = load_matrix(base, changes=["pairing=[{classic.cc: cubic}]", "rule=none"])
    assert (len(linked.cells), linked.rule) == (4, "none")


def test_cells_are_those_that_a_file_would_state(base: Path) -> None:
    mine = base.with_name("mine.yaml")
    mine.write_text("matrix: mine\nextends: base.yaml\nduration: 5s\naxes: {aqm: [fifo]}\n", encoding="utf-8")
    changed = load_matrix(base, changes=["duration=5s", "aqm=[fifo]"])
    assert {cell.id for cell in changed.cells} == {cell.id for cell in load_matrix(mine).cells}
    base.with_name("copy.yaml").write_bytes(changed.source)
    copy = Matrix.load(base.with_name("copy.yaml"))
    assert (copy.name, copy.description, copy.cells) == (changed.name, changed.description, changed.cells)


def test_rules_of_another_matrix_need_not_match(base: Path) -> None:
    """A rule that matches no cell may have a typing error, but not where a matrix replaced that axis."""
    base.write_text(f"{BASE}exclude:\n  - {{aqm: codel, rtt: 20ms}}\n")
    mine = base.with_name("mine.yaml")
    mine.write_text("matrix: mine\nextends: base.yaml\naxes: {aqm: [fifo]}\n")
    assert load_matrix(mine).notes == load_matrix(base).notes == ()
    mine.write_text(f"{mine.read_text()}exclude:\n  - {{aqm: codel}}\n")
    (note,) = load_matrix(mine).notes
    assert note == f"exclude at {mine}:5:5 matches no cell"


def test_a_changed_matrix_is_called_by_its_changes(base: Path) -> None:
    def name(*changes: str) -> str:
        return load_matrix(base, changes=changes).name

    assert name("duration=10s") == "base-duration-10s"
    assert load_matrix(base, changes=["duration=10s"]).description == "base with duration=10s"
    assert (
        name("duration=10s", "trials=1") == name("trials=1", "duration=10s") == "base-duration-10s-trials-1"
    )
    assert name("duration=5s", "duration=10s") == "base-duration-10s"
    assert name("aqm=[codel,fifo]") == name("aqm=[codel, fifo]")
    long = [name(f"description={'x' * 300}{end}") for end in "ab"]
    others = [
        *(
            "aqm=[codel]",
            "aqm=codel",
            "rtt=[10ms, 20ms]",
            "rtt=[20ms, 10ms]",
            "description=a-b",
            "description=a b",
        ),
    ]
    names = {*long, *(name(other) for other in others)}
    assert len(names) == len(long) + len(others)
    assert all(len(one) < 60 for one in names)
    own = load_matrix(base, changes=["description=Mine.", "duration=1s"])
    assert (own.description, own.origin) == ("Mine.", "base with description=Mine., duration=1s")


def test_a_changed_run_never_goes_on_in_the_unchanged_one(base: Path, tmp_path: Path) -> None:
    def latest(source: Path, *changes: str) -> Run | None:
        return prepare(source, (), RunOptions(runs=Path("runs"), changes=changes)).latest

    def created(*changes: str) -> Run:
        matrix = load_matrix(base, changes=changes)
        return Run.create(tmp_path / "runs", matrix.name, matrix.source, matrix.seed, {})

    run = created()
    sources = (base, run.path / "matrix.yaml")
    assert [(latest(source), latest(source, "seed=2")) for source in sources] == [(run, None)] * 2
    changed = created("seed=2")  # the same command goes on
    assert [(latest(source), latest(source, "seed=2")) for source in sources] == [(run, changed)] * 2


def test_commands_take_changes(capsys: pytest.CaptureFixture[str]) -> None:
    changed = ["--set", "duration=10s", "--set", "aqm=[codel,dualpi2]"]
    found = planned(capsys, "quickstart", *changed, "buffer_bdp=1")
    assert str(found["matrix"]).startswith("quickstart-aqm-codel-dualpi2-duration-10s-")
    assert {cell["id"].partition("_")[0] for cell in found["cells"]} == {"codel", "dualpi2"}  # type: ignore[attr-defined]
    assert main(["plan", "quickstart", *changed]) == 0
    assert "quickstart with duration=10s, aqm=[codel,dualpi2]" in capsys.readouterr().out
    assert main(["plan", "segsize26", "--quick", "--set", "seed=7"]) == 0
    assert "segsize26-quick-seed-7: segsize26-quick with seed=7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("durration=10s", "durration: unknown key; did you mean duration or description?"),
        ("duration=10", "duration: expected a duration such as 10ms, but 10 has no unit; did you mean 10s?"),
        ("duration=", "duration: expected a value, not nothing"),
        ("rule=~", "rule: expected a value, not nothing"),
        ("aqm=codle", "aqm: the catalog has no queue codle; did you mean codel or fq-codel?"),
        ("l5s.cc=cubic", "l5s.cc: there is no flow group l5s; did you mean l4s.cc or classic.cc?"),
        ("trials=0", "trials: 0 is out of range; it must be at least 1"),
        ("aqm={a: b}", "aqm: expected one value, not a map; nest only flow groups and events; "),
        ("matrix=x", "matrix: cannot be set; a changed matrix gets a name of its own"),
        ("catalog=x", "catalog: cannot be set; --catalog DIR adds a folder"),
        (
            "classic.cc=cubic",
            "classic.cc: the axis pairing sets it together with classic.ecn; choose from its ",
        ),
        # a value states no other key, and is nothing but a value
        ("duration=10s\nextends: /etc/passwd", "2:8: is not valid YAML: mapping values are not allowed here"),
        ("duration=!!python/object:os.system true", "1:1: the tag !!python/object:o... is not allowed"),
        ("duration=\x1b[31m1s", "1:1: the control character U+001B is not allowed"),
    ],
)
def test_what_is_wrong_is_said_of_the_argument(
    base: Path, change: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(base), "--set", change]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert "\x1b" not in said
    assert {line.partition("=")[0] for line in said.splitlines() if line.startswith("error")} == {
        f"error: --set {change.partition('=')[0]}"
    }


def test_another_form_is_no_change(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(base), "--set", "codel"]) == 2
    expected = (
        "error: --set: 'codel' is not a valid KEY=VALUE; for example duration=10s or aqm=[codel,dualpi2]"
    )
    assert capsys.readouterr().err == f"{expected}\n"


def test_a_value_that_a_cell_of_include_would_not_take_is_refused(base: Path) -> None:
    base.write_text(f"{BASE}include:\n  - {{duration: 1s, classic.cc: cubic, aqm: fifo}}\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"duration: a cell of include has its own, at .*base.yaml:16:5; set incl"
    ):
        load_matrix(base, changes=["duration=5s"])
    assert len(load_matrix(base, changes=["duration=5s", "include=[]"]).cells) == 8


@pytest.mark.parametrize("text", [text for text in TEXTS if text.isprintable()])
def test_a_hostile_value_is_a_value_or_an_error(
    base: Path, tmp_path: Path, text: str, small_catalog: Catalog
) -> None:
    """Whatever it says, it names no folder elsewhere, and no shell sees it."""
    for change in (
        f"description={text}",
        f"aqm={text}",
        f"{text}=1",
        f"topology={text}",
        f"rate=[{text}]",
        text,
    ):
        try:
            found = Matrix.load(base, small_catalog, changes=[change])
        except InputError:
            continue
        assert len(Path(found.name).parts) == 1
        assert found.name.startswith("base-")
        run = Run.create(tmp_path / "runs", found.name, found.source, 1, {})
        assert run.path.parents[1] == tmp_path / "runs"
        assert Matrix.load(run.path / "matrix.yaml", small_catalog).cells == found.cells
    assert not (tmp_path / MARKER).exists()
