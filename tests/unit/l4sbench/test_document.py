# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""YAML 1.2 with places."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from l4sbench.document import parse, read
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
        ("-.inf", float("-inf")),
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
        (b"a: \xff\xfe\n", "x.yaml:1:1: is not UTF-8 text"),
        (b"# nothing\n", "x.yaml:1:1: is empty"),
        (b"a: \x00\n", "x.yaml"),
        (b"a: &a [*a]\n", "x.yaml:1:4: a.*: an alias must not contain itself"),
    ],
)
def test_what_is_no_document(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse(data, "x.yaml")
    assert str(raised.value).startswith(message.partition(".*")[0])


def test_aliases_stand_for_what_they_name() -> None:
    assert content("a: &x {b: 1}\nc: [*x, *x]\n") == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}


def test_aliases_cannot_make_a_small_file_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("l4sbench.document.MAX_NODES", 5_000)
    layers = ["l0: &l0 [" + ",".join("x" * 10) + "]"]
    layers += [f"l{n}: &l{n} [" + ",".join([f"*l{n - 1}"] * 10) + "]" for n in range(1, 9)]
    with pytest.raises(InputError, match="is too large"):
        parse("\n".join(layers).encode(), "x.yaml")


def test_deep_nesting_is_refused_and_no_crash() -> None:
    with pytest.raises(InputError, match=r"x\.yaml: is not valid YAML"):
        parse(b"[" * 5_000, "x.yaml")


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
