"""How many calls stand at once: as planners give them."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.base.quantities import percent
from weirlab.traffic.calls.offered import lines, note, parse_count


@pytest.mark.parametrize(
    ("text", "calls"),
    [(300, 300), ("3,000", 3000), ("10k", 10_000), ("1.5k", 1500), ("20erl", 30), ("20 Erlang", 30),
     ("1,200bhca@180s", 75), ("1200 BHCA@3min", 75)],
)  # fmt: skip
def test_calls_are_a_number_or_the_lines_of_offered_traffic(text: str | int, calls: int) -> None:
    assert parse_count(text) == calls


@pytest.mark.parametrize(
    ("erlangs", "needed"), [(0.01, 1), (0.87, 5), (1.36, 5), (10, 18), (20.3, 30), (60, 75)]
)
def test_lines_are_those_of_the_tables_of_erlangs_formula(erlangs: float, needed: int) -> None:
    """For a loss of 1 %: 5 lines carry 1.36, 18 carry 10.4, 30 carry 20.3, 75 carry 60.7 Erlangs."""
    assert lines(erlangs) == needed


@pytest.mark.parametrize("text", ["many", "1.5", "20bhca", "-1", "2000k", "bhca@3min", "nan", "1e3"])
def test_what_is_no_number_of_calls_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(InputError, match="20erl"):
        parse_count(text)


def test_only_offered_traffic_is_explained() -> None:
    assert [note(text) for text in ("300", "3,000", "10k")] == ["", "", ""]
    assert "30 calls at once" in note("20erl")
    assert percent(0.01) in note("20erl")
