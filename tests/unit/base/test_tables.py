"""Tables as data: which of their columns are numbers."""

from __future__ import annotations

import pytest

from weirlab.base.tables import Table


def numeric(*cells: str) -> bool:
    return bool(Table("", ("What",), [(cell,) for cell in cells]).numeric)


@pytest.mark.parametrize(
    "cell",
    [
        "0", "-3", "1,234,567", "12.5", "820 kpps", "1.30\u00a0ms", "99.99 %", "+2 %-points", "1.8 x", "7 °C",
        "≥ 1.80 Mpps", "at least 400", "below 1,000", "3 of 5", "0.26 to 0.36 s", "20 ms (18 ms to 25 ms)",
        "[-6.1 %, +0.2 %]", "50/100/100", "14 + 20 + 8 = 42", "147, 214 kB", "8.1 Mbit/s",
    ],
)  # fmt: skip
def test_a_column_of_numbers_is_one_by_its_cells(cell: str) -> None:
    assert numeric(cell, "", "–", "none")


@pytest.mark.parametrize(
    "cell", ["", "nftables", "192.0.2.1", "2026-01-31 12:00", "3 packets lost", "64-byte frames", "1,1" * 999]
)
def test_one_cell_of_text_makes_it_a_column_of_texts(cell: str) -> None:
    assert numeric("5", cell) == (cell == "")
