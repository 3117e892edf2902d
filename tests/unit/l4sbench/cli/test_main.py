# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Exit codes, where text goes, and what a command must not import."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from l4sbench.cli import main
from tests.patience import PATIENCE_S, ran

HEAVY = ("altair", "polars", "numpy", "scipy", "rich", "dataframely", "jinja2", "asyncio")


def python(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user would, with nothing on the standard input."""
    return ran([sys.executable, *args], env={**os.environ, **env})


def wait_for_reader_of(file: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the process has opened the file."""
    opened = Path("/proc", str(process.pid), "fd")
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if file in [path.readlink() for path in opened.iterdir()]:
                return
        time.sleep(0.05)
    raise AssertionError("the process never opened the file")


def test_the_answer_goes_to_stdout_and_hints_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart"]) == 0
    shown = capsys.readouterr()
    assert "28 cells, 84 trials (84 new)" in shown.out
    assert "fq-codel-l4s" in shown.out
    assert "lab" in shown.err
    assert "\x1b" not in shown.out + shown.err


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart", "--json", "aqm=dualpi2", "--trials", "2", "classic.ecn=off"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {cell["factors"]["aqm"] for cell in plan["cells"]} == {"dualpi2"}
    assert (len(plan["cells"]), plan["trials_to_run"]) == (2, 4)
    assert main(["lab", "status", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["ready"] is False
    assert main(["doctor", "--json"]) == 3
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert (checks["lab"]["ok"], checks["lab"]["mend"]) == (False, "l4sbench lab build")


def test_pauses_are_printed_as_a_table_or_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--pauses", "--seconds", "1"]) == 0
    shown = capsys.readouterr()
    heading, row = shown.out.splitlines()
    assert heading.startswith("host ")
    assert row.startswith("this machine ")
    assert shown.err == "measuring for 1 s\n"
    assert main(["doctor", "--pauses", "--seconds", "1", "--json"]) == 0
    (here,) = json.loads(capsys.readouterr().out).values()
    assert here["pauses"] == len(here["sizes_ms"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--seconds", "5"], "--seconds is for measuring pauses; l4sbench doctor --pauses --seconds ..."),
        (["--on", "ssh:a.yml"], "--on is for measuring pauses; l4sbench doctor --pauses --on ..."),
        (
            ["--pauses", "--on", "virtual"],
            (
                "virtual is not a valid place for --pauses; it must be ssh:INVENTORY; --on ssh:hosts.yml; "
                "`l4sbench slice inventory NAME` prints the inventory of a slice"
            ),
        ),
        (
            ["--pauses", "--on", "ssh:/no/such.yml"],
            (
                "inventory /no/such.yml does not exist; l4sbench lab up prints the inventory of a local lab; "
                "`l4sbench docs ssh` describes the format"
            ),
        ),
    ],
)
def test_what_pauses_cannot_be_measured(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *given]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[-1] == f"error: {message}"


def test_every_problem_of_a_file_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "matrix: bad\nrate: 100\nrtt: 10ms\nduration: 1s\naqm: codle\nflows: {l4s: {cc: prague}}\n",
        encoding="utf-8",
    )
    assert main(["plan", str(bad)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert re.search(rf"{re.escape(str(bad))}:2:\d+: rate: ", lines[0])
    assert re.search(rf"{re.escape(str(bad))}:5:\d+: aqm: .*did you mean codel", lines[1])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["plna"], "there is no command plna; did you mean plan?"),
        (["frobnicate"], "there is no command frobnicate; choose from ask, init, plan, run,"),
        (["lab", "biuld"], "there is no command biuld; did you mean build?"),
        (["plan"], "the following arguments are required: MATRIX; see l4sbench plan --help"),
        (["run", "quickstart", "--tirals", "3"], "unknown argument --tirals; did you mean --trials"),
        (["lab", "build", "--xyzzy"], "unknown argument --xyzzy; see l4sbench lab build --help"),
        (["run", "quickstart", "--retry", "faild"], "faild is not a valid choice; did you mean failed?"),
        (["plan", "quikstart"], "did you mean quickstart?"),
        (["plan", "quickstart", "aqm"], "'aqm' is not a valid FACTOR=PATTERN"),
        (["plan", "quickstart", "--jobs", "2", "aqm"], "'aqm' is not a valid FACTOR=PATTERN"),
        (["plan", "quickstart", "aqn=codel"], "did you mean aqm?"),
        (["plan", "quickstart", "--job", "2"], "--job"),
        (["plan", "quickstart", "--", "ls"], "-- and what follows it are for l4sbench lab shell"),
        (["plan", "quickstart", "--jobs", "0"], "at least 1"),
        (["run", "quickstart", "--on", "vitual"], "did you mean virtual?"),
        (["report", "quickstart"], "there is no run quickstart"),
        (["collect", "quickstart"], "there is no run quickstart"),
        (["bundle"], "RUN"),
        (["bundle", "--check", "nothing"], "nothing"),
        (["bundle", "quickstart", "--check", "x"], "RUN"),
    ],
)
def test_bad_input_is_2_and_says_what(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert says in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("argv", [["run", "quickstart"], ["lab", "shell", "quickstart"], ["lab", "status"]])
def test_without_a_lab_it_is_3_and_says_what_to_do(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 3
    shown = capsys.readouterr()
    assert "l4sbench lab build" in shown.out + shown.err
    assert not Path("runs").exists()


def adaptive(folder: Path) -> str:
    """A file with quickstart's cells and trials until decided."""
    matrix = folder / "adaptive.yaml"
    matrix.write_text(
        "extends: quickstart.yaml\nmatrix: adaptive\ntrials: {min: 3, max: 10, until: decided}\n"
    )
    shipped = Path(__file__).parents[4] / "matrices" / "quickstart.yaml"
    (folder / "quickstart.yaml").write_bytes(shipped.read_bytes())
    return str(matrix)


def test_plan_says_how_many_trials_until_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 28 cells 22 % get 2 more trials and 9 % another 5: 25."""
    matrix = adaptive(tmp_path)
    assert main(["plan", matrix]) == 0
    out = capsys.readouterr().out
    assert "then until decided (judged after 3 and 5 trials, at most 10): probably 25 more" in out
    assert f"at most {28 * 7} (estimate from published trials)\n" in out
    assert main(["plan", matrix, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert (plain["trials_added_probably"], plain["trials_added_at_most"]) == (25, 28 * 7)
    assert main(["plan", matrix, "--trials", "4"]) == 0
    assert "until decided" not in capsys.readouterr().out


def test_trials_until_decided_need_groups_to_decide_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = (
        "topology: line6\nmatrix: solo\nrate: 10mbit\nrtt: 10ms\nduration: 1s\naqm: fifo\n"
        "trials: {min: 3, max: 10, until: decided}\nflows: {only: {cc: cubic}}\n"
    )
    (tmp_path / "solo.yaml").write_text(extra)
    assert main(["run", str(tmp_path / "solo.yaml")]) == 2
    assert "trials: are added until the verdict is decided" in capsys.readouterr().err


def test_a_bug_is_4_and_its_traceback_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    # a name that no file system takes and no shell can pass
    assert main(["bundle", "--check", "\0"]) == 4
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    kept = Path(shown.split()[-1])
    assert "Traceback" in kept.read_text(encoding="utf-8")


def test_interrupted_is_130(tmp_path: Path) -> None:
    long = tmp_path / "first" / "20260102T030405Z" / "long"
    long.parent.mkdir(parents=True)
    (long.parent / "manifest.json").touch()
    long.touch()
    os.truncate(long, 1 << 40)  # takes no space, and reading it takes an hour
    with subprocess.Popen(
        [sys.executable, "-m", "l4sbench", "bundle", str(long.parent), "-o", str(tmp_path / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for_reader_of(long, process)
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in shown


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "l4sbench", "plan", "quickstart", "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 0
    assert "Broken pipe" not in ended.stderr


def test_a_plan_imports_nothing_heavy() -> None:
    code = (
        "import sys; from l4sbench.cli import main; code = main(['plan', 'quickstart']); "
        f"found = sorted(set({HEAVY!r}) & set(sys.modules)); print(found, file=sys.stderr); sys.exit(code)"
    )
    ended = python("-c", code)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines()[-1] == "[]"


COMMANDS = (
    "init plan run collect show report bundle clean doctor lab lab-build lab-status lab-shell lab-up "
    "lab-down list explain docs completion"
)


@pytest.mark.parametrize("command", [name.replace("-", " ") for name in COMMANDS.split()])
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "examples:" in shown
    assert f"l4sbench {command}" in shown


@pytest.mark.parametrize("argv", [[], ["lab"], ["slice"]])
def test_without_a_command_it_prints_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"usage: {' '.join(['l4sbench', *argv])} ")
    assert "commands:" in shown.out
    assert shown.err == ""


def test_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "130 "):
        assert re.search(rf"^  {code}", shown, re.MULTILINE)


def test_version() -> None:
    ended = python("-m", "l4sbench", "--version")
    assert re.fullmatch(r"l4sbench \d+\.\d+\.\d+\n", ended.stdout)
