"""The fake test bed itself: what tests of other packages lean on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.lab.base import TestBed
from weirlab.records import RuleSetup
from weirlab.testing import FakeBed, FakeDevice, TrialDisturbance, make_result, make_spec


def test_it_is_a_test_bed() -> None:
    bed: TestBed = FakeBed()
    with bed as inside:
        assert inside.lab == "sim"
    assert isinstance(bed, FakeBed)
    assert bed.closed


@given(st.floats(0, 1e6), st.floats(0.01, 1), st.floats(0, 1), st.integers(1, 50), st.floats(100, 1e9))
def test_every_result_adds_up(
    rate: float, duration_s: float, loss: float, flows: int, delay_ns: float
) -> None:
    result = make_result(rate, duration_s=duration_s, loss_ratio=loss, flows=flows, delay_mean_ns=delay_ns)
    assert result.sent == result.received + result.lost
    for part in (result.series, result.flows):
        assert (part.sent.sum(), part.received.sum()) == (result.sent, result.received)
    assert result.histogram.count.sum() == result.received
    assert np.isnan(result.delay_mean_ns) == (result.received == 0)
    assert (result.histogram.count > 0).all()


def test_overload_follows_the_law_of_the_queue() -> None:
    device = FakeDevice(base_delay_ns=0)
    bed = FakeBed(device)
    for position in (0, 1000):
        bed.set_rules(RuleSetup(position))
        result = bed.run(make_spec(2e6).traffic)
        assert result.delay_mean_ns * 1e-9 * result.forwarding_pps == pytest.approx(256, rel=1e-3)
        assert result.forwarding_pps == pytest.approx(device.threshold_pps(position, 64), rel=1e-3)


def test_the_same_calls_give_the_same_results() -> None:
    results = [FakeBed(script=[TrialDisturbance(dead_bins=2)]).run(make_spec(1e5).traffic) for _ in range(2)]
    assert repr(results[0]) == repr(results[1])
    assert results[0].lost == 2000
