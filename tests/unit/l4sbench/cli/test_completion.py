# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench completion`: a shell completes commands, options and names."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from l4sbench.cli import main
from l4sbench.testbeds.virtual.lab.lab import LabRecord
from tests.patience import PATIENCE_S, ran

TRY = """\
source ./completions
COMP_WORDS=(l4sbench "$@")
COMP_CWORD=$#
_l4sbench
printf '%s\\n' "${COMPREPLY[@]}"
"""


MINE = """\
matrix: stored
rate: 100mbit
rtt: 10ms
duration: 30s
flows: {l4s: {cc: prague}, classic: {cc: cubic}}
axes: {aqm: [codel, fifo], buffer_bdp: [1, 4]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, a matrix and the completions of bash."""
    tmp_path = tmp_path_factory.mktemp("completion")
    for name in ("mine", "other"):
        (tmp_path / "runs" / name / "20260102T030405Z").mkdir(parents=True)
        (tmp_path / "runs" / name / "latest").symlink_to("20260102T030405Z")
    (tmp_path / "quiet.yaml").touch()
    (tmp_path / "my.yaml").write_text(MINE, encoding="utf-8")
    stored = tmp_path / "runs" / "stored" / "20260102T030405Z"
    stored.mkdir(parents=True)
    (stored / "manifest.json").write_text("{}", encoding="utf-8")
    (stored / "matrix.yaml").write_text(MINE, encoding="utf-8")
    (stored.parent / "latest").symlink_to(stored.name)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["completion", "bash"]) == 0
    (tmp_path / "completions").write_text(printed.getvalue(), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("rep", ["report"]),
        ("lab bu", ["build"]),
        ("plan --capt", ["--capture"]),
        ("plan qui", ["quic26", "quic26-quiche", "quickstart", "quiet.yaml"]),
        ("lab shell quick", ["quickstart"]),
        ("run quickstart --on v", ["virtual"]),
        ("report mi", ["mine"]),
        ("compare mine o", ["other"]),
        ("history mi", ["mine"]),
        ("list qu", ["queues"]),
        ("explain dual", ["dualpi2", "dualpi2-studies"]),
        ("explain aqm.targ", ["aqm.target"]),
        ("explain l4s.rtt_ta", ["l4s.rtt_target"]),
        ("docs tro", ["troubleshooting"]),
        ("report mine --rule pam", ["pam25"]),
        ("report mine --against re", ["replication"]),
        ("plan quickstart aqm=dual", ["aqm=dualpi2"]),
        ("plan quickstart aqm = dual", ["dualpi2"]),
        (
            "plan quickstart aqm =",
            ["codel", "codel-drop", "dualpi2", "fifo", "fifo-ecn", "fq-codel", "fq-codel-l4s"],
        ),
        ("plan quickstart aqm=fifo,dual", ["aqm=fifo,dualpi2"]),
        ("plan quickstart aqm=codel aqm.tar", ["aqm.target="]),
        ("plan quickstart aqm=codel rt", ["rtt="]),
        ("run quickstart l4s.cc=", ["l4s.cc=prague"]),
        ("plan my.yaml buf", ["buffer_bdp="]),
        ("show stored aqm=", ["aqm=codel", "aqm=fifo"]),
        ("show stored codel_1", ["codel_1bdp_100mbit_10ms_cubic_prague-b621046b94"]),
        ("init new.yaml --queues codel,dual", ["codel,dualpi2"]),
        ("init new.yaml --against cu", ["cubic"]),
    ],
)
def test_bash_completes(words: str, offered: list[str], folder: Path) -> None:
    ended = ran(["bash", "--norc", "-c", TRY, "bash", *words.split()], cwd=folder, check=True)
    assert sorted(ended.stdout.split()) == sorted(offered)
    assert ended.stderr == ""


def built(cache: Path, name: str) -> None:
    """Leave the record of a lab in a cache."""
    record = LabRecord(
        inputs={},
        compiler="gcc",
        own_kernel=True,
        source="a tree",
        kernel="kernel/k",
        kernel_digest="1",
        kernel_release="7.3.4",
        userland="userland/u",
        userland_digest="2",
        tools="tools/t",
        tools_digest="3",
        rootfs="rootfs/r",
        modules={},
        name=name,
    )
    file = cache / "l4sbench" / "labs" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(record.model_dump_json(), encoding="utf-8")


@pytest.mark.parametrize("words", ["lab remove", "plan quickstart --lab", "lab build --name"])
def test_names_of_labs_are_those_that_are_built(words: str, folder: Path, tmp_path: Path) -> None:
    for name in ("default", "mine", "dual-step"):
        built(tmp_path, name)
    argv = ["bash", "--norc", "-c", TRY, "bash", *words.split()]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for typed, offered in (("", ["dual-step", "mine"]), ("du", ["dual-step"])):
        ended = ran([*argv, typed], cwd=folder, env=environment, check=True)
        assert ended.stdout.split() == offered


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "completions", "source ./completions"),
    "zsh": (["zsh", "-f", "-i"], "_l4sbench", "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D"),
}
"""How each shell starts, its file, and what makes it use the file."""


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    words, name, setup = SHELLS[shell]
    assert main(["completion", shell]) == 0
    (folder / name).write_text(capsys.readouterr().out, encoding="utf-8")
    ours, theirs = pty.openpty()

    def types(keys: str, until: str) -> bool:
        os.write(ours, keys.encode())
        seen, deadline = b"", time.monotonic() + PATIENCE_S
        while until.encode() not in seen and time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 65536)
        return until.encode() in seen

    environment = {**os.environ, "TERM": "xterm", "PS1": "ready> "}
    with subprocess.Popen(
        words, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        try:
            assert types(f"{setup}; echo set-$((40 + 2))\n", "set-42")
            for start, rest in (
                ("rep", "ort"),
                ("lab shell quick", "start"),
                ("explain dua", "lpi2"),
                ("plan quickstart aqm=dua", "lpi2"),
                ("show stored aqm=codel buf", "fer_bdp="),
            ):
                assert types(f"l4sbench {start}", start.rpartition(" ")[2])
                assert types("\t", rest)
                assert types("\x15echo cleared-$((40 + 2))\n", "cleared-42")
        finally:
            process.kill()
            os.close(theirs)
            os.close(ours)


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef l4sbench"), ("tcsh", "# AUTOMATICALLY")])
def test_other_shells(shell: str, begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert text.startswith(begins)
    assert "explain" in text


def test_no_file_of_the_current_folder_is_run(folder: Path, tmp_path: Path) -> None:
    for name in ("json.py", "l4sbench.py", "l4sbench", "python"):
        (tmp_path / name).write_text("#!/bin/sh\nraise SystemExit(open('ran', 'w'))\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "$(touch ran).yaml").write_text(MINE, encoding="utf-8")
    shutil.copy(folder / "completions", tmp_path)
    env = {**os.environ, "PATH": f".:{os.environ['PATH']}"}
    for words in (
        ("plan", "quickstart", "aqm=dual"),
        ("plan", "$(touch ran).yaml", "aqm=cod"),
        ("plan", "$(to"),
    ):
        ended = ran(["bash", "--norc", "-c", TRY, "bash", *words], cwd=tmp_path, env=env, check=True)
        assert ended.stderr == ""
        assert ended.stdout.strip() in ("aqm=dualpi2", "aqm=codel", "$(to" + "uch\\ ran\\).yaml")
    assert not (tmp_path / "ran").exists()


def test_an_unknown_shell_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 2
    assert "choose from bash, zsh, tcsh" in capsys.readouterr().err
