from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.scenario.document import Mark, parse, read


def test_values_and_keys_know_their_places() -> None:
    document = parse("a: 1\nb:\n  - x\n  - c: [2, 3]\n")
    assert document.value == {"a": 1, "b": ["x", {"c": [2, 3]}]}
    assert document.where(("a",)) == Mark(1, 4)
    assert document.where(("b", 0)) == Mark(3, 5)
    assert document.where(("b", 1, "c", 1)) == Mark(4, 12)
    assert document.where(("b", 1, "c"), key=True) == Mark(4, 5)


def test_an_unknown_place_is_that_of_the_nearest_thing_around_it() -> None:
    document = parse("a:\n  b: 1\n")
    assert document.where(("a", "missing", 3)) == Mark(2, 3)
    assert document.where(("nowhere",)) == Mark(1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64:7", "64:7"),
        ("yes", "yes"),
        ("on", "on"),
        ("2Mpps", "2Mpps"),
        ("0", 0),
        ("-12", -12),
        ("1_000", 1000),
        ("1e6", 1e6),
        ("2.5", 2.5),
        (".5", 0.5),
        ("true", True),
        ("~", None),
        ("'12'", "12"),
        ("2026-01-01", "2026-01-01"),
        ("{}", {}),
        ("[]", []),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    assert parse(f"x: {text}").value == {"x": value}


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("a: [", "f.yaml:1:5", "not valid YAML"),
        ("a: 1\n\tb: 2", "f.yaml:2:1", "not valid YAML"),
        ("a: 1\na: 2", "f.yaml:2:1", "key 'a' appears twice (first on line 1)"),
        ("a: &x [*x]", "f.yaml:1:4", "contains itself"),
        ("a: !!python/none x", "f.yaml:1:4", "is not supported here"),
        ("a: !thing x", "f.yaml:1:4", "is not supported here"),
        ("a: !!int x", "f.yaml:1:4", "is not a number"),
        ("[1]: 2", "f.yaml:1:1", "a key must be a word"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1", "not valid YAML"),
        ("a: \x01", "f.yaml:1", "not valid YAML"),
        ("a: *b", "f.yaml:1:4", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, place: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "f.yaml")
    assert str(caught.value).startswith(place)
    assert reason in str(caught.value)


def test_aliases_that_blow_the_document_up_are_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(InputError, match=r"with aliases .* expanded, more than"):
        parse("\n".join(lines))


def test_deep_nesting_is_refused_not_fatal() -> None:
    with pytest.raises(InputError, match=r"<text>:1:21: nested more than 20 levels deep"):
        parse("[" * 5000)


def test_the_place_of_an_aliased_value_is_where_the_alias_stands() -> None:
    text = "one: &rules\n  - {match: a}\ntwo:\n  rules: *rules\n  more: [x, *rules]\n"
    document = parse(text)
    assert [document.where(path).line for path in (
        ("one", 0, "match"), ("two", "rules", 0, "match"), ("two", "more", 0), ("two", "more", 1, 0),
    )] == [2, 4, 5, 5]  # fmt: skip
    assert document.where(("two", "rules", 0, "match"), key=True).line == 4


def test_aliases_that_deepen_nesting_are_refused_where_they_stand() -> None:
    lines = ["a0: &a0 [1]", *(f"a{i}: &a{i} [[[[[*a{i - 1}]]]]]" for i in range(1, 400))]
    with pytest.raises(
        InputError, match=r"<text>:\d+:\d+: with aliases \(\*\) expanded, nested more than 20"
    ):
        parse("\n".join(lines))


def test_a_list_of_too_many_values_is_refused_without_a_word_of_aliases() -> None:
    with pytest.raises(InputError, match=r"<text>:1:\d+: more than 10,000 values") as refused:
        parse(f"positions: [{', '.join('1' for _ in range(20_000))}]")
    assert "alias" not in str(refused.value)


def test_a_missing_file_a_directory_and_a_huge_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: no such file"):
        read(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="that is a folder"):
        read(tmp_path)
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (limits.MOST_BYTES + 1))
    with pytest.raises(InputError, match="more than 100,000 bytes, and a scenario file is never so large"):
        read(huge)


def test_bytes_that_are_no_text_are_named_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "latin1.yaml"
    file.write_bytes(b"a: 1\nb: \xe4\n")
    with pytest.raises(InputError, match=r"latin1\.yaml:2:4: not UTF-8"):
        read(file)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read(file).value == {"a": 1}


@given(st.text(max_size=60))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        parse(text)
