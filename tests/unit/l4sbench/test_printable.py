# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Signs that a terminal obeys are shown instead."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench.cli.terminal import Styled, answer, answer_json, say
from l4sbench.printable import printable

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202ecba\u2066\ud800\r\x7f"


def test_what_a_terminal_obeys_is_shown() -> None:
    assert printable(HOSTILE) == (r"\x1b]0;title\x07\x1b[2J\x9b31m\u202ecba\u2066\ud800\r\x7f")


def test_ordinary_text_stays() -> None:
    for text in ("", "plain", "✓ ok ★, 4 BDP:\t43.5\u00a0%\nnext line", "größer 中文 \U0001f600"):
        assert printable(text) is text or printable(text) == text


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_else_is_left(text: str) -> None:
    shown = printable(text)
    assert all(sign.isprintable() or sign in "\n\t\u00a0" for sign in shown)
    assert printable(shown) == shown


def test_printing_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    answer(HOSTILE)
    say(Styled("error:", "red"), f" {HOSTILE}")
    out, err = capsys.readouterr()
    assert out == f"{printable(HOSTILE)}\n"
    assert err == f"error: {printable(HOSTILE)}\n"


def test_json_shows_them_in_its_own_way(capsys: pytest.CaptureFixture[str]) -> None:
    document = {HOSTILE: [HOSTILE, "\U000e0041", "größer"]}
    answer_json(document)
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == document
