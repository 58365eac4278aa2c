"""Loads relative to a threshold, and thresholds between the positions that were scouted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from weirlab.measure.scouting import MAX_RATE, ScoutPoint
from weirlab.traffic.spec import Rate

SENDER_RESERVE: Final = 0.95
"""Share of its highest rate that the sender can pace."""


def load_or_max(
    shares: Iterable[float], threshold_pps: float, limit_pps: float, highest: Rate = MAX_RATE
) -> dict[Rate, str]:
    """Loads at ``shares`` of ``threshold_pps``, with their labels.

    What exceeds ``limit_pps`` becomes ``highest``, at most once.
    """
    rates: dict[Rate, str] = {}
    for share in shares:
        pps = rounded(share * threshold_pps)
        paced = pps <= limit_pps
        rates.setdefault(Rate(pps) if paced else highest, f"load {share:g}" if paced else "load max")
    return rates


def load_share(label: str) -> float:
    """The share of a label of :func:`load_or_max`; infinite for the highest load, NaN for other labels."""
    kind, _, share = label.partition(" ")
    if kind != "load":
        return math.nan
    return math.inf if share == "max" else float(share)


def rounded(pps: float) -> float:
    """Four digits are enough for a load and still readable."""
    return float(f"{pps:.4g}")


def nearest(wanted: Iterable[float], there: Iterable[float]) -> tuple[float, ...]:
    """For each of ``wanted`` the nearest of ``there``, ascending and each once."""
    known = tuple(there)
    return tuple(sorted({min(known, key=lambda value: abs(value - share)) for share in wanted}))


def threshold_pps(points: Iterable[ScoutPoint], position: float) -> float:
    """Forwarding rate in overload at any position, from ``points`` of one frame size.

    The time per packet is taken as linear between two scouted positions and beyond them; it
    only places loads. A ``position`` that was scouted has the scouted rate.
    """
    known = sorted((point.position, 1 / point.forwarding_pps) for point in points)
    for n, service_s in known:
        if n == position:
            return 1 / service_s
    if len(known) == 1:
        return 1 / known[0][1]
    after = next((i for i, (n, _) in enumerate(known) if n > position), len(known) - 1)
    (n1, s1), (n2, s2) = known[max(after - 1, 0)], known[max(after, 1)]
    slope = max((s2 - s1) / (n2 - n1), 0.0)
    return 1 / max(s2 + (position - n2) * slope, min(s1, s2) / 2)
