from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.base.documents import plain, typed
from weirlab.base.errors import InputError
from weirlab.model import PiecewiseModel, QueueingModel
from weirlab.model.spike import NO_SPIKE, Spike, fit_spike
from weirlab.model.transient.compare import DelayBins, StepObservation, binned, with_spike
from weirlab.model.transient.phases import LoadPhase
from weirlab.records import Observation

BIN_NS = 1e6


def bins(spike: Spike, step_pps: float, level_ns: float, noise_ns: float, seed: int) -> np.ndarray:
    """Excess in 100 bins after one step, averaged over each bin on a fine grid."""
    since = np.arange(100) * BIN_NS
    fine = since[:, None] + BIN_NS * (np.arange(200) + 0.5) / 200
    rng = np.random.default_rng(seed)
    return spike.ns(fine, step_pps).mean(axis=1) + level_ns + rng.normal(0, noise_ns, 100)


def fitted(spike: Spike, noise_ns: float = 20.0) -> Spike:
    """From three series with steps and levels of their own."""
    steps, levels = (1e5, 2e5, 4e5), (500.0, -200.0, 0.0)
    since = np.tile(np.arange(100) * BIN_NS, 3)
    pairs = enumerate(zip(steps, levels, strict=True))
    excess = np.concatenate([bins(spike, step, level, noise_ns, i) for i, (step, level) in pairs])
    return fit_spike(since, BIN_NS, excess, np.repeat(steps, 100), np.repeat([0, 1, 2], 100))


@given(st.floats(0.01, 0.2), st.floats(1e6, 1.5e7))
@settings(max_examples=30, deadline=None)
def test_fit_recovers_amplitude_and_decay(ns_per_pps: float, decay_ns: float) -> None:
    found = fitted(Spike(ns_per_pps, decay_ns))
    assert found.ns_per_pps == pytest.approx(ns_per_pps, rel=0.15)
    assert found.decay_ns == pytest.approx(decay_ns, rel=0.15)
    assert found.steps == 3


def test_noise_and_a_wrong_level_are_no_spike() -> None:
    assert fitted(NO_SPIKE) == NO_SPIKE


def test_too_few_bins_are_no_spike() -> None:
    assert fit_spike([0, 1, 2], 1.0, [9.0, 1.0, 0.0], 1e5, [0, 0, 0]) == NO_SPIKE


def test_arrays_of_different_length_are_refused() -> None:
    with pytest.raises(InputError, match="one length"):
        fit_spike([0, 1, 2], 1.0, [9.0, 1.0, 0.0], 1e5, [0, 0])


def test_there_is_no_spike_before_a_step_nor_after_a_step_down() -> None:
    spike = Spike(0.1, 1e6)
    assert spike.ns([-1.0, 0.0, 1e6], 1e5) == pytest.approx([0.0, 1e4, 1e4 / np.e])
    assert not spike.ns([0.0, 1e6], -1e5).any()


@pytest.mark.parametrize("kind", [QueueingModel, PiecewiseModel])
def test_models_learn_spikes_below_the_threshold_and_keep_them(
    kind: type[QueueingModel] | type[PiecewiseModel], regular: list[Observation]
) -> None:
    model, truth = kind.fit(regular), Spike(0.05, 4e6)
    edges = np.arange(201) * BIN_NS
    up = [LoadPhase(1e8, 1e5, 64, 0), LoadPhase(1e8, 4e5, 64, 0)]
    position = [LoadPhase(1e8, 1e5, 64, 0), LoadPhase(1e8, 2e5, 64, 1000)]
    overload = [LoadPhase(1e8, 1e5, 64, 0), LoadPhase(1e8, 2e6, 64, 0)]
    seen = [
        StepObservation(load, edges, binned(model.with_spike(truth), load, edges))
        for load in (up, position, overload)
    ]
    # Nothing but the step up below the threshold counts, whatever the others show.
    wild = DelayBins(seen[1].measured.delay_mean_ns * 3, seen[1].measured.loss_ratio)
    learned, spike = with_spike(model, [seen[0], StepObservation(position, edges, wild)])
    assert spike.ns_per_pps == pytest.approx(0.05, rel=0.05)
    assert spike.decay_ns == pytest.approx(4e6, rel=0.05)
    assert typed(kind, plain(learned)).spike == spike
    assert with_spike(learned, seen[2:])[1] == NO_SPIKE
