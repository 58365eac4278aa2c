"""A small adaptive profile."""

from __future__ import annotations

from weirlab.measure.adaptive import AdaptivePlan
from weirlab.measure.plan.grid import Profile
from weirlab.traffic.sizes import Constant

SMALL = Profile(
    positions=(0, 100, 1000),
    sizes=(Constant(64), Constant(1518)),
    load_shares=(0.05, 0.25, 0.5, 0.8, 0.9, 1.2, 1.5),
    trial_s=0.02,
    warmup_s=0.005,
    scout_s=0.02,
    scout_warmup_s=0.005,
)
ADAPTIVE = AdaptivePlan(SMALL, budget_trials=50, batch_trials=10)
