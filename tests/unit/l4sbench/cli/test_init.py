# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench init`: a first matrix."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from l4sbench.app.finding import load_matrix
from l4sbench.cli import main
from l4sbench.matrix import Matrix
from tests.patience import PATIENCE_S, ran

SHIPPED = Path(__file__).parents[4] / "matrices" / "quickstart.yaml"


def test_with_its_buffers_the_cells_are_those_of_quickstart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "sub/mine.yaml", "--buffers", "1,4"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "sub/mine.yaml\n"
    assert "28 cells" in shown.err
    made = Matrix.load(Path("sub/mine.yaml"))
    assert made.name == "mine"
    assert {cell.id for cell in made.cells} == {cell.id for cell in Matrix.load(SHIPPED).cells}
    assert not any("aqm.limit" in cell.factors for cell in made.cells)
    lines = Path("sub/mine.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# yaml-language-server: $schema=/")
    assert Path(lines[0].partition("=")[2]).is_file()


def limits(*options: str) -> dict[str, set[tuple[str, float | None]]]:
    """The limits of a matrix made with these options, by queue: what it states, and its buffer if any."""
    file = Path("limits.yaml")
    file.unlink(missing_ok=True)
    assert main(["init", str(file), *options]) == 0
    found: dict[str, set[tuple[str, float | None]]] = {}
    for cell in Matrix.load(file).cells:
        own = cell.get("aqm.limit") or cell.get("aqm.memlimit") or ""
        buffer = cell.buffer_bdp if "buffer_bdp" in cell.given else None
        found.setdefault(cell.aqm, set()).add((str(own), buffer))
    return found


def test_aqms_keep_their_own_limit_and_fifos_have_buffers() -> None:
    fifo, own = {("", 1.0), ("", 4.0)}, {("default", None)}
    found = limits()
    assert found.pop("fifo") == fifo
    assert len(found) == 6
    assert all(stated == own for stated in found.values())
    assert limits("--queues", "fq-codel,dualpi2", "--buffers", "default") == {"fq-codel": own, "dualpi2": own}
    assert limits("--queues", "fifo,red") == {"fifo": fifo, "red": fifo}, "RED has no limit of its own"
    assert limits("--queues", "cake,pie") == {"cake": own, "pie": own}, "they call it differently"
    assert limits("--queues", "fq_codel,fq-codel", "--buffers", "2") == {"fq-codel": {("", 2.0)}}


def test_choices_become_factors_and_axes() -> None:
    given = ["--queues", "fq-codel", "--against", "cubic,bbr1", "--rate", "10mbit, 50mbit", "--trials", "5"]
    assert main(["init", "mine.yaml", *given, "--buffers", "2", "--rtt", "20ms", "--duration", "5s"]) == 0
    made = Matrix.load(Path("mine.yaml"))
    assert {(axis.name, axis.points) for axis in made.axes} == {("rate", 2), ("classic.cc", 2)}
    cell = made.cells[0]
    assert (cell.aqm, cell.buffer_bdp, str(cell.rtt), str(cell.duration)) == ("fq-codel", 2.0, "20ms", "5s")
    assert made.trials.max == 5


def test_every_wrong_choice_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--queues", "codle", "--rate", "10", "--cc", "prague,cubic", "--trials", "0", "--rtt", ","]
    wrong += ["--buffers", "default,1"]
    assert main(["init", "mine.yaml", *wrong]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: --cc: takes one value, not 2",
        "error: --queues: the catalog has no queue codle; did you mean codel or fq-codel?",
        'error: --rate: expected a rate such as 100mbit, not "10"; add a unit: bit, kbit, mbit, gbit',
        "error: --rtt: needs a value",
        "error: --buffers: takes either numbers or the word default",
        "error: --trials: 0 is out of range; it must be at least 1",
        "6 problems",
    ]
    assert not Path("mine.yaml").exists()


def test_a_file_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("precious", encoding="utf-8")
    assert main(["init", "mine.yaml"]) == 2
    assert capsys.readouterr().err == "error: mine.yaml exists already; choose another name\n"
    assert Path("mine.yaml").read_text(encoding="utf-8") == "precious"


def test_a_terminal_is_asked(tmp_path: Path) -> None:
    """Enter takes the default, and a wrong answer is asked again."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "l4sbench", "init", "mine.yaml"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    os.write(ours, b"\n\ncodle\ndualpi2\n\n\n\n5s\n1\n")
    out, shown = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert (process.returncode, out) == (0, "mine.yaml\n"), shown
    assert "congestion control in question [prague]: " in shown
    assert "error: the catalog has no queue codle; did you mean codel or fq-codel?" in shown
    made = Matrix.load(tmp_path / "mine.yaml")
    assert {cell.aqm for cell in made.cells} == {"dualpi2"}
    assert (str(made.cells[0].duration), made.trials.max) == ("5s", 1)


@pytest.mark.parametrize(
    "name",
    ["my matrix.yaml", "$(touch x).yaml", "`touch x`.yaml", "it's.yaml", "-rf.yaml", "a;touch x;.yaml"],
)
def test_the_commands_that_it_prints_can_be_copied(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", f"./{name}"]) == 0
    plan = capsys.readouterr().err.partition("; ")[2].partition(" lists them")[0]
    script = f'l4sbench() {{ {sys.executable} -m l4sbench "$@"; }}\n{plan}'
    ended = ran(["sh", "-c", script])
    assert ended.returncode == 0, ended.stderr
    assert "16 cells" in ended.stdout + ended.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {name, "XDG_CACHE_HOME"}


# ---- from another matrix
def test_a_matrix_that_extends_a_shipped_one_has_its_cells(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--from", "pam25-cubic", "-o", "mine.yaml"]) == 0
    assert capsys.readouterr().out == "mine.yaml\n"
    made, whole = load_matrix("mine.yaml"), load_matrix("pam25-cubic")
    assert (made.name, made.description, made.cells) == ("mine", "extends pam25-cubic", whole.cells)
    assert main(["init", "--from", "quickstart"]) == 0
    assert load_matrix("my-quickstart.yaml").cells == load_matrix("quickstart").cells
    # one's own, from another folder
    assert main(["init", "sub/more.yaml", "--from", "mine.yaml"]) == 0
    assert load_matrix("sub/more.yaml").cells == whole.cells


@pytest.mark.parametrize("name", ["pam25-cubic", "quickstart", "atlas", "low-rates"])
def test_what_is_written_as_a_comment_is_what_holds(name: str) -> None:
    """Without its comment signs the file states what the other matrix states."""
    assert main(["init", "--from", name, "-o", "mine.yaml"]) == 0
    text = Path("mine.yaml").read_text(encoding="utf-8")
    head, _, rest = text.partition("extends: ")
    for key in ("description", "trials", "aqm"):
        assert key in rest
    stated = re.sub(r"(?m)^# ", "", rest)
    Path("mine.yaml").write_text(f"{head}extends: {stated}", encoding="utf-8")
    made, whole = load_matrix("mine.yaml"), load_matrix(name)
    assert made.description == "What is the question?"
    assert ({cell.id for cell in made.cells}, made.trials) == (
        {cell.id for cell in whole.cells},
        whole.trials,
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "init needs a FILE to write; l4sbench init mine.yaml"),
        (["a.yaml", "-o", "b.yaml"], "there are two files to write; leave out either FILE or -o"),
        (["--from", "pam25-cubik"], "there is no matrix pam25-cubik; did you mean pam25-cubic, "),
        (
            ["--from", "quickstart", "--rate", "1mbit"],
            "--from takes everything from the other matrix; leave out --rate, and state that in my-",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    arguments: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *arguments]) == 2
    assert problem in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
