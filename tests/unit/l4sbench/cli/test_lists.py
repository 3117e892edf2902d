# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The look of `l4sbench list` on a terminal, the rows that it picks, and the sizes of matrices."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from l4sbench.cli import main
from l4sbench.disk import assets
from l4sbench.text.wording import as_range


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Returns what a command prints on a terminal of 80 columns without colours."""
    for name, value in (("COLUMNS", "80"), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)

    def show(*argv: str) -> str:
        with monkeypatch.context() as patched:
            patched.setattr(sys.stdout, "isatty", lambda: True)
            return shown(capsys, *argv)

    return show


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("what", ["queues", "ccs", "senders", "factors", "rules", "topologies", "matrices"])
def test_a_terminal_of_80_columns_shows_every_word(
    what: str, narrow: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = narrow("list", what)
    assert max(map(len, text.splitlines())) <= 80
    words = set(text.split())
    for row in json.loads(shown(capsys, "list", what, "--json")):
        assert set(list(row.values())[-1].split()) <= words


def test_factors_have_their_meaning_on_a_narrow_terminal(narrow: Callable[..., str]) -> None:
    text = narrow("list", "factors")
    assert "rate\n    Rate of the bottleneck\n    default: none, every cell states it; values: " in text


def test_matrices_are_grouped_by_study(narrow: Callable[..., str]) -> None:
    text = narrow("list", "matrices")
    assert re.match(r"matrix +cells +time +quick\n", text)
    groups = [line for line in text.splitlines() if re.fullmatch(r"[a-z]+[0-9]*", line)]
    studies = ["ncf26", "pam25", "quic26", "replication", "rfc8867", "rtc26", "segsize26", "stress25"]
    assert groups == ["anrw24", "atlas", *studies, "testbeds25", "web26"]
    assert text.index("\nquickstart ") < text.index("\nanrw24\n") < text.index("\nanrw24-fig1 ")


def test_matrices_have_the_sizes_that_plan_states(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent")  # so that no cost is known
    rows = {row["matrix"]: row for row in json.loads(shown(capsys, "list", "matrices", "--json"))}
    for name in ("quickstart", "pam25-cubic"):
        plan = json.loads(shown(capsys, "plan", name, "--json"))
        assert rows[name]["cells"] == str(len(plan["cells"]))
        assert rows[name]["time"] == as_range(plan["wall_low_s"], plan["wall_high_s"])


def test_words_pick_rows(capsys: pytest.CaptureFixture[str]) -> None:
    every = json.loads(shown(capsys, "list", "matrices", "--json"))
    quick = json.loads(shown(capsys, "list", "matrices", "quick", "--json"))
    assert [row for row in every if row["quick"] or row["matrix"] == "quickstart"] == [
        row for row in quick if row["matrix"] != "sure"
    ]
    assert [
        row["matrix"] for row in json.loads(shown(capsys, "list", "matrices", "PAM25", "flows", "--json"))
    ]
    assert [row["queue"] for row in json.loads(shown(capsys, "list", "queues", "L4S", "yes", "--json"))] == [
        "dualpi2",
        "fq-codel-l4s",
    ]
    assert shown(capsys, "list", "matrices", "zzz") == "there are no matrices with zzz\n"


def test_words_may_follow_options(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(shown(capsys, "list", "queues", "cake", "--json"))
    assert rows
    assert json.loads(shown(capsys, "list", "queues", "--json", "cake")) == rows


def test_a_matrix_that_is_not_valid_has_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("kernels", "workloads"):
        (tmp_path / name).symlink_to(assets.folder(name))
    (tmp_path / "matrices").mkdir()
    (tmp_path / "matrices" / "topologies").symlink_to(assets.folder("matrices") / "topologies")
    file = tmp_path / "matrices" / "mine.yaml"
    text = (assets.folder("matrices") / "quickstart.yaml").read_text(encoding="utf-8")
    monkeypatch.setattr(assets, "root", lambda: tmp_path)
    file.write_text(text, encoding="utf-8")
    (row,) = json.loads(shown(capsys, "list", "matrices", "--json"))
    assert row["cells"] == "28"
    file.write_text(text.replace("aqm:", "aqn:"), encoding="utf-8")
    (row,) = json.loads(shown(capsys, "list", "matrices", "--json"))
    assert (row["cells"], row["time"]) == ("", "")
