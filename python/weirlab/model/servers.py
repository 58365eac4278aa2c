"""A device with several CPUs, each with a receive queue of its own, from the model of one.

A hash gives each flow to one CPU (RSS), so CPU i gets a share p_i of the packets, and is a server by itself::

    rate_i = p_i * rate,    threshold = 1 / (s * max p_i)

The busiest CPU sets the threshold, and most of p99. Delays are those of a packet drawn at random: a mixture
of what the CPUs do. Gaps at one CPU are those of a renewal process thinned with probability p (Kuehn,
"Approximate analysis of general queuing networks by decomposition", IEEE Trans. Comm. 27, 1979)::

    scv_i = p_i * scv + 1 - p_i

What CPUs share is not in the model: caches, memory, locks, the bus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from weirlab.base.errors import ModelError
from weirlab.model.base import F64, Band, Prediction, Predictor, ProfileRange, places, settings
from weirlab.model.distributions import mixture_quantiles

_SUMMED: Final = ("delay_mean_ns", "jitter_ns", "loss_ratio")
"""What is the mean over packets, whatever the CPU."""


@dataclass(frozen=True)
class SeveralServers:
    """Predictions for a device whose CPUs get these ``shares`` of the packets, each as fast as ``one``.

    Raises ``ModelError`` if ``one`` does not tell what it was profiled at.
    """

    one: Predictor
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self._profiled, ProfileRange):
            raise ModelError("only models that tell their profiled range can be extended to several CPUs")

    @property
    def _profiled(self) -> Any:
        return getattr(self.one, "profiled", None)

    def threshold_pps(self, position: ArrayLike, frame_bytes: ArrayLike) -> F64:
        """The load above which the busiest CPU loses packets."""
        place, frame = places(position, frame_bytes)
        return np.asarray(self.one.threshold_pps(place, frame) / max(self.shares))

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        """Predict at the given settings; see :meth:`weirlab.model.base.Model.predict`."""
        rate, frame, place, gaps = settings(rate_pps, frame_bytes, position, gap_scv)
        counted: dict[float, int] = {}
        for share in self.shares:
            if share > 0.0:
                counted[share] = counted.get(share, 0) + 1
        # A CPU that is less busy than any profiled load is not faster than at that load.
        least = np.minimum(rate, self._profiled.rate_min_pps)
        parts = [
            self.one.predict(np.maximum(rate * share, least), frame, place, share * gaps + 1.0 - share)
            for share in counted
        ]
        weights = [share * n for share, n in counted.items()]
        values: dict[str, Any] = {**self._joined([vars(part) for part in parts], weights)}
        intervals: dict[str, dict[int, Band]] = {}
        for level in {level for bands in parts[0].intervals.values() for level in bands}:
            low, high = (
                self._joined([_at_end(part, level, end) for part in parts], weights)
                for end in ("low", "high")
            )
            for name, bands in parts[0].intervals.items():
                if level in bands:
                    intervals.setdefault(name, {})[level] = Band(low[name], high[name])
        busiest = parts[list(counted).index(max(counted))]
        return replace(
            busiest,
            **values,
            extrapolated=np.logical_or.reduce([part.extrapolated for part in parts]),
            why=list(dict.fromkeys(reason for part in parts for reason in part.why)),
            intervals=intervals,
        )

    def _joined(self, parts: Sequence[Mapping[str, Any]], weights: Sequence[float]) -> dict[str, F64]:
        """Every quantity of a packet drawn at random; ``parts`` have those of the CPUs."""
        found = {
            name: np.asarray(sum(w * part[name] for w, part in zip(weights, parts, strict=True)))
            for name in _SUMMED
        }
        arriving = [w * (1.0 - part["loss_ratio"]) for w, part in zip(weights, parts, strict=True)]
        total = np.maximum(sum(arriving), np.finfo(np.float64).tiny)
        for name in _SUMMED[:2]:
            found[name] = np.asarray(
                sum(share * part[name] for share, part in zip(arriving, parts, strict=True)) / total
            )
        delays = mixture_quantiles(parts, [share / total for share in arriving])
        return {**found, **delays, "threshold_pps": np.asarray(parts[0]["threshold_pps"] / max(self.shares))}


def _at_end(part: Prediction, level: int, end: str) -> dict[str, F64]:
    """The quantities of ``part`` at one end of their intervals."""
    found = dict(vars(part))
    for name, bands in part.intervals.items():
        if level in bands:
            found[name] = getattr(bands[level], end)
    return found
