"""Simulated devices, whose truth is known: recovery of their parameters, and coverage of intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scoring import RunScores, coverage, score_run
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure import profile as profiling
from weirlab.measure import verify
from weirlab.measure.plan.grid import Profile
from weirlab.measure.verify import VerificationPlan
from weirlab.model.base import LEVELS
from weirlab.records import Observation
from weirlab.store import Store

PARAMETERS = (
    "service_fixed_ns",
    "service_per_rule_ns",
    "service_per_byte_ns",
    "queue_packets",
    "base_delay_ns",
)
"""Parameters that the model and the simulated device share, under the same names."""


@dataclass(frozen=True)
class Recovered:
    """Errors of a parameter over all devices, in percent of the truth."""

    median_percent: float
    largest_percent: float
    missing: int
    """Devices for which the model has no such parameter."""


@dataclass(frozen=True)
class Recovery:
    """The results of all simulated devices."""

    devices: list[dict[str, object]]
    """The true and the fitted parameters, per device."""
    parameters: dict[str, Recovered]
    coverage_percent: dict[int, float]
    """Coverage by level, over the held-out values of all devices, for quantities with a target."""
    runs: list[RunScores]


def device(seed: int) -> SimDevice:
    """A device with parameters drawn between those of fast and slow packet filters."""
    draw = np.random.default_rng([seed, 3])

    def between(low: float, high: float) -> float:
        return float(np.exp(draw.uniform(np.log(low), np.log(high))))

    return SimDevice(
        service_fixed_ns=between(800, 3000),
        service_per_rule_ns=between(1, 12),
        service_per_byte_ns=between(0.1, 0.6),
        queue_packets=int(between(64, 512)),
        base_delay_ns=between(5000, 40_000),
        noise_cv=float(draw.uniform(0.1, 0.6)),
        seed=seed,
    )


def recover(
    profile: Profile, seeds: Sequence[int], tell: Callable[[int], object] = lambda done: None
) -> Recovery:
    """Profile, fit and verify one simulated device per seed; ``tell`` gets the number of finished ones."""
    runs, devices = [], []
    for done, seed in enumerate(seeds):
        tell(done)
        truth = device(seed)
        with TemporaryDirectory(prefix="weir-bench-") as folder:
            trials = _measured(truth, replace(profile, seed=seed), Path(folder))
        runs.append(score_run(f"simulated-{seed}", "simulated", seed, trials))
        found = runs[-1].parameters
        devices.append(
            {"seed": seed, **{name: (float(getattr(truth, name)), found.get(name)) for name in PARAMETERS}}
        )
    covered = {level: coverage(runs, level) for level in LEVELS}
    return Recovery(devices, _errors(devices), covered, runs)


def _measured(truth: SimDevice, profile: Profile, folder: Path) -> Mapping[str, list[Observation]]:
    def threshold_pps(position: float, frame_bytes: float) -> float:
        service_ns = truth.service_fixed_ns + position * truth.service_per_rule_ns
        return 1e9 / (service_ns + frame_bytes * truth.service_per_byte_ns)

    places = verify.drawn_positions(profile.positions, profile.seed)
    held_out = VerificationPlan(
        positions=tuple(n for n in places if n < max(profile.positions)),
        sizes=profile.sizes,
        trial_s=profile.trial_s,
        warmup_s=profile.warmup_s,
        seed=profile.seed,
    )
    store = Store(folder)
    with store.create("profile", {"name": "bench"}, {}) as writer:
        profiling.measure(SimLab(truth), profile, writer)
        verify.run(SimLab(truth), verify.plan(held_out, threshold_pps), writer)
    return {role: writer.run.observations(role) for role in ("profile", "verify")}


def _errors(devices: Sequence[Mapping[str, object]]) -> dict[str, Recovered]:
    errors = {}
    for name in PARAMETERS:
        pairs = [each[name] for each in devices]
        off = [
            100 * abs(pair[1] / pair[0] - 1) if pair[1] is not None else math.inf
            for pair in pairs
            if isinstance(pair, tuple)
        ]
        errors[name] = Recovered(statistics.median(off), max(off), sum(map(math.isinf, off)))
    return errors
