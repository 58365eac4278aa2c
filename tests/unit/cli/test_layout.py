"""Tables on a terminal: what fits, what folds, what is left out, and what never breaks."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.tables import Table
from weirlab.cli import layout
from weirlab.cli.output import to_json

RUN = "20261122-072836-trial-35f4"


def drawn(table: Table, columns: int | None) -> list[str]:
    found = layout.lines(table, columns)
    if columns is not None:
        assert all(len(line) <= columns for line in found), found
    return found


def test_a_long_table_is_drawn_with_little_more_memory_than_it_has() -> None:
    table = Table("", ("#", "Text"), [(str(row), f"text {row}") for row in range(20_000)])
    tracemalloc.start()
    try:
        drawn = sum(1 for _ in layout.drawn(table, 80))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert drawn == 20_002
    # Sets of the cells, for the widths; the lines themselves would take 2 MB more.
    assert most < 3_500_000


def test_a_table_that_fits_is_drawn_as_it_is() -> None:
    table = Table("Runs", ("Run", "Trials"), [(RUN, "5"), ("other", "12")])
    assert drawn(table, 80) == [
        "Runs",
        " Run                         Trials",
        "─" * 36,
        f" {RUN}       5",
        " other                           12",
    ]


def test_headings_break_between_words_only() -> None:
    table = Table("", ("Name", "Duplicated reordered"), [("a", "1")])
    head = drawn(table, 20)[:2]
    assert head == ["       Duplicated", " Name   reordered"]


def test_texts_break_between_words_and_never_between_a_number_and_its_unit() -> None:
    table = Table("", ("", "What"), [("p99", "at most 1.30 ms after 20 s, of 2026-01-31 12:00")])
    lines = drawn(table, 22)
    assert [line[6:] for line in lines[2:]] == ["at most 1.30 ms", "after 20 s, of", "2026-01-31 12:00"]


def test_two_ends_break_behind_the_sign_between_them() -> None:
    table = Table("", ("From > to", "n"), [("192.0.2.1:4000 > 192.0.2.2:4002", "1")])
    assert drawn(table, 24)[2:] == [" 192.0.2.1:4000 >  1", " 192.0.2.2:4002"]


def test_columns_that_can_be_spared_go_first_and_are_named() -> None:
    columns = ("Device", "Forwarding rate", "Mean delay", "Remark")
    rows = [("iptables", "820 kpps", "12.4 µs", "quiet")]
    table = Table("", columns, rows, spare=("Remark", "Mean delay"))
    lines = drawn(table, 32)
    assert "820 kpps" in lines[3]
    assert "quiet" not in "".join(lines)
    assert " ".join(line.strip() for line in lines[-2:]) == "Not shown: Remark. --wide shows every column."
    assert len(drawn(table, None)) == 3
    assert "Not shown" not in "\n".join(layout.lines(table, 32, note=False))


def test_without_columns_to_spare_those_on_the_right_go() -> None:
    names = [f"Column{i}" for i in range(20)]
    lines = drawn(Table("", names, [["1" * 7] * 20]), 40)
    assert lines[0].split() == ["Column0", "Column1", "Column2", "Column3"]
    assert "Column4, Column5" in " ".join(lines)


@pytest.mark.parametrize("columns", [10, 20, 40, 80])
def test_an_id_a_number_and_a_path_are_never_broken(columns: int) -> None:
    path = "/var/lib/weir/20261122-072836-trial-35f4/report.html"
    table = Table("", ("Run", "Packets", "Path"), [(RUN, "123,456,789", path)], spare=("Path",))
    text = "\n".join(layout.lines(table, columns))
    assert RUN in text
    assert "123,456,789" in text
    assert path in "\n".join(layout.lines(Table("", ("", ""), [("path", path)]), columns))


def test_signs_of_double_width_stand_in_line() -> None:
    lines = layout.lines(Table("", ("Name", "n"), [("東京", "1"), ("abcd", "2")]), 80)
    assert lines[2:] == [" 東京  1", " abcd  2"]


def test_spaces_that_do_not_break_on_a_page_are_plain_on_a_terminal() -> None:
    assert layout.lines(Table("", ("", ""), [("delay", "12\u00a0µs")]), 80)[-1] == " delay  12 µs"


def test_pairs_have_no_line_of_headings() -> None:
    assert drawn(Table("Trial", ("", ""), [("run", RUN)]), 80)[1].startswith("──")


def test_the_width_is_that_of_columns_or_80(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "47")
    assert layout.width() == 47
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("os.get_terminal_size", lambda _: (_ for _ in ()).throw(OSError))
    assert layout.width() == 80


def test_only_columns_that_exist_can_be_spared() -> None:
    with pytest.raises(ValueError, match="no columns b to do without"):
        Table("t", ("a",), [("1",)], spare=("b",))


def test_json_is_never_folded() -> None:
    assert to_json({"text": "word " * 100}).count("\n") == 2


@given(
    st.lists(st.lists(st.text("ab 1.µ-", max_size=30), min_size=4, max_size=4), max_size=4),
    st.sets(st.integers(0, 3)),
    st.integers(30, 120),
)
def test_no_word_is_lost_or_broken_in_what_is_shown(
    rows: list[list[str]], numeric: set[int], columns: int
) -> None:
    table = Table("Caption", ("One", "Two words", "Three", "Four"), rows, spare=("Four", "Three"))
    text = "\n".join(layout.lines(table, columns, note=False))
    kept = [i for i, heading in enumerate(table.columns) if heading.split()[0] in text.split("──")[0]]
    assert kept[:1] == [0]
    shown = sorted(text.split("─")[-1].split())
    assert shown == sorted(word for row in rows for i in kept for word in re.split(r"\s+", row[i]) if word)
