from __future__ import annotations

from typing import Any

import pytest

from weirlab.devices.profile.wording import repeated

from ...conftest import Weir


def row(loss_ratio: float, delay_p99_ns: float, *, valid: bool = True) -> dict[str, Any]:
    forwarding_pps = 1e5 * (1 - loss_ratio)
    return {
        "valid": valid,
        "forwarding_pps": forwarding_pps,
        "loss_ratio": loss_ratio,
        "delay_p50_ns": delay_p99_ns / 3,
        "delay_p99_ns": delay_p99_ns,
    }


def test_repetitions_are_told_with_their_range_and_spoiled_ones_left_out() -> None:
    """The last of five lost a tenth of what the worst lost."""
    found = repeated([row(0.036, 22.7e6), row(0.9, 1e9, valid=False), row(0, 6.6e6), row(0.0038, 11.5e6)])
    for end in (
        "3 repetitions (1 more does not count)",
        "96.4 kpps to 100 kpps",
        "0 % to 3.6 %",
        "6.60 ms to 22.7 ms",
    ):
        assert end in found


@pytest.mark.parametrize(
    ("rows", "words"), [([row(0, 1e6)], 0), ([row(0, 1e6), row(0, 1e6, valid=False)], 5)]
)
def test_one_trial_has_no_range(rows: list[dict[str, Any]], words: int) -> None:
    assert len(repeated(rows).split()) == words


def test_a_stored_trial_shows_the_repetitions_that_the_command_showed(weir: Weir) -> None:
    trial = ("trial", "--lab", "sim", "--rate", "100kpps", "--duration", "0.1", "--repetitions", "2")
    made = weir(*trial).out
    shown = weir("show", "last").out
    begin = made.index("Repetitions\n")
    table = made[begin:].split("\n\n")[0]
    assert table in shown
    assert shown.startswith(made.split("\n\n")[0])
    assert len(weir("show", "last", "--json").json["repetitions"]) == 2
