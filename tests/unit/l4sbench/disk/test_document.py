# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""YAML 1.2 with places."""

from __future__ import annotations

import functools
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from l4sbench.disk.document import parse, read, salvage
from l4sbench.errors import InputError


def content(text: str) -> object:
    return parse(text.encode(), "x.yaml").content


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("no", "no"),
        ("false", False),
        ("True", True),
        ("'true'", "true"),
        ("~", None),
        ("null", None),
        ("10", 10),
        ("-3", -3),
        ("010", 10),  # not octal in YAML 1.2
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1:30", "1:30"),  # not base 60 in YAML 1.2
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("2026-01-02", "2026-01-02"),
        ("100mbit", "100mbit"),
        ('"5"', "5"),
        ("=", "="),
    ],
)
def test_scalars_as_yaml_1_2_says(text: str, value: object) -> None:
    found = content(f"key: {text}\n")
    assert isinstance(found, dict)
    assert found["key"] == value
    assert type(found["key"]) is type(value)


def test_places_of_values_and_keys() -> None:
    document = parse(b"# comment\nrate: 100mbit\naxes:\n  aqm: [fifo,\n        codel]\n", "x.yaml")
    assert document.where(("rate",)) == "x.yaml:2:7"
    assert document.where(("rate",), key=True) == "x.yaml:2:1"
    assert document.where(("axes", "aqm", 1)) == "x.yaml:5:9"
    assert document.where(("axes", "aqm", 7)) == "x.yaml:4:8"  # the nearest that is there
    assert document.where(("nowhere", "at all")) == "x.yaml:2:1"


def test_duplicate_keys_are_problems_and_the_first_counts() -> None:
    document = parse(b"a: 1\nb: {c: 1, c: 2}\na: 3\n", "x.yaml")
    assert document.content == {"a": 1, "b": {"c": 1}}
    assert [str(problem) for problem in document.problems] == [
        "x.yaml:2:11: b.c: duplicate key; it is first used in line 2",
        "x.yaml:3:1: a: duplicate key; it is first used in line 1",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: [1\nb: 2\n", "x.yaml:2:2: is not valid YAML: "),
        (b"a: 1\n---\nb: 2\n", "x.yaml:2:1: is not valid YAML: expected a single document"),
        (b"a: &x 1\nb: *y\n", "x.yaml:2:4: is not valid YAML: "),
        (b"a: \xff\xfe\n", "x.yaml:1:4: is not UTF-8 text"),
        (b"# nothing\n", "x.yaml:1:1: is empty"),
        (b"a: \xc3\xa9\xff\n", "x.yaml:1:5: is not UTF-8 text"),
        ("a: é\n".encode("utf-16"), "x.yaml:1:1: is UTF-16 text; save it as UTF-8"),
        ("a: é\n".encode("utf-32"), "x.yaml:1:1: is UTF-32 text; save it as UTF-8"),
        (b"b: 1\r\na: \x00\n", "x.yaml:2:4: the control character U+0000 is not allowed"),
        (b"a:\n  - \x1b[31m\n", "x.yaml:2:5: the control character U+001B is not allowed"),
        (rb'a: {b: "\x9b2J"}', "x.yaml:1:8: a.b: the control character U+009B is not allowed"),
        (rb'a: ["\ud83d\ude00"]', "x.yaml:1:5: a[0]: U+D83D is half of a surrogate pair, not a character"),
        (rb'"\ud800": 1', "x.yaml:1:1: ?: U+D800 is half of a surrogate pair, not a character"),
        (rb'a: "\UFFFFFFFF"', "x.yaml:1:"),
        (b"a: 1\n" + b"\n" * 500_000, "x.yaml:500001:1: has more than 500000 lines"),
        (b"a: &a [*a]\n", "x.yaml:1:4: a.*: an alias must not contain itself"),
    ],
)
def test_what_is_no_document(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse(data, "x.yaml")
    assert str(raised.value).startswith(message.partition(".*")[0])


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"a: 1\n\tb: 2\n", "indent with spaces instead of tabs"),
        (b"a:\n\tb: 2\n", "indent with spaces instead of tabs"),
        (b"a:\n   b: 2\n  c: 1\n", "check that lines of one level begin in the same column"),
        (b"a: 1\nb 2\nc: 1\n", "check that a colon and a space follow each key"),
        (
            b"a: 1\n  b: 2\n",
            "check the indentation of this line, and quote a text with ': '",
        ),
        (b"a: *fq\n", "quote a text that begins with *"),
        (b"a: [1\nb: 2\n", None),
    ],
)
def test_common_mistakes_of_writing_yaml_have_a_hint(data: bytes, hint: str | None) -> None:
    with pytest.raises(InputError) as raised:
        parse(data, "x.yaml")
    assert [problem.hint for problem in raised.value.problems] == [hint]


class Words(BaseModel):
    """A grammar."""

    model_config = ConfigDict(extra="forbid")
    words: list[str] = []
    limit: float = 0.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 1e400\n", "x.yaml:2:4: b: 1e400 is out of range"),
        ("a: [.inf]", "x.yaml:1:5: a[0]: .inf is out of range"),
        ("a: -.inf", "x.yaml:1:4: a: -.inf is out of range"),
        ("a: .nan", "x.yaml:1:4: a: .nan is out of range"),
        ("a: 9223372036854775808", "x.yaml:1:4: a: 9223372036854775808 is out of range"),
        ("a: 0xffffffffffffffffff", "x.yaml:1:4: a: 0xffffffffffffffffff is out of range"),
        *(
            (f"a: {'9' * many}", f"x.yaml:1:4: a: {'9' * 17}... is out of range")
            for many in (300, 309, 350, 400, 401, 4301, 5000)
        ),
        (f"a: 0x{'f' * 300}", f"x.yaml:1:4: a: 0x{'f' * 15}... is out of range"),
    ],
)
def test_numbers_out_of_range_are_problems(text: str, problem: str) -> None:
    assert [str(found) for found in parse(text.encode(), "x.yaml").problems] == [problem]


def test_one_problem_per_number_the_one_that_says_what_is_expected() -> None:
    document = parse(b"words: [1e400]\nlimit: 1e400\nhigh: 1e400\n", "x.yaml")
    with pytest.raises(InputError) as raised:
        document.validate(Words)
    assert [str(problem) for problem in raised.value.problems] == [
        "x.yaml:1:9: words[0]: expected a text, not inf",
        "x.yaml:2:8: limit: 1e400 is out of range",
        "x.yaml:3:1: high: unknown key; choose from words, limit",
        "x.yaml:3:7: high: 1e400 is out of range",
    ]


def test_aliases_stand_for_what_they_name() -> None:
    assert content("a: &x {b: 1}\nc: [*x, *x]\n") == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}


def test_aliases_cannot_make_a_small_file_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("l4sbench.disk.document.MAX_NODES", 5_000)
    layers = ["l0: &l0 [" + ",".join("x" * 10) + "]"]
    layers += [f"l{n}: &l{n} [" + ",".join([f"*l{n - 1}"] * 10) + "]" for n in range(1, 9)]
    with pytest.raises(InputError, match=r"^x\.yaml:\d+:\d+: is too large: more than 5000 values$"):
        parse("\n".join(layers).encode(), "x.yaml")


def test_no_document_has_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("l4sbench.disk.document.MAX_NODES", 100)
    with pytest.raises(InputError, match=r"^x\.yaml:1:\d+: is too large: more than 100 values$"):
        parse(b"[" + b"1, " * 5_000, "x.yaml")


@pytest.mark.parametrize("opening", [b"[", b"{a: ", b"- ", b"? ", b"[&a [*a, "])
def test_deep_nesting_has_a_position(opening: bytes) -> None:
    with pytest.raises(InputError) as raised:
        parse(opening * 5_000, "x.yaml")
    assert re.match(r"x\.yaml:1:\d+: is too large: more than 50 levels of nesting$", str(raised.value))


def test_a_file_with_very_many_problems_is_not_listed_whole() -> None:
    document = parse(b"".join(b"k%d: 1\n" % number for number in range(1_000)), "x.yaml")
    for check in (document.validate, functools.partial(salvage, document)):
        with pytest.raises(InputError) as raised:
            check(Words)
        assert len(raised.value.problems) == 101
        assert (
            str(raised.value.problems[-1])
            == "x.yaml:101:1: here and elsewhere are more problems than are listed"
        )


def test_tags_and_odd_keys_are_problems() -> None:
    document = parse(b"a: !!python/tuple [1]\nb: !mine x\n? [1, 2]\n: c\n!!str 5: x\n", "x.yaml")
    assert [problem.where for problem in document.problems] == ["x.yaml:1:4", "x.yaml:2:4", "x.yaml:3:3"]
    assert document.content == {"a": [1], "b": "x", "5": "x"}


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: cannot be read: No such file"):
        read(tmp_path / "nowhere.yaml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read(tmp_path)


PRINTABLE = st.characters(codec="utf-8", categories=["L", "N", "P", "S"])  # YAML folds line breaks
trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    # ruamel.yaml writes such a text into braces without quotes and then cannot read it
    | st.text(PRINTABLE, max_size=8).filter(lambda text: not text.startswith("?")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="ascii", categories=["L"]), min_size=1), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(trees.filter(lambda tree: tree is not None))
def test_reads_what_a_yaml_library_writes(tree: object) -> None:
    stream = io.BytesIO()
    YAML(typ="safe", pure=True).dump({"root": tree}, stream)
    assert parse(stream.getvalue(), "x.yaml").content == {"root": tree}
