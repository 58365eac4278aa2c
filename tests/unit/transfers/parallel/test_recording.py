"""Numbers of an attempt, from what was seen of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from weirlab.emulation.spec import PathSpec
from weirlab.transfers.parallel.carriers import CHUNK_BYTES, Intake
from weirlab.transfers.parallel.fakes import FakeParallelBed
from weirlab.transfers.parallel.plan import ParallelAttempt, ParallelPlan, PathPair, PathSpan
from weirlab.transfers.parallel.recording import attempt_row, jain, reasons, stall_s
from weirlab.transfers.parallel.section import CasePath, ParallelCase
from weirlab.transfers.psock.options import SessionOptions

PATH = PathPair(PathSpec(delay_ns=5_000_000, rate_bps=50_000_000), PathSpec(delay_ns=5_000_000))
COURSE = ParallelAttempt(
    method="earliest",
    paths={1: PATH, 2: PATH},
    congestion="cubic",
    streams=1,
    how=SessionOptions().how(),
    warmup_s=0.25,
    lasts_s=2.0,
    every_s=0.1,
)
PLANNED = ParallelPlan(0, ParallelCase(name="two", paths=(CasePath(),)), "earliest", 1)


def row(course: ParallelAttempt, **changes: object) -> object:
    seen = replace(FakeParallelBed().carry(course), **changes)  # type: ignore[arg-type]
    return attempt_row(PLANNED, course, seen, "t", (), None)


def test_bins_meet_the_start_of_the_recorded_part_and_end_with_it() -> None:
    edges = COURSE.edges_s()
    assert edges[0] == -0.25
    assert edges[-1] == 2.0
    assert 0.0 in edges
    assert np.diff(edges)[1:] == pytest.approx(0.1)


@pytest.mark.parametrize(("one", "other", "index"), [(1, 1, 1.0), (1, 0, 0.5), (3, 1, 0.8)])
def test_jains_index(one: float, other: float, index: float) -> None:
    assert jain(one, other) == pytest.approx(index)
    assert math.isnan(jain(0, 0))


def test_the_longest_stall_counts_the_ends_of_the_recorded_part() -> None:
    assert stall_s(np.array([-1.0, 0.5, 0.6, 1.1, 3.0]), 2.0) == pytest.approx(0.9)
    assert stall_s(np.array([]), 2.0) == 2.0


def test_a_path_that_never_comes_back_has_no_time_for_it() -> None:
    course = replace(COURSE, outages=(PathSpan(2, 1.0, 1.5),))
    seen = FakeParallelBed().carry(course)
    dead = np.minimum(seen.paths[2].received, np.interp(1.0, course.edges_s(), seen.paths[2].received))
    paths = {**seen.paths, 2: replace(seen.paths[2], received=dead)}
    assert math.isnan(row(course, paths=paths).back_s)  # type: ignore[attr-defined]
    assert row(course).back_s == pytest.approx(0.1)  # type: ignore[attr-defined]


def test_of_several_competitors_the_share_furthest_from_a_half_counts() -> None:
    course = replace(COURSE, competitors=(PathSpan(1, 0.0, 1.0), PathSpan(2, 1.0, 2.0)))
    seen = FakeParallelBed().carry(course)
    first, second = seen.competitors
    found = row(course, competitors=(first, second / 3))
    assert found.path_share == pytest.approx(0.75)  # type: ignore[attr-defined]
    assert found.jain == pytest.approx(0.8)  # type: ignore[attr-defined]
    assert math.isnan(row(COURSE).path_share)  # type: ignore[attr-defined]


def test_a_rate_that_was_missed_spoils_an_attempt_and_one_of_short_bursts_does_not() -> None:
    seen = FakeParallelBed().carry(COURSE)

    def with_pace(bits: int, ns: int, bursts: int = 1) -> tuple[str, ...]:
        account = seen.paths[1].account
        late = replace(account.up.late, lower_ns=np.array([50_000]), upper_ns=np.array([50_002]))
        up = replace(account.up, paced_bits=bits, paced_ns=ns, paced_bursts=bursts, late=late)
        paths = {**seen.paths, 1: replace(seen.paths[1], account=replace(account, up=up))}
        return reasons(replace(seen, paths=paths), 1e9)

    assert with_pace(100_000_000, 2_000_000_000) == ()
    assert with_pace(98_000_000, 2_000_000_000) == (
        "path 1: the emulator missed its rate by 2.0 %, 0.50 % allowed",
    )
    assert with_pace(49_000_000, 1_000_000_000, 400) == ()


def test_a_receiver_compares_every_byte_and_knows_when_it_came() -> None:
    from weirlab.base.errors import TrialError
    from weirlab.transfers.parallel import carriers

    intake = Intake()
    pattern = carriers._PATTERN
    intake.take(pattern[:1000])
    intake.take(pattern[1000:])
    intake.take(pattern[:10])
    assert intake.total == CHUNK_BYTES + 10
    times = intake.times_ns
    assert intake.at(np.array([times[0] - 1, times[0], times[-1]])).tolist() == [0, 1000, CHUNK_BYTES + 10]
    with pytest.raises(TrialError, match="differs from what was sent"):
        intake.take(b"x" * 10)
