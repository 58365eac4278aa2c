"""From the user's terms to the departure schedule that the engine plays."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.errors import InputError
from weirlab.traffic import sizes
from weirlab.traffic.flows import FlowAddresses, describe_headers, min_frame_bytes, table
from weirlab.traffic.load import describe_rate, rate_pps
from weirlab.traffic.places import Places, flow_groups, turns
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Arrivals, Endpoints, Rate, Traffic, stretches
from weirlab.units import NS_PER_S

NEXT_FLOW: Final = 0xFFFFFFFF
"""In ``Plan.flow``: take the next flow in turn."""

PATTERN_ENTRIES: Final = 16384
BIN_NS: Final = 2_000_000
CALLS_BIN_NS: Final = 10_000_000
STEP_BIN_NS: Final = 1_000_000
"""In trials with steps: a spike behind a step lasts a few milliseconds."""

MAX_BINS: Final = 1 << 20

MAX_WINDOWS: Final = 1000
"""Bins of a trial whose bins can be left out one by one: each has a histogram of its own, of 28 kB."""

_MS: Final = 1_000_000
_FRAC: Final = 1 << 16
_MAX_UNITS: Final = (1 << 32) * _FRAC


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
    """What the packets of a :class:`Plan` carry, where they are packets of calls.

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
        :data:`NO_PAYLOAD` for zeros. Packets of kind ``raw`` have it right behind UDP, also in a flow
        with a header: so a stream of IAX2 mini frames has full frames in between.

    Per flow, shapes (flows,) and (flows, 12):

    ``header``, ``header_bytes``
        Application header behind UDP (RTP, IAX2 mini or meta header), sequence number and time
        stamp being what the engine adds to. 0 bytes for flows of raw packets.

    Payload ``i`` is ``payload_bytes[payload_start[i]:payload_start[i + 1]]``. The probe lies in the
    last 18 bytes of every packet, where payloads have zeros.

    ``impair`` puts faults of one's own into the schedule, one value per entry, to see whether all of
    them are found again: 0 is none, :data:`LOSE` a packet that is numbered and counted as sent but does
    not depart, and ``k`` from 1 to 254 a packet that is no new one: the one numbered ``k`` before the
    flow's next departs again (a duplicate, or, if it was lost, a packet out of order).
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


@dataclass(frozen=True)
class Plan:
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
    """Whether the host is looked at in every bin. Bins can then be left out one by one, and a sender that
    falls behind by more than a fifth of one moves its schedule. Those of calls cannot, and the sender makes
    up for it."""
    media: Media | None = None
    """Set for packets of calls: probe in the last bytes, both directions, a log of every packet."""


def compile_plan(traffic: Traffic, places: Places = (), endpoints: Endpoints | None = None) -> Plan:
    """Turn ``traffic`` into a :class:`Plan`; raises ``InputError`` for what cannot be sent.

    The pattern is a function of ``traffic`` (its seed included), ``places`` and ``endpoints`` alone.
    ``places`` says which share of the packets is to match where, if not all at one position;
    ``endpoints`` are those of the flows, if not the usual ones.
    """
    if traffic.calls is not None:
        return _compile_calls(traffic, places, endpoints)
    warmup_ns, duration_ns = _window(traffic)
    sizes.validate(traffic.sizes, min_frame_bytes(traffic.flows), describe_headers(traffic.flows))
    loads = _loads(traffic, warmup_ns, duration_ns)
    paced = not any(rate.unit == "max" for rate, *_ in loads)
    if not paced and len({rate for rate, *_ in loads}) > 1:
        raise InputError(
            "a load step from or to 'max' cannot be paced; give both loads as pps, bit/s or percent"
        )
    groups = flow_groups(places, traffic.flows.count) if len(places) > 1 else None

    rng = np.random.default_rng(traffic.seed)
    gaps: list[npt.NDArray[np.int64]] = []
    frames: list[npt.NDArray[np.uint16]] = []
    flow: list[npt.NDArray[np.uint32]] = []
    phases: list[tuple[int, int, int]] = []
    recorded_packets, first = 0.0, 0
    for rate, position, start_ns, end_ns in loads:
        pps = rate_pps(rate, traffic.sizes)
        one = isinstance(traffic.sizes, Constant) and (traffic.arrivals == "constant" or not paced)
        share = _shares(places, position)
        if groups is not None:
            flow.append(turns(share, groups, PATTERN_ENTRIES, rng))
        else:
            flow.append(np.full(1 if one else PATTERN_ENTRIES, NEXT_FLOW, dtype=np.uint32))
        n = len(flow[-1])
        frames.append(sizes.draw(traffic.sizes, n, rng))
        gaps.append(_gap_units(rate, pps, n, traffic.arrivals, rng))
        phases.append((end_ns, first, n))
        recorded_packets += pps * max(end_ns - max(start_ns, warmup_ns), 0) / NS_PER_S
        first += n
    if recorded_packets < 1:
        raise InputError(
            f"at {describe_rate(traffic.rate)} no packet would be sent in {traffic.duration_s:g} s; "
            "raise the rate or the duration"
        )
    units = np.concatenate(gaps)
    return Plan(
        gap_ns=(units // _FRAC).astype(np.uint32),
        gap_frac=(units % _FRAC).astype(np.uint16),
        frame_bytes=np.concatenate(frames),
        flow=np.concatenate(flow),
        phases=phases,
        paced=paced,
        warmup_ns=warmup_ns,
        duration_ns=duration_ns,
        bin_ns=(bin_ns := bin_width_ns(traffic)),
        windowed=not traffic.steps and duration_ns <= MAX_WINDOWS * bin_ns,
        flows=table(traffic.flows, places, endpoints),
        l4=traffic.flows.l4,
        ip=traffic.flows.ip,
        nominal_pps=recorded_packets * NS_PER_S / duration_ns,
    )


def _compile_calls(traffic: Traffic, places: Places, endpoints: Endpoints | None) -> Plan:
    # That module needs this one.
    from weirlab.traffic.calls.plan import compile_calls

    if len(places) > 1:
        raise InputError("calls through rules at several positions are not possible; name one position")
    return compile_calls(traffic, endpoints)


def bin_width_ns(traffic: Traffic) -> int:
    """Width of a bin of the time series; raises ``InputError`` for one that cannot be."""
    if traffic.calls is not None:
        usual = CALLS_BIN_NS
    elif traffic.steps:
        usual = STEP_BIN_NS
    else:
        usual = max(BIN_NS, _MS * math.ceil(traffic.duration_s * NS_PER_S / MAX_WINDOWS / _MS))
    width = usual if traffic.bin_ns is None else traffic.bin_ns
    if not (0 < width < 1 << 32 and traffic.duration_s * NS_PER_S / width <= MAX_BINS):
        raise InputError(
            f"a time series of {traffic.duration_s:g} s in bins of {width} ns is not possible: "
            f"bins are from 1 ns to 4.29 s wide, and at most {MAX_BINS}"
        )
    return width


def _shares(places: Places, position: int | None) -> list[float]:
    """Share of the packets per place; all of them at ``position`` if a step says so."""
    if position is None:
        return [share for _, share in places]
    positions = [place for place, _ in places]
    if position not in positions:
        known = (
            f"only at {', '.join(map(str, positions))}" if positions else "there is only one matching rule"
        )
        raise InputError(
            f"step to matching position {position}: no rule accepts there ({known}); "
            "name it among the places of the rules, with share 0 if only the step uses it"
        )
    return [float(place == position) for place in positions]


def _window(traffic: Traffic) -> tuple[int, int]:
    if not (math.isfinite(traffic.duration_s) and traffic.duration_s > 0):
        raise InputError(f"duration of {traffic.duration_s:g} s: the recorded time must be above 0 s")
    if not (math.isfinite(traffic.warmup_s) and traffic.warmup_s >= 0):
        raise InputError(f"warm-up of {traffic.warmup_s:g} s: it must be 0 s or longer")
    return round(traffic.warmup_s * NS_PER_S), round(traffic.duration_s * NS_PER_S)


def _loads(traffic: Traffic, warmup_ns: int, duration_ns: int) -> list[tuple[Rate, int | None, int, int]]:
    """Rate, position after a step, start and end in ns of every phase; the warm-up belongs to the first."""
    times_s = [step.at_s for step in traffic.steps]
    for step in traffic.steps:
        if not 0 <= step.at_s < traffic.duration_s:
            raise InputError(
                f"load step at {step.at_s:g} s lies outside the recorded time (0 to {traffic.duration_s:g} s)"
            )
        if step.rate is None and step.position is None:
            raise InputError(f"the step at {step.at_s:g} s changes neither load nor matching position")
    if any(b <= a for a, b in itertools.pairwise(times_s)):
        raise InputError(
            f"load steps must follow each other in time, found {', '.join(f'{t:g} s' for t in times_s)}"
        )
    starts = [0, *(warmup_ns + round(at_s * NS_PER_S) for at_s in times_s)]
    ends = [*starts[1:], warmup_ns + duration_ns]
    return [
        (rate, position, start, end)
        for (rate, position), start, end in zip(stretches(traffic), starts, ends, strict=True)
        if end > start
    ]


def _gap_units(
    rate: Rate, pps: float, n: int, arrivals: Arrivals, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """``n`` gaps in units of 2^-16 ns whose mean is that of ``pps`` to within half a unit in the sum."""
    if math.isinf(pps):
        return np.zeros(n, dtype=np.int64)
    mean = NS_PER_S / pps * _FRAC
    if mean < 1:
        raise InputError(
            f"rate '{describe_rate(rate)}' is beyond any clock; use 'max' for as fast as possible"
        )
    if arrivals == "poisson":
        share = rng.exponential(size=n)
        share /= share.mean()
    else:
        share = np.ones(n)
    if mean * float(share.max()) >= _MAX_UNITS:
        longest_s = mean * float(share.max()) / _FRAC / NS_PER_S
        raise InputError(
            f"rate '{describe_rate(rate)}' is too slow: it needs a gap of {longest_s:.3g} s between packets; "
            f"up to {(1 << 32) / NS_PER_S:.2f} s is possible"
        )
    departures: npt.NDArray[np.int64] = np.zeros(n + 1, dtype=np.int64)
    departures[1:] = np.rint(np.cumsum(share * mean))
    return departures[1:] - departures[:-1]
