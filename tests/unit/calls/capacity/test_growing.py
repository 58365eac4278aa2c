"""Delays that grow during a trial, against what jitter buffers hold."""

from __future__ import annotations

import pytest

from weirlab.calls.capacity.prediction import bearable
from weirlab.quality.jitterbuffer import Buffers
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls


def calls(*codecs: str) -> Calls:
    return Calls(tuple(CallClass(parse_codec(codec), share=1 / len(codecs)) for codec in codecs), 1)


@pytest.mark.parametrize("trial_s", [1.0, 2.0])
def test_a_fixed_buffer_bears_growth_by_its_depth(trial_s: float) -> None:
    assert bearable(calls("g711"), 4.0, 1.0, trial_s) == pytest.approx(0.06 / trial_s, rel=0.1)
    deeper = Buffers(fixed_ms=120.0)
    assert bearable(calls("g711"), 4.0, 1.0, trial_s, deeper) == pytest.approx(0.12 / trial_s, rel=0.1)


def test_the_longer_a_trial_the_less_growth_it_bears() -> None:
    borne = [bearable(calls("g711"), 4.0, 1.0, trial_s) for trial_s in (0.5, 1.0, 3.0, 10.0)]
    assert borne == sorted(borne, reverse=True)
    # 60 ms in 10 s without slips; a buffer that slips follows some more.
    assert 0.006 < borne[-1] < 0.02


def test_the_most_sensitive_kind_of_calls_decides() -> None:
    alone = [bearable(calls(codec), 3.8, 1.0, 1.0) for codec in ("g711", "g729")]
    assert bearable(calls("g711", "g729"), 3.8, 1.0, 1.0) == min(alone)


def test_calls_that_are_never_good_bear_nothing() -> None:
    assert bearable(calls("g711"), 4.45, 1.0, 1.0) == 0.0
    assert bearable(calls("g711"), 4.0, 600.0, 1.0) == 0.0
