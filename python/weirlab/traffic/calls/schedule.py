"""From calls to the exact departure of every packet: ``f(calls, duration)``.

A call has ``1e9 / packet_ns`` packets/s per direction, so that evenly phased calls leave
``1e9 / (calls * pps)`` ns apart and ``calls * pps * duration_s`` packets are sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls import media
from weirlab.traffic.calls.codecs import silence
from weirlab.traffic.calls.outline import MAX_GAP_NS, Outline, outline
from weirlab.traffic.calls.signalling import PROBE_BYTES, iax2
from weirlab.traffic.calls.spec import CallClass, Calls
from weirlab.traffic.calls.transport import frame_bytes, framed_bytes
from weirlab.traffic.flows import FlowAddresses
from weirlab.traffic.plan import MAX_WINDOWS, PACKET_KINDS, DeparturePlan, Media, bin_width_ns
from weirlab.traffic.sizes import Constant, SizeMix, WeightedSizes
from weirlab.traffic.spec import FlowEndpoints, Flows, Rate, Traffic

I64 = npt.NDArray[np.int64]

_KINDS: Final = {
    "rtp": PACKET_KINDS["rtp"],
    "iax2": PACKET_KINDS["iax2-mini"],
    "iax2-trunk": PACKET_KINDS["iax2-meta"],
}
_HEADER_ROOM: Final = 12


@dataclass(frozen=True)
class Schedule:
    """Every packet of a trial, in order of departure; shapes (packets,) unless said otherwise.

    ``due_ns`` counts from the first packet; what departs from ``warmup_ns`` on is recorded.
    """

    due_ns: I64
    flow: npt.NDArray[np.uint32]
    frame_bytes: npt.NDArray[np.uint16]
    """With FCS."""
    media: Media
    addresses: FlowAddresses
    warmup_ns: int
    duration_ns: int
    ip: Literal[4, 6]

    def __len__(self) -> int:
        return len(self.due_ns)

    @property
    def recorded(self) -> int:
        """Packets that depart after the warm-up."""
        return len(self) - int(np.searchsorted(self.due_ns, self.warmup_ns))


def schedule(
    calls: Calls, duration_s: float, warmup_s: float = 0.0, endpoints: FlowEndpoints | None = None
) -> Schedule:
    """Every packet of ``calls`` in a trial of ``duration_s`` after a warm-up of ``warmup_s``.

    A function of its arguments alone. Standing calls are already up in the warm-up.

    Raises
    ------
    InputError
        The calls cannot be sent: too many packets or flows, or packets too small for the probe;
        the message says what to change.
    """
    warmup_ns, duration_ns = _window(duration_s, warmup_s)
    plan = outline(calls, warmup_ns, duration_ns, endpoints)
    runs, ways = plan.runs, plan.flows.ways
    unit = runs.stream // ways
    call_class = plan.units.call_class[unit]

    packets = media.packets_of(runs)
    run = packets.run
    count = len(run)
    bodies, body_of = _speech(calls, plan)
    kinds = np.array([_KINDS[kind.transport] for kind in calls.classes], dtype=np.uint8)
    rtp = np.array([kind.transport == "rtp" for kind in calls.classes])
    sizes = np.array([frame_bytes(calls.classes[c].stream, calls.classes[c].transport, n) for c, n in bodies])

    first = np.cumsum(runs.packets) - runs.packets
    n = count + len(plan.mail.due_ns)
    due_ns = np.concatenate([packets.due_ns, np.array(plan.mail.due_ns, dtype=np.int64)])
    order = np.argsort(due_ns, kind="stable")
    # Each column is made and sorted before the next, because there can be millions of rows.
    due_ns = due_ns[order]
    flow = np.empty(n, dtype=np.uint32)
    flow[:count] = runs.stream.astype(np.uint32)[run]
    flow[count:] = plan.mail.flow
    kind_column = np.full(n, PACKET_KINDS["raw"], dtype=np.uint8)
    kind_column[:count] = kinds[call_class][run]
    stamp = np.zeros(n, dtype=np.uint32)
    step, since = plan.step, plan.stamp - runs.slot * plan.step
    stamp[:count] = (packets.slot * step[run] + since[run]) & 0xFFFFFFFF
    del packets
    marker = np.zeros(n, dtype=np.bool_)
    marker[first[media.begins_spurt(runs) & rtp[call_class]]] = True
    payload = np.empty(n, dtype=np.uint32)
    payload[:count] = body_of[run]
    size = np.empty(n, dtype=np.uint16)
    size[:count] = sizes.astype(np.uint16)[body_of][run]

    ip = calls.classes[0].stream.ip
    full = first[plan.full_run] + plan.full_index
    kind_column[full] = PACKET_KINDS["raw"]
    raw = [*plan.full_payload, *plan.mail.payload]
    rows = np.concatenate([full, np.arange(count, n)])
    payload[rows] = len(bodies) + np.arange(len(raw))
    size[rows] = [framed_bytes(len(body), ip) for body in raw]
    every = [_body(calls.classes[c], n) for c, n in bodies] + raw
    header, header_bytes = _headers(calls, plan)
    return Schedule(
        due_ns=due_ns,
        flow=flow[order],
        frame_bytes=size[order],
        media=Media(
            kind=kind_column[order],
            stamp=stamp[order],
            marker=marker[order],
            payload=payload[order],
            header=header,
            header_bytes=header_bytes,
            flows=plan.flows.calls,
            payload_bytes=np.frombuffer(b"".join(every), dtype=np.uint8),
            payload_start=np.concatenate([[0], np.cumsum([len(body) for body in every])]).astype(np.uint32),
        ),
        addresses=plan.flows.addresses,
        warmup_ns=warmup_ns,
        duration_ns=duration_ns,
        ip=ip,
    )


@lru_cache(maxsize=64)
def traffic_of(calls: Calls, duration_s: float, warmup_s: float = 0.5) -> Traffic:
    """``calls`` as the traffic of a trial.

    Rate, frame sizes and flows are those that :func:`schedule` sends in the recorded time, counted without
    writing out the packets.
    """
    warmup_ns, duration_ns = _window(duration_s, warmup_s)
    plan = outline(calls, warmup_ns, duration_ns, mail_from_ns=warmup_ns)
    recorded = media.within(plan.runs, warmup_ns, warmup_ns + duration_ns)
    unit = recorded.stream // plan.flows.ways
    counts: dict[int, int] = {}

    def add(size: int, packets: int) -> None:
        counts[size] = counts.get(size, 0) + packets

    kinds = np.stack([plan.units.call_class[unit], plan.units.carried[unit]])
    pairs, which = np.unique(kinds, axis=1, return_inverse=True)
    packets = np.bincount(which.reshape(-1), weights=recorded.packets, minlength=pairs.shape[1])
    mini_size = {}
    for (of, carried), number in zip(pairs.T.tolist(), packets.tolist(), strict=True):
        kind = calls.classes[of]
        mini_size[of] = frame_bytes(kind.stream, kind.transport, carried)
        add(mini_size[of], round(number))
    ip = calls.classes[0].stream.ip
    due_ns = plan.runs.start_ns[plan.full_run] + plan.full_index * plan.runs.packet_ns[plan.full_run]
    full_class = plan.units.call_class[plan.runs.stream[plan.full_run] // plan.flows.ways]
    for of, late, body in zip(
        full_class.tolist(), (due_ns >= warmup_ns).tolist(), plan.full_payload, strict=True
    ):
        if late:
            add(framed_bytes(len(body), ip), 1)
            add(mini_size[of], -1)
    for body in plan.mail.payload:
        add(framed_bytes(len(body), ip), 1)
    total = sum(counts.values())
    if total < 1:
        raise InputError(f"nobody speaks in the recorded {duration_s:g} s; make more calls or a longer trial")
    return Traffic(
        rate=Rate(total * NS_PER_S / duration_ns),
        sizes=_mix(counts),
        flows=Flows(count=len(plan.flows.addresses), ip=ip),
        warmup_s=warmup_s,
        duration_s=duration_s,
        seed=calls.seed,
        calls=calls,
    )


def _mix(counts: dict[int, int]) -> SizeMix:
    parts = tuple((size, float(n)) for size, n in sorted(counts.items()) if n)
    return Constant(parts[0][0]) if len(parts) == 1 else WeightedSizes(parts, name="calls")


def _window(duration_s: float, warmup_s: float) -> tuple[int, int]:
    if not (math.isfinite(duration_s) and duration_s > 0):
        raise InputError(f"duration of {duration_s:g} s: the recorded time must be above 0 s")
    if not (math.isfinite(warmup_s) and warmup_s >= 0):
        raise InputError(f"warm-up of {warmup_s:g} s: it must be 0 s or longer")
    return round(warmup_s * NS_PER_S), round(duration_s * NS_PER_S)


def _speech(calls: Calls, plan: Outline) -> tuple[list[tuple[int, int]], I64]:
    """Class and calls carried of each kind of speech packet, and which of them each run has."""
    unit = plan.runs.stream // plan.flows.ways
    kinds = np.stack([plan.units.call_class[unit], plan.units.carried[unit]])
    pairs, which = np.unique(kinds, axis=1, return_inverse=True)
    return [(int(of), int(carried)) for of, carried in pairs.T], which.reshape(-1).astype(np.int64)


def _body(kind: CallClass, carried: int) -> bytes:
    """The bytes behind the header of a speech packet; the last 18 B are for the probe."""
    if kind.transport == "iax2-trunk":
        filler = bytes.fromhex(kind.stream.codec.filler)
        return iax2.trunk_entries(range(1, carried + 1), kind.stream.payload_bytes, filler)
    return silence(kind.stream)[:-PROBE_BYTES] + bytes(PROBE_BYTES)


def _headers(calls: Calls, plan: Outline) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Application header of every flow: RTP (RFC 3550, 5.1), IAX2 mini or meta (RFC 5456, 8.1)."""
    flows = len(plan.flows.addresses)
    header = np.zeros((flows, _HEADER_ROOM), dtype=np.uint8)
    length = np.zeros(flows, dtype=np.uint8)
    ways, streams = plan.flows.ways, len(plan.ssrc)
    unit = np.arange(streams) // ways
    call_class = plan.units.call_class[unit]
    for of, kind in enumerate(calls.classes):
        mine = np.flatnonzero(call_class == of)
        match kind.transport:
            case "rtp":
                header[mine, 0] = 2 << 6
                header[mine, 1] = kind.stream.codec.payload_type
                # The sequence number starts anywhere too (RFC 3550, 5.1): take it from the SSRC.
                header[mine, 2:4] = _big_endian(plan.ssrc[mine] >> 16, 2)
                header[mine, 4:8] = _big_endian(plan.first_stamp[mine], 4)
                header[mine, 8:12] = _big_endian(plan.ssrc[mine], 4)
                length[mine] = 12
            case "iax2":
                number = 1 + plan.units.call[unit[mine]] % iax2.MAX_CALL_NUMBER
                header[mine, 0:2] = _big_endian(number, 2)
                length[mine] = iax2.MINI_BYTES
            case "iax2-trunk":
                header[mine, : iax2.META_BYTES] = np.frombuffer(iax2.meta_header(), dtype=np.uint8)
                length[mine] = iax2.META_BYTES
    return header, length


def _big_endian(values: npt.NDArray[np.integer], octets: int) -> npt.NDArray[np.uint8]:
    return values.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 4 - octets :]


def compile_calls(traffic: Traffic, endpoints: FlowEndpoints | None = None) -> DeparturePlan:
    """The calls of ``traffic``, with every packet as an entry that is played once; between ``endpoints``
    if given, with the sender's side as the source.

    Departures are whole ns, each rounded separately, so that rounding errors do not add up.

    Raises
    ------
    InputError
        The calls cannot be sent (see :func:`weirlab.traffic.calls.schedule.schedule`), there are load
        steps, or a pause between packets is longer than the engine can wait.
    """
    if traffic.calls is None:
        raise InputError("there are no calls in this traffic")
    if traffic.steps:
        raise InputError("load steps with calls are not possible; run a trial per number of calls")
    bin_ns = bin_width_ns(traffic)
    calls = schedule(traffic.calls, traffic.duration_s, traffic.warmup_s, endpoints)
    total_ns = calls.warmup_ns + calls.duration_ns
    gap_ns = np.diff(calls.due_ns, append=total_ns)
    longest_ns = int(gap_ns.max())
    if longest_ns > MAX_GAP_NS:
        raise InputError(
            f"nobody speaks for {longest_ns / NS_PER_S:.3g} s; up to {MAX_GAP_NS / NS_PER_S:.2f} s is "
            "possible; make more calls, or let them talk all the time"
        )
    return DeparturePlan(
        gap_ns=gap_ns.astype(np.uint32),
        gap_frac=np.zeros(len(gap_ns), dtype=np.uint16),
        frame_bytes=calls.frame_bytes,
        flow=calls.flow,
        phases=[(total_ns, 0, len(gap_ns))],
        paced=True,
        warmup_ns=calls.warmup_ns,
        duration_ns=calls.duration_ns,
        bin_ns=bin_ns,
        windowed=calls.duration_ns <= MAX_WINDOWS * bin_ns,
        flows=calls.addresses,
        l4="udp",
        ip=calls.ip,
        nominal_pps=calls.recorded * NS_PER_S / calls.duration_ns,
        media=calls.media,
    )
