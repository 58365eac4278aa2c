"""The cases of ``bench/planted.py``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cases import Truth
from causes import MAKERS, planted
from planted import Row
from weirlab.emulation.reading import read_path


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_every_case_has_a_path_that_can_be_emulated(name: str, seed: int | None) -> None:
    case = planted(name, seed)
    for words in case.path:
        assert read_path(dict(words)).delay_ns > 0


@pytest.mark.parametrize("name", MAKERS)
def test_a_seed_always_draws_the_same_parameters_and_others_than_another_one(name: str) -> None:
    assert planted(name, 5).drawn == planted(name, 5).drawn
    assert planted(name, 5).drawn != planted(name, 6).drawn
    assert planted(name).drawn == planted(name, None).drawn


def test_given_parameters_replace_the_usual_ones() -> None:
    case = planted("bottleneck saturated", given={"rate_bps": 4e6})
    assert case.path[0]["rate"] == "4000kbit/s"
    assert case.drawn["rate_bps"] == 4e6


def test_a_reader_counts_as_slow_no_longer_than_the_transfer_lasts() -> None:
    # Full twice, with a round trip of 20 ms; the second time for longer than the transfer.
    told = {"held_ns": [(1_000_000_000, 1_500_000_000), (3_500_000_000, 9_000_000_000)]}
    truth = Truth(4.0, {"began_ns": 0}, told, None)  # type: ignore[arg-type]
    case = planted("slow reader")
    assert case.truth(truth) == pytest.approx((0.52 + 0.51) / 4)
    assert [*case.when(truth)] == [pytest.approx((0.99, 1.51)), pytest.approx((3.49, 4.0))]


def test_a_look_is_right_only_if_it_names_the_cause_and_what_was_planted_was_there() -> None:
    row = Row("a", 1, "kernel", "loss", 0.9, {}, (), named="loss", said=0.88)
    assert row.right
    assert not replace(row, said=0.8).right
    assert not replace(row, named="bottleneck").names_it
    assert not replace(row, named="application_write", untold=True).names_it
    assert not replace(row, void="the link was busy").names_it
