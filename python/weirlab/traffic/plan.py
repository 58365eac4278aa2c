"""A departure schedule as the engine plays it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.traffic.flows import FlowAddresses, NewFlows
from weirlab.traffic.spec import Traffic

NEXT_FLOW: Final = 0xFFFFFFFF
"""In ``DeparturePlan.flow``: take the next flow in turn."""


BIN_NS: Final = 2_000_000


CALLS_BIN_NS: Final = 10_000_000


STEP_BIN_NS: Final = 1_000_000
"""In trials with steps: a spike after a step lasts a few milliseconds."""


MAX_BINS: Final = 1 << 20


MAX_WINDOWS: Final = 1000
"""Bins of a trial whose bins can be left out one by one: each has its own histogram of 28 kB."""


_MS: Final = 1_000_000
_SINGLE_GAP_NS: Final = 10_000


@dataclass(frozen=True)
class CallFlows:
    """Which flow belongs to which call; shapes (flows,).

    ``back``
        Sent from the receiver's side.
    ``carries_media``
        False for control and signalling.
    ``call``
        Number of the call that the flow belongs to, from 0; of a trunk, the first of them.
    ``calls_carried``
        Calls whose speech each packet carries: 1, or those of a trunk, whose numbers follow ``call``.
    ``call_class``
        Index into ``Calls.classes``.
    ``packet_ns``
        Packet time.
    """

    back: npt.NDArray[np.bool_]
    carries_media: npt.NDArray[np.bool_]
    call: npt.NDArray[np.uint32]
    calls_carried: npt.NDArray[np.uint32]
    call_class: npt.NDArray[np.int64]
    packet_ns: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Media:
    """What the packets of a :class:`DeparturePlan` carry, if they are packets of calls.

    Per entry of the plan, shapes (entries,):

    ``kind``
        What the engine writes into the application header (:data:`PACKET_KINDS`).
    ``stamp``
        Media time of the packet: RTP time stamp (in units of the codec's clock, from the flow's
        first), or milliseconds since the call began (IAX2). Not used for ``raw``.
    ``marker``
        Whether the RTP marker bit is set (first packet of a talk spurt).
    ``payload``
        Row of ``payload_start`` with the bytes behind the application header;
        :data:`NO_PAYLOAD` for zeros. Packets of kind ``raw`` have it right behind UDP, even in a flow
        with a header, so that a stream of IAX2 mini frames can have full frames in between.

    Per flow, shapes (flows,) and (flows, 12):

    ``header``, ``header_bytes``
        Application header behind UDP (RTP, IAX2 mini or meta header); the engine adds to its sequence
        number and time stamp. 0 bytes for flows of raw packets.

    Payload ``i`` is ``payload_bytes[payload_start[i]:payload_start[i + 1]]``. The probe lies in the
    last 18 bytes of every packet, where payloads have zeros.

    ``impair`` puts known faults into the schedule, one value per entry, to check that all of them are
    detected: 0 is none, :data:`LOSE` a packet that is numbered and counted as sent but does not depart,
    and ``k`` from 1 to 254 repeats an old packet: the one numbered ``k`` before the flow's next departs
    again (a duplicate, or, if it was lost, a packet out of order).
    """

    kind: npt.NDArray[np.uint8]
    stamp: npt.NDArray[np.uint32]
    marker: npt.NDArray[np.bool_]
    payload: npt.NDArray[np.uint32]
    header: npt.NDArray[np.uint8]
    header_bytes: npt.NDArray[np.uint8]
    flows: CallFlows
    payload_bytes: npt.NDArray[np.uint8]
    payload_start: npt.NDArray[np.uint32]
    impair: npt.NDArray[np.uint8] | None = None


PACKET_KINDS: Final = {"rtp": 1, "iax2-mini": 2, "iax2-meta": 3, "raw": 4}
"""``rtp``: sequence number (flow's own + packets so far), time stamp (flow's own + stamp) and marker
are written; ``iax2-mini``: the low 16 bits of the stamp; ``iax2-meta``: 32 bits of it; ``raw``: nothing."""


NO_PAYLOAD: Final = 0xFFFFFFFF


LOSE: Final = 0xFF
"""In ``Media.impair``."""


OPENING_ROUNDS: Final = 2
"""Of TCP: SYN, then the ACK that follows its answer."""


@dataclass(frozen=True)
class Answering:
    """Which packets the receiver answers: the first ``rounds`` of each flow, and all of ``new_flows``, for
    which the last of the plan's flows stands."""

    new_flows: NewFlows | None
    rounds: int = OPENING_ROUNDS


@dataclass(frozen=True)
class DeparturePlan:
    """A departure schedule: per phase a cyclic pattern of packets.

    Entry ``i`` is a packet of ``frame_bytes[i]`` (FCS included) after which the sender
    waits ``gap_ns[i] + gap_frac[i] / 65536`` ns until the next. ``phases`` holds
    ``(end_ns, first_entry, n_entries)``; times count from the start, warm-up included.
    ``paced`` is False for "as fast as possible", when the gaps mean nothing.
    ``nominal_pps`` is the offered load averaged over the recorded window.
    """

    gap_ns: npt.NDArray[np.uint32]
    gap_frac: npt.NDArray[np.uint16]
    frame_bytes: npt.NDArray[np.uint16]
    flow: npt.NDArray[np.uint32]
    phases: list[tuple[int, int, int]]
    paced: bool
    warmup_ns: int
    duration_ns: int
    bin_ns: int
    flows: FlowAddresses
    l4: Literal["udp", "tcp"]
    ip: Literal[4, 6]
    nominal_pps: float
    windowed: bool = False
    """Whether the host is observed in every bin. Bins can then be left out one by one, and a sender that
    falls behind by more than a fifth of a bin shifts its schedule. Bins of calls cannot be left out, and
    the sender makes up for its delay."""
    media: Media | None = None
    """Set for packets of calls: probe in the last bytes, both directions, a log of every packet."""
    answers: Answering | None = None
    """Set if flows are answered."""


def single_packets(plan: DeparturePlan, flows: npt.NDArray[np.int64]) -> DeparturePlan:
    """A schedule with one packet of each of ``flows``, in that order; the first one of calls.

    Flows of calls that send nothing are left out.
    """
    if plan.media is None:
        entry = np.arange(len(flows)) % len(plan.frame_bytes)
        media = None
    else:
        sending, first = np.unique(plan.flow, return_index=True)
        flows = flows[np.isin(flows, sending)]
        entry = first[np.searchsorted(sending, flows)]
        per_entry = ("kind", "stamp", "marker", "payload")
        media = replace(
            plan.media, **{name: getattr(plan.media, name)[entry] for name in per_entry}, impair=None
        )
    n = len(flows)
    return replace(
        plan,
        gap_ns=np.full(n, _SINGLE_GAP_NS, dtype=np.uint32),
        gap_frac=np.zeros(n, dtype=np.uint16),
        frame_bytes=plan.frame_bytes[entry],
        flow=flows.astype(np.uint32),
        phases=[(n * _SINGLE_GAP_NS, 0, n)],
        paced=True,
        warmup_ns=0,
        duration_ns=n * _SINGLE_GAP_NS,
        bin_ns=n * _SINGLE_GAP_NS,
        windowed=False,
        media=media,
        answers=None,
    )


def bin_width_ns(traffic: Traffic) -> int:
    """Width of a bin of the time series; raises ``InputError`` for an impossible one."""
    if traffic.steps:
        usual = STEP_BIN_NS
    else:
        least = BIN_NS if traffic.calls is None else CALLS_BIN_NS
        usual = max(least, _MS * math.ceil(traffic.duration_s * NS_PER_S / MAX_WINDOWS / _MS))
    width = usual if traffic.bin_ns is None else traffic.bin_ns
    if not (0 < width < 1 << 32 and traffic.duration_s * NS_PER_S / width <= MAX_BINS):
        raise InputError(
            f"a time series of {traffic.duration_s:g} s in bins of {width} ns is not possible: "
            f"bins are from 1 ns to 4.29 s wide, and at most {MAX_BINS}"
        )
    return width
