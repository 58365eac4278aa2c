"""Packet logs made by hand: which packets of which flow arrive when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weirlab.records import FlowTable, PacketLog
from weirlab.traffic.plan import CallFlows

PACKET_NS = 20_000_000
START_NS = 10**12


def sent_at(flow: int, seq: int) -> int:
    """Departure of a packet; flows start 1 us after each other."""
    return START_NS + 1_000 * flow + PACKET_NS * seq


def make_flows(sent: Sequence[int]) -> FlowTable:
    """A flow table of which only ``sent`` matters."""
    zero, nan = np.zeros(len(sent), dtype=np.uint64), np.full(len(sent), np.nan)
    return FlowTable(np.array(sent, dtype=np.uint64), zero, zero, zero, zero, nan, nan, nan, nan, nan)


def make_log(
    arrivals: Sequence[tuple[int, int, int]],
    flows: int,
    *,
    first_seq: Sequence[int] | None = None,
    call: Sequence[int] | None = None,
    carried: Sequence[int] | None = None,
    back: Sequence[bool] | None = None,
    media: Sequence[bool] | None = None,
    call_class: Sequence[int] | None = None,
    missed: int = 0,
) -> PacketLog:
    """A log of ``(flow, seq, delay_ns)``, put in order of arrival (ties as given)."""
    rows = sorted(
        ((sent_at(flow, seq) + delay, flow, seq) for flow, seq, delay in arrivals), key=lambda row: row[0]
    )
    of = CallFlows(
        back=np.array(back if back is not None else [False] * flows),
        carries_media=np.array(media if media is not None else [True] * flows),
        call=np.array(call if call is not None else range(flows), dtype=np.uint32),
        calls_carried=np.array(carried if carried is not None else [1] * flows, dtype=np.uint32),
        call_class=np.array(call_class if call_class is not None else [0] * flows, dtype=np.int64),
        packet_ns=np.full(flows, PACKET_NS, dtype=np.int64),
    )
    return PacketLog(
        flow=np.array([row[1] for row in rows], dtype=np.uint32),
        seq=np.array([row[2] for row in rows], dtype=np.uint32),
        sent_ns=np.array([sent_at(row[1], row[2]) for row in rows], dtype=np.uint64),
        arrival_ns=np.array([row[0] for row in rows], dtype=np.uint64),
        first_seq=np.array(first_seq if first_seq is not None else [0] * flows, dtype=np.uint64),
        call_flows=of,
        missed=missed,
    )
