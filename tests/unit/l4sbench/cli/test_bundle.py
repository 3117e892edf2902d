# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench bundle` as reviewers of artifacts see it: what they open first, and what must not be in it."""

from __future__ import annotations

import json
import re
import shlex
import tarfile
from pathlib import Path

import pytest

from l4sbench.cli import main
from l4sbench.store.crate import CRATE, NO_LICENCE
from tests.attack.hostile import make_run

ROOT = Path(__file__).parents[4]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a report, whose matrix names folders of this machine as users' matrices do."""
    made = make_run(tmp_path / "runs")
    (tmp_path / "mine").mkdir()
    matrix = made / "matrix.yaml"
    schema = f"# yaml-language-server: $schema={ROOT / 'matrices' / 'matrix.schema.json'}\n"
    text = matrix.read_text(encoding="utf-8")
    more = f"catalog: [{tmp_path / 'mine'}]  # see {Path.home() / 'notes.txt'}\n"
    matrix.write_text(f"{schema}{text}{more}", encoding="utf-8")
    assert main(["report", str(made)]) == 0
    return made


def opened(bundle: Path, into: Path) -> Path:
    """The run directory in a bundle, as tar unpacks it."""
    with tarfile.open(bundle) as archive:
        archive.extractall(into, filter="data")
    (found,) = into.glob("*/*/")
    return found


def bundled(run: Path, tmp_path: Path, name: str = "out") -> Path:
    out = tmp_path / f"{name}.tar.gz"
    assert main(["bundle", str(run), "-o", str(out)]) == 0
    return opened(out, tmp_path / name)


def test_no_text_of_a_bundle_names_a_folder_of_this_machine(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = bundled(run, tmp_path)
    texts = 0
    for path in there.rglob("*"):
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            texts += 1
            for folder in (tmp_path, ROOT, Path.home()):
                assert not re.search(re.escape(str(folder)).encode() + rb"(?![\w.-])", data), path
    assert texts > 20
    assert "note: " not in capsys.readouterr().err
    assert "catalog: [./mine]" in (there / "matrix.yaml").read_text(encoding="utf-8")
    # line numbers of errors stay those of the run's file
    lines = [(folder / "matrix.yaml").read_text(encoding="utf-8").count("\n") for folder in (run, there)]
    assert lines[0] == lines[1]
    assert main(["report", str(there)]) == 0


def test_a_description_that_names_a_folder_of_this_machine(run: Path, tmp_path: Path) -> None:
    matrix = run / "matrix.yaml"
    text = matrix.read_text(encoding="utf-8")
    matrix.write_text(f"{text}description: see {Path.home()}/private/plan.txt\n", encoding="utf-8")
    there = bundled(run, tmp_path)
    graph = {own["@id"]: own for own in json.loads((there / CRATE).read_bytes())["@graph"]}
    assert graph["./"]["description"] == "see ./plan.txt"
    assert "see ./plan.txt" in (there / "README.md").read_text(encoding="utf-8")


def test_another_file_that_names_one_is_pointed_out(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = next(run.glob("cells/*/*/raw"))
    (raw / "notes.txt").write_text(f"made in {tmp_path}/here\n", encoding="utf-8")
    bundled(run, tmp_path)
    name = (raw / "notes.txt").relative_to(run)
    assert f"note: {name} names {tmp_path}, of this machine" in capsys.readouterr().err


def test_its_readme_says_what_it_claims_and_how_to_repeat_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (bundled(run, tmp_path) / "README.md").read_text(encoding="utf-8")
    decision = json.loads((run / "report" / "decision.json").read_text(encoding="utf-8"))
    for answer in decision["answers"]:
        assert f"Is it okay to switch to {answer['l4s']}? {answer['answer']}" in text
    for entry in decision["verdicts"]:
        assert f"| **{entry['row']}** |" in text
        assert entry["verdict"] in text
    for kernel in decision["kernels"]:
        assert kernel in text
    assert NO_LICENCE in text
    assert "`cells/`" in text
    # its commands are those that work, where it was copied to
    monkeypatch.chdir(tmp_path / "out")
    bundle = str(tmp_path / "out.tar.gz")
    commands = [shlex.split(line) for line in re.findall(r"^    l4sbench (.*)$", text, re.MULTILINE)]
    assert [words[0] for words in commands] == ["bundle", "bundle", "run"]
    for words in commands:  # without a lab nothing runs
        assert main([{"FILE": bundle, "run": "plan"}.get(word, word) for word in words]) == 0
    (report,) = re.findall(r"`l4sbench (report [^`]*)`", text)
    assert main(report.split()) == 0
    capsys.readouterr()


def test_bundled_again_it_is_the_same_and_a_readme_of_ones_own_stays(run: Path, tmp_path: Path) -> None:
    bundled(run, tmp_path)
    assert main(["bundle", "--unpack", str(tmp_path / "out.tar.gz"), "--dir", str(tmp_path / "there")]) == 0
    there = tmp_path / "there" / "base" / run.name
    bundled(there, tmp_path, "again")
    assert (tmp_path / "again.tar.gz").read_bytes() == (tmp_path / "out.tar.gz").read_bytes()
    (run / "README.md").write_text("# Mine\n", encoding="utf-8")
    assert (bundled(run, tmp_path, "own") / "README.md").read_text(encoding="utf-8") == "# Mine\n"


def test_without_tables_or_a_rule_it_claims_nothing(run: Path, tmp_path: Path) -> None:
    matrix = run / "matrix.yaml"
    text = re.sub(r"(?m)^rule: .*\n", "", matrix.read_text(encoding="utf-8"))
    matrix.write_text(f"{text}rule: none\n", encoding="utf-8")
    found = (bundled(run, tmp_path) / "README.md").read_text(encoding="utf-8")
    assert "Its matrix has no rule for verdicts: the run measures, and claims nothing." in found
    matrix.write_text("matrix: [", encoding="utf-8")
    (run / "manifest.json").write_text("[]", encoding="utf-8")
    found = (bundled(run, tmp_path, "broken") / "README.md").read_text(encoding="utf-8")
    assert "It has no decision table: " in found


def test_the_matrix_states_the_licence_of_the_data(run: Path, tmp_path: Path) -> None:
    matrix = run / "matrix.yaml"
    matrix.write_text(f"{matrix.read_text(encoding='utf-8')}licence: cc-by-4.0\n", encoding="utf-8")
    there = bundled(run, tmp_path)
    page = "https://spdx.org/licenses/CC-BY-4.0.html"
    assert f"The data of this run: CC-BY-4.0 ({page})." in (there / "README.md").read_text(encoding="utf-8")
    graph = {own["@id"]: own for own in json.loads((there / CRATE).read_bytes())["@graph"]}
    assert graph["./"]["license"] == {"@id": page}
    assert (graph[page]["@type"], graph[page]["name"]) == ("CreativeWork", "CC-BY-4.0")
    assert graph["README.md"]["encodingFormat"] == "text/markdown"


@pytest.mark.parametrize(
    "licence", ["CC-BY", "MIT OR Apache-2.0", "LicenseRef-mine", "'](http://x)'", "'x\\ny'"]
)
def test_what_is_no_licence_is_refused(
    licence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"matrix: mine\nextends: quickstart\nlicence: {licence}\n", encoding="utf-8")
    assert main(["plan", str(mine)]) == 2
    said = capsys.readouterr().err
    assert "mine.yaml:3:10: licence: " in said
    assert "is not the SPDX id of a licence; such as CC-BY-4.0 or CC0-1.0" in said
