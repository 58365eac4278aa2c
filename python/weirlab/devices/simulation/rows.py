"""The columns of the study's table, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SIMULATIONS: Final = "simulations"


@dataclass(frozen=True)
class SimulationRow:
    """One simulation of a steady load, and what the model predicts for it. Null: no packet came through."""

    number: int
    """Number of the combination, from 0."""
    repetition: int
    """Number of the repetition, from 0."""
    rules: int
    """Matching position."""
    rate_pps: float
    """Offered load."""
    frame_bytes: int
    """Frame size, FCS included."""
    loss_ratio: float
    """Share of the counted packets that were lost."""
    delay_mean_ns: float
    """Mean delay."""
    delay_p50_ns: float
    """Median delay."""
    delay_p99_ns: float
    """99th percentile of the delay."""
    predicted_threshold_pps: float
    """Load from which on the model predicts loss for want of time; null without a model."""
    predicted_mean_ns: float
    """Mean delay that the model predicts; null without a model."""
    predicted_p99_ns: float
    """99th percentile that the model predicts; null without a model."""
    predicted_loss_ratio: float
    """Loss that the model predicts; null without a model."""
    wall_s: float
    """Time that the simulation took."""
