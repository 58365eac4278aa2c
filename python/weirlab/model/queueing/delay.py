"""The law of one delay (mean or quantile) over load, from idle to overload, and its fit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab.model import robust
from weirlab.model.base import F64, Bool
from weirlab.model.queueing import waiting

FIELDS: Final = (
    "base_ns", "per_byte_ns", "cold_per_rule_ns", "wake_ns", "wake_pps", "service_scv", "interruption_ns",
)  # fmt: skip
_BASE, _PER_BYTE, _COLD, _WAKE, _WAKE_PPS, _SCV, _INTERRUPTION = range(len(FIELDS))

MIN_SCV: Final = 1e-4
MAX_SCV: Final = 64.0

_RESOLUTION: Final = 0.02
"""Relative misfit that does not justify another parameter: approximations are no better."""
_NOISE: Final = 0.05
"""Relative noise of a delay that is expected anywhere."""
_MIN_THRESHOLD_NOISE: Final = 0.005
_MAX_THRESHOLD_NOISE: Final = 0.10
_ROUNDS: Final = 2


@dataclass(frozen=True)
class DelayInput:
    """Settings as the delay sees them; arrays of one shape."""

    rate_pps: F64
    frame_bytes: F64
    position: F64
    gap_scv: F64
    service_ns: F64

    @property
    def rho(self) -> F64:
        """Offered load over the threshold."""
        return np.asarray(self.rate_pps * self.service_ns / 1e9)

    @property
    def slack_ns(self) -> F64:
        """Time left to the device between a packet's service and the next packet; negative in overload."""
        return np.asarray(1e9 / self.rate_pps - self.service_ns)

    def slower(self, relative: npt.ArrayLike) -> DelayInput:
        """The same with service times longer by ``relative``."""
        service_ns = np.asarray(self.service_ns * (1.0 + np.asarray(relative)))
        return DelayInput(self.rate_pps, self.frame_bytes, self.position, self.gap_scv, service_ns)

    def where(self, mask: Bool) -> DelayInput:
        return DelayInput(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class DelayCurve:
    """Delay = path + own service + the extra delay of an idle device + waiting.

    Path: ``base + per_byte * L``. An idle device has to wake up, ``wake / (1 + rate /
    wake_pps)``, and finds cold caches, ``cold_per_rule * n``; both effects fade as the queue
    fills. Interruptions of the device's CPU (timer ticks above all) hold packets up by the same
    time whatever the service time s: as if the variability were greater by ``interruption /
    s``, where ``interruption`` is the mean wait for them at half load.
    Waiting follows :mod:`weirlab.model.queueing.waiting` for the offered gaps and service
    times with the squared coefficient of variation ``service_scv``. Its limit is the full
    queue, which for quantile ``q`` is ``plateau`` times the median one. ``q`` is None for
    the mean.
    """

    q: float | None
    base_ns: float
    per_byte_ns: float = 0.0
    cold_per_rule_ns: float = 0.0
    wake_ns: float = 0.0
    wake_pps: float = 1e4
    service_scv: float = 0.1
    interruption_ns: float = 0.0
    plateau: float = 1.0
    stderr: dict[str, float] = field(default_factory=dict)

    def ns(self, load: DelayInput, queue_packets: float) -> F64:
        """Delay in ns; between the idle delay and that of the full queue."""
        return _evaluate(np.array(self.values), self.q, load, queue_packets * self.plateau)

    def waiting_at(self, load: DelayInput) -> tuple[F64, F64]:
        """Variability, including the share of interruptions, and rarity of waiting."""
        return _waiting(self.service_scv, self.interruption_ns, load)

    def path_ns(self, frame_bytes: F64) -> F64:
        """Delay outside the queue and its server."""
        return np.asarray(self.base_ns + self.per_byte_ns * frame_bytes)

    @property
    def values(self) -> list[float]:
        """The fitted numbers in the order of ``FIELDS``."""
        return [float(getattr(self, name)) for name in FIELDS]

    @property
    def free(self) -> tuple[bool, ...]:
        """Which of ``FIELDS`` were fitted: the form of the law."""
        return tuple(name in self.stderr for name in FIELDS)


def filling(q: float | None, rho: F64, variability: F64, places: float, rarity: F64) -> F64:
    """Share of the queue's ``places`` that is full: mean, or quantile ``q``."""
    if q is None:
        return waiting.mean_fraction(rho, variability, places, rarity)
    return waiting.quantile_fraction(q, rho, variability, places, rarity)


def _waiting(service_scv: float | F64, interruption_ns: float | F64, load: DelayInput) -> tuple[F64, F64]:
    own = waiting.variability(load.gap_scv, service_scv)
    rare = waiting.rarity(load.rho, load.gap_scv, service_scv)
    # Interruptions come at any time: nothing makes waiting for them rare.
    host = interruption_ns / load.service_ns
    both = np.maximum(own + host, 1e-12)
    return both, np.asarray((own * rare + host) / both)


def fit_delay(
    q: float | None,
    load: DelayInput,
    delay_ns: F64,
    queue_packets: float,
    threshold_noise: float,
    like: DelayCurve | None = None,
) -> DelayCurve:
    """Fit to trials without overload.

    A trial near the threshold says little, because the threshold itself is only known to
    ``threshold_noise`` (relative) and the delay there changes quickly: residuals are
    divided by the effect of that uncertainty on the delay. Cold caches, wake-up and
    interruptions are added one by one as long as the Bayesian information criterion
    improves; ``like`` fixes which of them there are.
    """
    noise = min(max(threshold_noise, _MIN_THRESHOLD_NOISE), _MAX_THRESHOLD_NOISE)
    idle = np.maximum(delay_ns - load.service_ns, 0.0)
    slow, fast = float(load.rate_pps.min()), float(load.rate_pps.max())
    top = 2 * float(delay_ns.max())
    slope = _per(top, load.position)
    lower = [0.0, 0.0, 0.0, 0.0, slow / 4, math.log(MIN_SCV), 0.0]
    upper = [top, _per(top, load.frame_bytes), slope, top, 2 * fast, math.log(MAX_SCV), top]
    x = np.array([np.quantile(idle, 0.25), 0, 0, 0, np.median(load.rate_pps), math.log(0.1), 0], float)
    if like is not None:
        x = np.array(like.values)
        x[_SCV] = math.log(x[_SCV])

    def unpack(y: F64) -> F64:
        values = y.copy()
        values[..., _SCV] = np.exp(y[..., _SCV])
        return values

    def predicted(y: F64, at: DelayInput) -> F64:
        return np.maximum(_evaluate(unpack(y), q, at, queue_packets), 1.0)

    # Variability and weights depend on each other: the second round settles both.
    form = _settled(like, load)
    best: robust.Fit | None = None
    for _ in range(_ROUNDS):
        up = np.log(predicted(x, load.slower(noise)))
        down = np.log(predicted(x, load.slower(-noise)))
        sigma = np.hypot(_NOISE, 0.5 * np.abs(up - down))

        def residual(y: F64, sigma: F64 = sigma) -> F64:
            return np.asarray(np.log(predicted(y, load) / delay_ns) / sigma)

        def attempt(
            free: tuple[bool, ...], x: F64 = x, residual: Any = residual, first: bool = best is None
        ) -> robust.Fit:
            starts = _starts(x, free, idle, load, first and like is None)
            return robust.fit(residual, starts, lower, upper, free, 2.0)

        if form is None:
            form, best = _grown(attempt, load)
        else:
            best = attempt(form)
        x = best.values
    assert best is not None
    values, errors = unpack(best.values), best.stderr.copy()
    errors[_SCV] *= values[_SCV]
    fitted = dict(zip(FIELDS, map(float, values), strict=True))
    stderr = {name: float(e) for name, e, free in zip(FIELDS, errors, form or (), strict=True) if free}
    return DelayCurve(q=q, stderr=stderr, **fitted)


def _evaluate(values: F64, q: float | None, load: DelayInput, places: float) -> F64:
    base, per_byte, cold_per_rule, wake, wake_pps, scv, interruption = robust.each(values)
    variability, rarity = _waiting(scv, interruption, load)
    full = filling(q, load.rho, variability, places, rarity)
    idle = cold_per_rule * load.position + wake / (1.0 + load.rate_pps / wake_pps)
    path = base + per_byte * load.frame_bytes + load.service_ns
    # A queue that is full holds the packet itself, too; one that is nearly empty hardly does.
    return np.asarray(path + (1.0 - full) * idle + full * np.maximum(places - full, 0.0) * load.service_ns)


def _settled(like: DelayCurve | None, load: DelayInput) -> tuple[bool, ...] | None:
    """The form to fit if there is no choice: that of ``like``, or the least for hardly any trials."""
    sizes = len(np.unique(np.round(load.frame_bytes))) >= 2
    if len(load.rate_pps) <= 2 + sizes:
        return (True, False, False, False, False, False, False)
    return like.free if like is not None and like.stderr else None


def _grown(attempt: Any, load: DelayInput) -> tuple[tuple[bool, ...], robust.Fit]:
    """The form that grows by one effect at a time while BIC improves."""
    sizes = len(np.unique(np.round(load.frame_bytes))) >= 2
    rules = len(np.unique(load.position)) >= 2
    form: tuple[bool, ...] = (True, sizes, False, False, False, True, False)
    best: robust.Fit = attempt(form)
    while True:
        fits = {free: attempt(free) for free in _larger(form, rules) if sum(free) < len(load.rate_pps)}
        chosen = min(fits, key=lambda free: _bic(fits[free]), default=None)
        if chosen is None or _bic(fits[chosen]) >= _bic(best):
            return form, best
        form, best = chosen, fits[chosen]


def _larger(form: tuple[bool, ...], rules: bool) -> Iterator[tuple[bool, ...]]:
    """``form`` with one more effect."""
    for effect in ((_COLD,), (_WAKE, _WAKE_PPS), (_INTERRUPTION,)):
        # Only different positions show cold caches, and tell interruptions from variability.
        if not form[effect[0]] and (rules or effect[0] == _WAKE):
            yield tuple(free or i in effect for i, free in enumerate(form))


def _bic(fit: robust.Fit) -> float:
    return fit.bic(_RESOLUTION / _NOISE)


def _starts(x: F64, free: tuple[bool, ...], idle: F64, load: DelayInput, first: bool) -> list[list[float]]:
    """Starts of a fit: ``x``; the first time also two loads at which the wake-up may be half over."""
    start = [
        float(v) if is_free or i in (_WAKE_PPS, _SCV) else 0.0
        for i, (v, is_free) in enumerate(zip(x, free, strict=True))
    ]
    if free[_INTERRUPTION] and first:
        start[_INTERRUPTION] = float(np.median(load.service_ns))
    if not (free[_WAKE] and first):
        return [start]
    slow = load.rate_pps <= np.quantile(load.rate_pps, 0.2)
    extra = max(float(np.median(idle[slow])) - start[0], 0.1 * start[0])
    rates = np.quantile(load.rate_pps, (0.1, 0.5))
    return [[*start[:_WAKE], extra, float(rate), *start[_SCV:]] for rate in rates]


def _per(total: float, values: F64) -> float:
    return total / max(float(values.max()), 1.0)
