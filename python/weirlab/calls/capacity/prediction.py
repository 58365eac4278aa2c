"""How many calls a device should carry by the model of its profile, and how fast delays may grow meanwhile.

A device with a deep queue loses nothing at first when it is overloaded, but each packet takes longer
than the one before. Telephones treat such packets as late once their jitter buffers are exhausted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, ndtri

from weirlab.base.documents import SPARSE
from weirlab.calls.capacity.trials.search import CallGoal, CallTraffic
from weirlab.model.backlog import Backlog, backlog
from weirlab.model.base import TOLD_LEVEL, Prediction, Predictor
from weirlab.model.planning.requirements import NO_LOSS
from weirlab.quality.assess import StreamCoding, hear, opinion
from weirlab.quality.codecs import impairment
from weirlab.quality.jitterbuffer import USUAL, Buffers, adaptive, fixed
from weirlab.quality.packets import PacketArrivals, place_all
from weirlab.quality.streams import measure
from weirlab.traffic.calls.codecs import VoiceStream
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.load import rate_pps
from weirlab.traffic.sizes import mean_bytes

_MOST: Final = 4.0
"""The largest growth tried, in s per s: four fifths of all packets still wait when a trial ends."""
_CLOSE: Final = 1e-3


def bearable(calls: Calls, mos: float, delay_ms: float, trial_s: float, buffers: Buffers = USUAL) -> float:
    """The fastest growth of delay, in s per s, with which all kinds of ``calls`` reach ``mos``.

    ``delay_ms`` is the delay at the beginning of a trial that lasts ``trial_s``. 0 if a call does not
    reach ``mos`` even without growth.
    """
    low, high = 0.0, _MOST
    while high - low > _CLOSE:
        middle = (low + high) / 2
        good = all(
            mos_while_growing(one.stream, delay_ms, middle, trial_s, buffers) >= mos for one in calls.classes
        )
        low, high = (middle, high) if good else (low, middle)
    return low


def mos_while_growing(
    stream: VoiceStream, delay_ms: float, growth: float, trial_s: float, buffers: Buffers
) -> float:
    """MOS of a stream whose packets all arrive, behind the jitter buffer that serves it better."""
    count = max(round(trial_s * stream.rate_pps), 1)
    sent_ns = np.arange(count) * stream.packet_ns
    arrival_ns = np.int64(delay_ms * 1e6) + np.round(sent_ns * (1 + growth)).astype(np.int64)
    packets = place_all(
        PacketArrivals(np.zeros(count, np.int64), np.arange(count), sent_ns, arrival_ns),
        flow=np.zeros(1, np.int64),
        start=np.array([0, count]),
        packet_ns=np.array([stream.packet_ns]),
    )
    coded = StreamCoding((impairment(stream.codec, buffers.concealment),), np.zeros(1, np.int64))
    streams = measure(packets)
    heard = (hear(packets, None, streams, play(packets, buffers), coded) for play in (fixed, adaptive))
    return float(np.fmax(*(each.mos[0] for each in heard)))


F64 = npt.NDArray[np.float64]

_TRIED: Final = 1000
"""Number of calls from whose traffic the load of one call follows: packets of speech and control."""


@dataclass(frozen=True)
class CapacityPrediction:
    """What the model says about one goal at one position.

    ``calls`` is None if not even one call meets the goal.
    """

    goal: CallGoal
    position: int
    calls: int | None
    pps: float | None
    threshold_pps: float
    frame_bytes: float
    why_extrapolated: tuple[str, ...] = ()
    least_calls: int | None = None
    """Lower end of the interval that 90 % of measurements fall into; None where the model has no interval."""
    most_calls: int | None = None
    """Its upper end."""
    trial_s: float | None = field(default=None, metadata=SPARSE)
    """The queue is so deep that a trial of this length, warm-up included, loses nothing with more calls than
    the device carries for long; ``calls`` is for such a trial. None for other devices and goals."""
    lasting_calls: int | None = field(default=None, metadata=SPARSE)
    """With ``trial_s``: how many calls it carries for long."""
    at_least: bool = field(default=False, metadata=SPARSE)
    """With ``trial_s``: the profile never filled that queue, so a trial may pass with more."""
    unchecked: str = field(default="", metadata=SPARSE)
    """What the interval does not cover; empty if nothing."""

    def ratio(self, measured: int | None) -> float | None:
        """Predicted over measured, less 1; None where either is missing."""
        if measured is None or self.calls is None or measured == 0:
            return None
        return self.calls / measured - 1


def foretell(
    model: Predictor,
    setting: CallTraffic,
    goals: Sequence[CallGoal],
    positions: Sequence[int],
    trial_s: float,
    warmup_s: float = 0.0,
) -> list[CapacityPrediction]:
    """The most calls that meet each goal at each position.

    Calls are streams of packets of one size, in the model's terms: a call adds its packets of speech in
    both directions and its control packets to the load. Without loss: the highest load at which the model
    loses nothing. With a MOS: the highest at which the loss that it foresees leaves enough calls good. There
    each packet of a trial of ``trial_s`` seconds is lost with the same probability, whichever call it belongs
    to. The interval is that of the threshold, on which both depend.

    A queue that is deep for such a trial, which ``warmup_s`` of the same calls precede, absorbs what is too
    much for the device: nothing is lost up to a higher load (:mod:`weirlab.model.backlog`), and calls are
    good until delays grow too fast for their jitter buffers (:mod:`weirlab.calls.capacity.prediction`).
    """
    traffic = setting.spec(0, _TRIED, trial_s=trial_s, warmup_s=0.0).traffic
    call_pps = rate_pps(traffic.rate, traffic.sizes) / _TRIED
    frame = mean_bytes(traffic.sizes)
    found = []
    for position in positions:
        threshold = float(model.threshold_pps(position, frame))
        # In steps of a thousandth, from far below the threshold to where everything is bad.
        rates = threshold * np.linspace(0.05, 2.0, 1951)
        predicted = model.predict(rates, frame, position)
        held = backlog(model, position, frame)
        lasts_s = trial_s + warmup_s
        endless = held is not None and held.first(lasts_s).endless
        for goal in goals:
            allowed = max(goal.bad_ratio, NO_LOSS)
            if goal.mos is not None:
                delay_ms = predicted.delay_p99_ns / 1e6
                tolerable = tolerable_loss(setting.calls, goal, float(np.nanmax(delay_ms)), trial_s)
                # Where a full queue alone spoils calls, it must not fill; nor must one without an end.
                allowed = NO_LOSS if endless else max(tolerable, NO_LOSS)
            bad = predicted.loss_ratio > allowed
            reached = float(rates[-1] if not bad.any() else rates[max(int(np.argmax(bad)) - 1, 0)])
            calls = int(reached / call_pps)
            lasting = None
            if held is not None and held.is_deep(lasts_s):
                lasting = calls
                reached = max(reached, _while_filling(held, setting.calls, goal, trial_s, lasts_s))
                calls = int(reached / call_pps)
            there = model.predict(reached, frame, position)
            # It is not known how much more a queue can hold that was never full.
            unknown = lasting is not None and goal.mos is None and endless
            ends = (None, None) if not calls or unknown else _ends(there, reached / call_pps)
            found.append(
                CapacityPrediction(
                    goal,
                    position,
                    calls or None,
                    calls * call_pps or None,
                    threshold,
                    frame,
                    tuple(there.why),
                    *ends,
                    unchecked=there.unchecked,
                    **_deep(lasting, lasts_s, at_least=unknown),
                )
            )
    return found


def _while_filling(held: Backlog, calls: Calls, goal: CallGoal, trial_s: float, lasts_s: float) -> float:
    """The load that meets the goal in a trial because the queue only fills while it lasts.

    Without loss: until the queue is full. With a MOS: as long as delays do not outgrow the jitter buffers.
    """
    lossless = held.lossless_pps(lasts_s)
    if goal.mos is None:
        return lossless
    borne = held.threshold_pps * (1 + bearable(calls, goal.mos, 0.0, trial_s))
    return borne if held.first(lasts_s).endless else min(lossless, borne)


def _deep(lasting: int | None, lasts_s: float, *, at_least: bool) -> dict[str, Any]:
    return {} if lasting is None else {"trial_s": lasts_s, "lasting_calls": lasting, "at_least": at_least}


def _ends(found: Prediction, calls: float) -> tuple[int | None, int | None]:
    """The numbers of calls between which a measurement should lie, by the interval of the threshold.

    If a profile has too few settings to calibrate the interval, by the model's own estimate of its error.
    """
    threshold = float(found.threshold_pps)
    if bands := found.intervals.get("threshold_pps"):
        low, high = float(bands[TOLD_LEVEL].low), float(bands[TOLD_LEVEL].high)
    elif "threshold_pps" in found.spread:
        width = float(ndtri((100 + TOLD_LEVEL) / 200) * found.spread["threshold_pps"])
        low, high = threshold * math.exp(-width), threshold * math.exp(width)
    else:
        return None, None
    return math.floor(calls * low / threshold), math.ceil(calls * high / threshold)


def tolerable_loss(calls: Calls, goal: CallGoal, delay_ms: float, trial_s: float) -> float:
    """The loss ratio at which just enough calls are as good as ``goal`` asks, if packets are lost at random.

    ``delay_ms`` is that of the network; the telephones' jitter buffers hold packets about as long as the
    device scatters them, which is little in comparison.
    """
    assert goal.mos is not None
    worst = 1.0
    for one in calls.classes:
        packets = max(round(trial_s * one.stream.rate_pps), 1)
        lost = np.arange(packets + 1)
        mos = mos_of(one.stream, delay_ms, 100 * lost / packets)
        good = np.flatnonzero(mos >= goal.mos)
        if not len(good):
            return 0.0
        streams = 2 if calls.directions == "both" else 1
        ratios = np.linspace(0, 1, 10_001)
        # Both directions of a call must be good.
        share = bdtr(good[-1], packets, ratios) ** streams
        enough = ratios[share >= 1 - goal.bad_ratio]
        worst = min(worst, float(enough[-1]))
    return worst


def mos_of(stream: VoiceStream, delay_ms: float, loss_percent: F64) -> F64:
    """MOS of a stream with this delay in network and jitter buffer, and random loss."""
    kind = impairment(stream.codec)
    n = len(loss_percent)
    whole = np.full(n, stream.packet_ms + kind.lookahead_ms + delay_ms)
    _, mos = opinion(StreamCoding((kind,), np.zeros(n, np.int64)), whole, loss_percent, np.ones(n))
    return mos
