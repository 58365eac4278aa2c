"""One delay (mean or quantile) over load, from idle to overload, and its fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab.model import robust, waiting
from weirlab.model.base import F64, Bool

FIELDS: Final = (
    "base_ns",
    "per_byte_ns",
    "cold_per_rule_ns",
    "wake_ns",
    "wake_pps",
    "variability",
    "interruption_ns",
)

MIN_VARIABILITY: Final = 1e-3
MAX_VARIABILITY: Final = 64.0

_RESOLUTION: Final = 0.02
"""Misfit (relative) that is no reason for another parameter: approximations are no better."""
_NOISE: Final = 0.05
"""Relative noise of a delay that is expected anywhere."""
_MIN_THRESHOLD_NOISE: Final = 0.01
_MAX_THRESHOLD_NOISE: Final = 0.10


@dataclass(frozen=True)
class Load:
    """Settings as the delay sees them; arrays of one shape."""

    rate_pps: F64
    frame_bytes: F64
    position: F64
    service_ns: F64

    @property
    def rho(self) -> F64:
        return np.asarray(self.rate_pps * self.service_ns / 1e9)

    def where(self, mask: Bool) -> Load:
        return Load(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class DelayCurve:
    """Delay = path + own service + what an idle device adds + waiting.

    Path: ``base + per_byte * L``. An idle device has to wake up, ``wake / (1 + rate /
    wake_pps)``, and finds cold caches, ``cold_per_rule * n``; both fade as the queue
    fills. Interruptions of the device's CPU (timer ticks above all) of length D, f per second,
    hold packets up as if the variability were greater by ``interruption / s``, with
    ``interruption = f D^2 / 2`` whatever the service time s: the residual vacation of
    B. T. Doshi, Queueing Systems 1 (1986).
    Waiting follows :mod:`weirlab.model.waiting` and ends at the full queue, which
    for quantile ``q`` is ``plateau`` times the median one. ``q`` is None for the mean.
    """

    q: float | None
    base_ns: float
    per_byte_ns: float = 0.0
    cold_per_rule_ns: float = 0.0
    wake_ns: float = 0.0
    wake_pps: float = 1e4
    variability: float = 0.5
    interruption_ns: float = 0.0
    plateau: float = 1.0
    stderr: dict[str, float] = field(default_factory=dict)

    def ns(self, load: Load, queue_packets: float) -> F64:
        """Delay in ns; between the idle delay and that of the full queue."""
        values = np.array([getattr(self, name) for name in FIELDS])
        return _evaluate(values, self.q, load, queue_packets * self.plateau)

    def variability_at(self, service_ns: F64) -> F64:
        """Variability with the interruptions' share at this service time."""
        return np.asarray(self.variability + self.interruption_ns / service_ns)

    def path_ns(self, frame_bytes: F64) -> F64:
        """Delay outside the queue and its server."""
        return np.asarray(self.base_ns + self.per_byte_ns * frame_bytes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def filling(q: float | None, rho: F64, variability: npt.ArrayLike, places: float) -> F64:
    """Share of the queue's ``places`` that is full: mean, or quantile ``q``."""
    if q is None:
        return waiting.mean_fraction(rho, variability, places)
    return waiting.quantile_fraction(q, rho, variability, places)


def fit_delay(
    q: float | None, load: Load, delay_ns: F64, queue_packets: float, threshold_noise: float
) -> DelayCurve:
    """Fit to trials without overload.

    A trial near the threshold says little, because the threshold itself is only known to
    ``threshold_noise`` (relative) and the delay there changes quickly: residuals are
    divided by what that uncertainty makes of the delay. Cold caches and wake-up are kept
    only where the Bayesian information criterion wants them.
    """
    noise = min(max(threshold_noise, _MIN_THRESHOLD_NOISE), _MAX_THRESHOLD_NOISE)
    idle = np.maximum(delay_ns - load.service_ns, 0.0)
    start = [float(np.quantile(idle, 0.25)), 0.0, 0.0, 0.0, float(np.median(load.rate_pps)), 0.5, 0.0]
    top = 2 * float(delay_ns.max())
    slope = _per(top, load.position)
    slowest, fastest = float(load.rate_pps.min()), float(load.rate_pps.max())
    lower = [0.0, 0.0, 0.0, 0.0, slowest / 4, math.log(MIN_VARIABILITY), 0.0]
    upper = [top, _per(top, load.frame_bytes), slope, top, 2 * fastest, math.log(MAX_VARIABILITY), top]

    def unpack(x: F64) -> F64:
        values = x.copy()
        values[5] = math.exp(x[5])
        return values

    def predicted(x: F64, service: float = 1.0) -> F64:
        shifted = Load(load.rate_pps, load.frame_bytes, load.position, load.service_ns * service)
        return np.maximum(_evaluate(unpack(x), q, shifted, queue_packets), 1.0)

    # Variability and weights depend on each other: three rounds settle both, the first decides on the form.
    x = np.array([*start[:5], math.log(start[5]), start[6]])
    forms = list(_candidates(load))
    best: robust.Fit | None = None
    for _ in range(3):
        up, down = np.log(predicted(x, 1 + noise)), np.log(predicted(x, 1 - noise))
        sigma = np.hypot(_NOISE, 0.5 * np.abs(up - down))

        def residual(y: F64, sigma: F64 = sigma) -> F64:
            return np.asarray(np.log(predicted(y) / delay_ns) / sigma)

        fits = {
            form: robust.fit(residual, _starts(x, form, idle, load, best is None), lower, upper, form, 2.0)
            for form in forms
        }
        chosen = min(fits, key=lambda form: fits[form].bic(_RESOLUTION / _NOISE))
        best, forms = fits[chosen], [chosen]
        x = best.values
    assert best is not None
    values, errors = unpack(best.values), best.stderr.copy()
    errors[5] *= values[5]
    fitted = dict(zip(FIELDS, map(float, values), strict=True))
    stderr = {name: float(e) for name, e in zip(FIELDS, errors, strict=True) if e > 0}
    return DelayCurve(q=q, stderr=stderr, **fitted)


def _evaluate(values: F64, q: float | None, load: Load, places: float) -> F64:
    base, per_byte, cold_per_rule, wake, wake_pps, variability, interruption = values
    full = filling(q, load.rho, variability + interruption / load.service_ns, places)
    idle = cold_per_rule * load.position + wake / (1.0 + load.rate_pps / wake_pps)
    path = base + per_byte * load.frame_bytes + load.service_ns
    return np.asarray(path + (1.0 - full) * idle + full * max(places - 1.0, 0.0) * load.service_ns)


def _candidates(load: Load) -> Iterator[tuple[bool, ...]]:
    """Which of ``FIELDS`` to fit; with hardly any trials the base alone."""
    sizes = len(np.unique(np.round(load.frame_bytes))) >= 2
    rules = len(np.unique(load.position)) >= 2
    if len(load.rate_pps) <= 2 + sizes:
        yield (True, False, False, False, False, False, False)
        return
    both = (False, True)
    for cold, wake, interrupted in itertools.product(
        both if rules else (False,), both, both if rules else (False,)
    ):
        free = (True, sizes, cold, wake, wake, True, interrupted)
        if sum(free) < len(load.rate_pps):
            yield free


def _starts(x: F64, free: tuple[bool, ...], idle: F64, load: Load, first: bool) -> list[list[float]]:
    """From ``x``; the first time also from two loads at which the wake-up might be half over."""
    start = [
        float(v) if is_free or i in (4, 5) else 0.0
        for i, (v, is_free) in enumerate(zip(x, free, strict=True))
    ]
    if free[6] and first:
        start[6] = float(np.median(load.service_ns))
    if not (free[3] and first):
        return [start]
    slow = load.rate_pps <= np.quantile(load.rate_pps, 0.2)
    extra = max(float(np.median(idle[slow])) - start[0], 0.1 * start[0])
    rates = np.quantile(load.rate_pps, (0.1, 0.5))
    return [[*start[:3], extra, float(rate), *start[5:]] for rate in rates]


def _per(total: float, values: F64) -> float:
    return total / max(float(values.max()), 1.0)
