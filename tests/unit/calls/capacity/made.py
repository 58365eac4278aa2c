"""Rows of the table ``capacity`` for tests."""

from __future__ import annotations

from typing import Any

from weirlab.calls.capacity.trials.rows import CapacityRow


def capacity_row(calls: int, **changes: Any) -> CapacityRow:
    """Of a trial of a sweep that lost nothing."""
    usual: dict[str, Any] = {
        "trial_id": f"t{calls}", "index": 0, "attempt": 1, "valid": True, "phase": "sweep", "position": 0,
        "calls": calls, "run": 1, "offered_pps": 100.0 * calls, "achieved_pps": 100.0 * calls,
        "forwarded_pps": 100.0 * calls, "sent": 100 * calls, "lost": 0, "loss_ratio": 0.0,
        "delay_mean_ns": 2e4,
    }  # fmt: skip
    return CapacityRow(**usual | changes)
