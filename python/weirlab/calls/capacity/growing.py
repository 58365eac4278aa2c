"""How fast delays may grow during a trial before its calls are no longer good.

A device with a deep queue loses nothing at first when it is overloaded, but each packet takes longer
than the one before. Telephones treat such packets as late once their jitter buffers are exhausted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from weirlab.quality.assess import StreamCoding, hear
from weirlab.quality.codecs import impairment
from weirlab.quality.jitterbuffer import USUAL, Buffers, adaptive, fixed
from weirlab.quality.packets import PacketArrivals, place_all
from weirlab.quality.streams import measure
from weirlab.traffic.calls.codecs import VoiceStream
from weirlab.traffic.calls.spec import Calls

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
        good = all(mos_of(one.stream, delay_ms, middle, trial_s, buffers) >= mos for one in calls.classes)
        low, high = (middle, high) if good else (low, middle)
    return low


def mos_of(stream: VoiceStream, delay_ms: float, growth: float, trial_s: float, buffers: Buffers) -> float:
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
