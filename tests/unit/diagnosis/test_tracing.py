"""What of a trace's tables and facts a diagnosis takes, and how."""

from __future__ import annotations

import polars as pl
import pytest

from weirlab.diagnosis import tracing

from ..trace.made import connection, side

OPTIONS = {"mss": 1460, "window_scale": 7, "sack": True, "timestamps": True}


def test_a_probe_of_the_tail_that_was_not_needed_is_no_loss() -> None:
    rows = pl.DataFrame(
        {
            "seq": [1, 1001, 2001, 2001],
            "payload_bytes": [1000] * 4,
            "meaning": ["new", "fast", "tail_probe", "tail_probe"],
        }
    )
    blocks = {"from_side": ["b", "b"], "left": [2001, 1], "right": [3001, 5001], "duplicate": [1, 0]}
    told = pl.DataFrame(blocks)
    assert tracing._again(rows, told, "a").tolist() == [False, True, False, False]
    # Blocks of the sender's own, and those that report what is missing, say nothing of it.
    assert tracing._again(rows, told[1:], "a").tolist() == [False, True, True, True]
    assert tracing._again(rows, told, "b").tolist() == [False, True, True, True]


def test_series_of_earlier_versions_have_no_time_stamps() -> None:
    assert tracing._tsval(pl.DataFrame({"seq": [1, 2]})).tolist() == pytest.approx(
        [float("nan")] * 2, nan_ok=True
    )


@pytest.mark.parametrize(
    ("a", "b", "refused"),
    [
        ({}, {}, {}),
        ({"window_scale": 0}, {"window_scale": None}, {"window_scale": "the receiver"}),
        # Who answers offers only what was offered.
        ({"sack": False}, {"sack": False}, {"sack": "the sender"}),
    ],
)
def test_a_setting_that_is_off_is_told_with_who_does_not_offer_it(
    a: dict[str, object], b: dict[str, object], refused: dict[str, str]
) -> None:
    made = connection(
        a=side("192.0.2.2", 40000, options={**OPTIONS, **a}),
        b=side("192.0.2.1", 443, options={**OPTIONS, **b}),
    )
    assert tracing._refused(made, "a") == refused
