from __future__ import annotations

import json

import pytest

from weirlab.base.quoting import MOST_QUOTED, json_printable, printable, quoted, shortened

HARMFUL = (
    "\x1b]0;owned\x07", "\r\x08\x00", "\x7f\x9b31m", "\u202etxt.exe\u2066", "\u2028\ufeff", "\udcff",
    "\ud800",
)  # fmt: skip


@pytest.mark.parametrize("text", HARMFUL)
def test_what_a_terminal_obeys_or_cannot_print_is_escaped(text: str) -> None:
    for shown in (printable(text), quoted(text)):
        assert not any(character in shown for character in text if not character.isprintable())
        assert shown.encode()


def test_layout_and_letters_of_any_script_stay() -> None:
    text = "a\tb\nçå 中文 עברית €\u00a0µs"
    assert printable(text) == text


def test_a_byte_that_is_not_utf_8_is_shown_as_this_byte() -> None:
    name = b"x\xff".decode(errors="surrogateescape")
    assert printable(name) == r"x\xff"
    assert quoted(name) == r"'x\xff'"


@pytest.mark.parametrize("text", HARMFUL)
def test_json_says_the_same_after_it_was_made_printable(text: str) -> None:
    document = json_printable(json.dumps({"name": text}, ensure_ascii=False))
    assert printable(document) == document
    assert json.loads(document) == {"name": text}


def test_a_long_value_is_quoted_in_part_and_its_length_is_told() -> None:
    assert quoted("x" * MOST_QUOTED) == f"'{'x' * MOST_QUOTED}'"
    assert quoted("x" * 1_000_000) == f"'{'x' * MOST_QUOTED}'... (1,000,000 characters)"
    assert len(quoted(10**1000)) < MOST_QUOTED + 10


def test_of_a_long_line_beginning_and_end_remain() -> None:
    line = f"file:1:2: {'x' * 100_000}; do this instead"
    found = shortened(line)
    assert found.startswith("file:1:2: xxx")
    assert found.endswith("xxx; do this instead")
    assert len(found) < 1010
    assert shortened(line[:50]) == line[:50]
