from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from weirlab.model.effects import LEVEL, Effect, effects
from weirlab.records import Observation

LOADS = {"100kpps": (1e5, 0.0), "200kpps": (2e5, 0.0), "900kpps": (9e5, 0.3)}


def trial(
    load: str, factor: float = 1.0, places: str = "", position: float = 50.0, **other: bool
) -> Observation:
    rate, loss = LOADS[load]
    return Observation(
        rate_pps=rate, frame_bytes=64.0, position=position, forwarding_pps=rate * (1 - loss) / factor,
        loss_ratio=loss, delay_mean_ns=1e4 * factor, delay_p50_ns=9e3 * factor, delay_p90_ns=2e4 * factor,
        delay_p99_ns=3e4 * factor, jitter_ns=1e3, extra={"rate_text": load, "places": places}, **other,
    )  # fmt: skip


def found(seen: Iterable[Observation]) -> dict[tuple[str, str, str], Effect]:
    return {(each.kind, each.regime, each.quantity): each for each in effects(seen)}


def test_the_ratio_is_that_of_trials_at_the_same_load() -> None:
    seen = [trial(load, stateful=on, factor=1.1 if on else 1.0) for load in LOADS for on in (False, True)]
    by_name = found(seen)
    below = by_name["connection tracking", "below the threshold", "delay_mean_ns"]
    assert below.ratio == pytest.approx(1.1)
    assert (below.loads, below.trials, below.position) == (2, 4, 50)
    overload = by_name["connection tracking", "overload", "forwarding_pps"]
    assert overload.ratio == pytest.approx(1 / 1.1)
    assert overload.loads == 1
    assert math.isnan(below.low), "one trial each says nothing about the scatter"


def test_without_a_counterpart_nothing_is_compared() -> None:
    assert effects([]) == ()
    assert effects([trial("100kpps"), trial("200kpps", stateful=True)]) == ()
    assert effects([trial("100kpps"), trial("100kpps", stateful=True, cross_traffic=True)]) == ()
    assert effects([trial("100kpps"), trial("100kpps", places="1:50%,799:50%", position=400)]) == ()


def test_trials_that_differ_in_two_things_are_compared_with_those_that_lack_one() -> None:
    seen = [
        trial("100kpps", stateful=True, factor=1.2),
        trial("100kpps", stateful=True, cross_traffic=True, factor=2.4),
    ]
    assert [each.kind for each in effects(seen)] == ["cross traffic"] * 3
    assert effects(seen)[0].ratio == pytest.approx(2.0)


def test_mixed_positions_are_compared_with_their_mean() -> None:
    seen = [trial("100kpps"), trial("100kpps", places="1:50%,99:50%", factor=1.01)]
    first = effects(seen)[0]
    assert (first.kind, first.places, first.position) == ("mixed positions", "1:50%,99:50%", 50)


def test_what_the_difference_does_to_loss_does_not_hide_it() -> None:
    lossy = replace(trial("100kpps", cross_traffic=True, factor=3.0), loss_ratio=0.02)
    assert effects([trial("100kpps"), lossy])[0].ratio == pytest.approx(3.0)


def test_the_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        seen = [
            trial(load, factor=(1.3 if on else 1.0) * math.exp(rng.normal(0, 0.1)), cross_traffic=on)
            for load in ("100kpps", "200kpps")
            for on in (False, True)
            for _ in range(3)
        ]
        each = found(seen)["cross traffic", "below the threshold", "delay_p99_ns"]
        hits += each.low <= 1.3 <= each.high
    assert hits / 400 == pytest.approx(LEVEL, abs=0.03)
