"""Courses of a measured device: what of them counts, and what OMNeT++ recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import course_bed
import courses
import omnet

MS = 1e6


def test_bins_behind_a_pause_of_the_sender_do_not_count() -> None:
    at_ns = np.arange(0, 100 * MS, 0.1 * MS)
    # From 45 ms on the schedule is 5 ms late; the last packets were not sent.
    late_ns = np.where(at_ns < 45 * MS, 0.0, 5 * MS)
    late_ns[at_ns >= 95 * MS] = np.inf
    # A lost packet tells nothing.
    late_ns[3] = np.nan
    counts = course_bed.steady(at_ns, late_ns, 0.01, 0.01, 9)
    assert counts.tolist() == [True, True, True, False, False, False, True, True, False]


def test_a_bin_is_the_median_of_the_repetitions_in_which_it_counts() -> None:
    frames = [
        pl.DataFrame({"time_s": [0.0], "mean_us": [mean], "loss_percent": [0.0]}) for mean in (1, 2, 9, 500)
    ]
    good = [np.array([each]) for each in (True, True, True, False)]
    assert course_bed.median(frames, good)["mean_us"].to_list() == [2.0]
    with pytest.raises(SystemExit, match="0 of 1 bins count in 3 of 4 repetitions"):
        course_bed.median(frames, [np.array([each]) for each in (True, True, False, False)])


def test_the_plan_of_two_directions_sends_as_the_course_says() -> None:
    parts = (courses.Part(1000, 0, 500), courses.Part(1000, 2000, 500), courses.Part(1000, 0, 500))
    load = courses.arrivals(parts)
    made, rules = course_bed.plan(load.at_ns, load.side, load.position, 64, courses.WARMUP_S, courses.BIN_S)
    assert rules.both_ways
    assert made.media is not None
    assert made.media.flows.back.tolist() == [False, True]
    assert np.bincount(made.flow).tolist() == [round(courses.STEPS_S[-1] * 1e6), 150_000]
    assert np.array_equal(np.cumsum(made.gap_ns)[:-1], load.at_ns[1:])


def test_a_file_of_vectors_becomes_passages_in_the_order_of_arrivals(tmp_path: Path) -> None:
    file = tmp_path / "General-0.vec"
    file.write_text(
        "version 3\n"
        "vector 0 WeirQueueing.firewall delay:vector ETV\n"
        "vector 1 WeirQueueing.firewall dropQueueFull:vector ETV\n"
        "1\t3\t0\t0\n"
        "1\t9\t0.000002\t1\n"
        "0\t7\t0.000004\t0.000003\n"
    )
    np.testing.assert_allclose(omnet.recorded(file), [[1000, 3000], [2000, -1]])
