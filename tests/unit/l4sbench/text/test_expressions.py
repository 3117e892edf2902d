# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Expressions from files: rejected when they are read, or matched in linear time."""

import pytest

from l4sbench.errors import BadValueError
from l4sbench.text.expressions import matches, valid_expression
from l4sbench.text.parameters import Parameter


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        ("a|ab", "ab", True),
        ("a|ab", "abc", False),
        ("a", "a\n", False),
        (r"7\.[0-9].*", "7.3.4+deb13-amd64", True),
        (r"7\.[0-9].*", "17.3", False),
        ("0x[0-9a-f]{1,2}/0x[0-9a-f]{1,2}", "0x1/0xff", True),
    ],
)
def test_the_whole_text_must_match(expression: str, text: str, expected: bool) -> None:
    assert matches(text, valid_expression(expression)) is expected


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*a){20}"])
def test_expressions_that_blow_up_elsewhere_do_not_here(expression: str) -> None:
    # Python's engine would take longer than the age of the universe
    assert not matches("a" * 100_000 + "!", valid_expression(expression))


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a(", "not a valid regular expression: missing )"),
        ("a)|(b", "not a valid regular expression: unbalanced parenthesis"),
        (r"(a)\1", "not a supported regular expression: backreferences are not supported"),
        ("(?<!a)b", "not a supported regular expression: look-around"),
        ("((a{0,900}){0,900}){0,900}", "not a supported regular expression: its repetitions {...} multiply"),
        (r"\w{100}", r"not a supported regular expression: \w is slow"),
        ("(?i)a", "not a supported regular expression: (?i is slow"),
        ("(?x)a # b", "not a supported regular expression"),
        ("(" * 5000, "at most 300 characters, not 5000"),
    ],
)
def test_others_are_rejected_when_they_are_read(expression: str, reason: str) -> None:
    with pytest.raises(BadValueError) as raised:
        valid_expression(expression)
    assert reason in raised.value.message


def test_an_entrys_own_expression_cannot_allow_more_than_one_word() -> None:
    param = Parameter("any", "str", pattern="(?s).*", word=True)
    assert param.parse("l4s_ect") == "l4s_ect"
    for text in ("a b", "a\nb", "a;b", "$(b)", "a\tb", "'a'", "a#b", "{{ b }}"):
        with pytest.raises(BadValueError, match="is not one word"):
            param.parse(text)
