"""The cost of a packet, from the rounds of ``crates/engine/benches/esp_cost``: lines and ratios.

An interval is the 2.5th to 97.5th percentile over resampled rounds (bootstrap). Compared values were
measured in the same rounds, and the same rounds are drawn for both.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Key = tuple[str, str, str]
"""Suite, mode, way."""
Samples = dict[Key, dict[int, list[float]]]
"""ns per packet of every round, by suite, mode and way, then by bytes of the packet in the clear."""

DRAWS = 1000
VOICE_BYTES = 200
"""20 ms of G.711."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float

    def text(self, shown: Callable[[float], str]) -> str:
        return f"{shown(self.value)} ({shown(self.low)}–{shown(self.high)})"


@dataclass(frozen=True)
class Fit:
    """``ns = a + b * bytes``, through the median rounds of every size."""

    suite: str
    mode: str
    way: str
    fixed_ns: float
    fixed_ns_interval: tuple[float, float]
    per_byte_ns: float
    per_byte_ns_interval: tuple[float, float]
    voice_ns: float
    """Cost of a packet of 200 B, by the line."""
    voice_ns_interval: tuple[float, float]
    worst_residual: float
    """The largest distance of a size's median from the line, relative to the line."""


def samples(lines: Iterable[str]) -> Samples:
    """Group the lines of the benchmark."""
    found: Samples = defaultdict(lambda: defaultdict(list))
    for line in lines:
        one = json.loads(line)
        found[one["suite"], one["mode"], one["way"]][one["bytes"]].append(one["ns"])
    return found


def fit(key: Key, sizes: dict[int, list[float]]) -> Fit:
    """Fit a line through the medians, by relative distances."""
    x = np.array(sorted(sizes), dtype=float)
    rounds = np.array([sizes[int(size)] for size in x])
    medians = np.median(rounds, axis=1)
    a, b = lines(x, medians[None])[0]
    drawn = lines(x, medians_of(rounds))
    return Fit(
        *key,
        fixed_ns=float(a),
        fixed_ns_interval=interval(drawn[:, 0]),
        per_byte_ns=float(b),
        per_byte_ns_interval=interval(drawn[:, 1]),
        voice_ns=float(a + b * VOICE_BYTES),
        voice_ns_interval=interval(drawn @ (1.0, VOICE_BYTES)),
        worst_residual=float(np.max(np.abs(medians / (a + b * x) - 1))),
    )


def ratio(over: list[float], under: list[float]) -> Estimate:
    """The ratio of two medians."""
    both = np.array([over, under])
    tops, bottoms = medians_of(both).T
    middle = np.median(both, axis=1)
    return Estimate(float(middle[0] / middle[1]), *interval(tops / bottoms))


def medians_of(rounds: F64) -> F64:
    """Medians of resampled rounds: a row per draw, a column per row of ``rounds``."""
    rng = np.random.default_rng(1)
    count = rounds.shape[1]
    drawn = rng.integers(count, size=(DRAWS, count))
    medians: F64 = np.median(rounds[:, drawn], axis=2).T
    return medians


def lines(x: F64, ys: F64) -> F64:
    """Intercept and slope that minimise the relative residuals, for every row of ``ys``."""
    u = 1 / ys
    v = x * u
    uu, uv, vv = (u * u).sum(1), (u * v).sum(1), (v * v).sum(1)
    determinant = uu * vv - uv**2
    a = (vv * u.sum(1) - uv * v.sum(1)) / determinant
    b = (uu * v.sum(1) - uv * u.sum(1)) / determinant
    return np.stack([a, b], axis=1)


def interval(values: F64) -> tuple[float, float]:
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)
