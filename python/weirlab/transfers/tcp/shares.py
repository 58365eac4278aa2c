"""Where the time of a sender went, by the kernel's own counters: :mod:`weirlab.diagnosis.counters`."""

from __future__ import annotations

from weirlab.diagnosis.counters import CAUTION, COUNTERS, TimeShares, mean, shares

__all__ = ["CAUTION", "COUNTERS", "TimeShares", "mean", "shares"]
