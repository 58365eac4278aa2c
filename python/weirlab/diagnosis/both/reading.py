"""The captures at both ends of a connection as one timeline of its sender, with what they show together.

The capture at the sender shows when it sent what; the one at the receiver shows what happened to it. So the
direction of queues is known, the reason for each retransmission, and the capacity of the bottleneck from
segments that left together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import tracing
from weirlab.diagnosis.both import crossing
from weirlab.diagnosis.both.crossing import CaptureLeg, Delays
from weirlab.diagnosis.both.fates import fates
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import BlindSpot, PathEvidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.trace.facts import Connection, SideName
    from weirlab.trace.frames import Trace

    Floats = NDArray[np.float64]

_PARTLY: Final = BlindSpot(
    "what was lost between the captures, and what only came late",
    "packets are missing from one of them",
)


@dataclass(frozen=True)
class EndTrace:
    """A connection in a capture at one of its ends, with the series of its trace."""

    trace: Trace
    connection: Connection
    sender: SideName
    shift_ns: int = 0
    """What to add to its times to convert them to the clock of the other capture, or to a common one."""
    whole: bool = True
    """No packets are missing from it."""

    def leg(self) -> CaptureLeg:
        """The columns for comparisons."""
        import polars as pl

        rows = (
            self.trace.scan_segments()
            # On loopback every packet is captured as it leaves, and as it arrives.
            .filter(pl.col("connection") == self.connection["id"], pl.col("meaning") != "copy")
            .select(
                (pl.col("time_ns") + self.shift_ns).alias("time_ns"),
                (pl.col("from_side") == self.sender).alias("ours"),
                *(pl.col(each).cast(pl.Int64) for each in ("seq", "payload_bytes", "new_bytes", "ack")),
            )
            .collect()
        )
        data = rows.filter(pl.col("ours"), pl.col("payload_bytes") > 0)
        acks = rows.filter(~pl.col("ours"), pl.col("ack").is_not_null())
        return CaptureLeg(
            data_ns=data["time_ns"].to_numpy(),
            seq=data["seq"].to_numpy(),
            payload_bytes=data["payload_bytes"].to_numpy(),
            new_bytes=data["new_bytes"].to_numpy(),
            ack_ns=acks["time_ns"].to_numpy(),
            ack=acks["ack"].to_numpy(),
            whole=self.whole,
        )


def read(
    sender: EndTrace,
    receiver: EndTrace,
    legs: tuple[CaptureLeg, CaptureLeg] | None = None,
    *,
    target_bps: float | None = None,
    siblings: int = 0,
) -> Diagnosis | None:
    """Why a connection that was captured at both ends, from its beginning, was not faster.

    ``legs`` are those of the two looks, if they are known already. Returns None if there is too little data.
    """
    seen = tracing.timeline(sender.trace, sender.connection, sender.sender, "sender")
    if seen is None:
        return None
    left, came = legs or (sender.leg(), receiver.leg())
    _, there, back = crossing.cross(left, came)
    between = found(left, came, there, back)
    facts = replace(seen.facts, between=between, siblings=siblings)
    if between.fates is not None:
        needless = between.fates.late + between.fates.needless
        facts = replace(facts, retransmitted=between.fates.again, spurious=needless)
    # The receiver's times are converted to the sender's clock, which is that of the timeline.
    begun_ns = seen.timeline.begun_ns + sender.shift_ns
    at_s = seen.timeline.start_s
    timeline = replace(
        seen.timeline,
        source="both",
        queue_s=waits(at_s, np.asarray((there.time_ns - there.delay_ns - begun_ns) / 1e9), there),
        back_s=waits(at_s, np.asarray((back.time_ns - begun_ns) / 1e9), back),
    )
    diagnosis = diagnose(timeline, facts, target_bps=target_bps)
    if diagnosis is None:
        return None
    partly = () if between.fates is not None else (_PARTLY,)
    return replace(diagnosis, blind=(*diagnosis.blind, *seen.blind, *partly))


def found(sender: CaptureLeg, receiver: CaptureLeg, there: Delays, back: Delays) -> PathEvidence:
    """What two captures show together; the delays are those between them."""
    data, acks = there.summed(), back.summed()
    known = sender.whole and receiver.whole and data is not None and acks is not None
    capacity, number = crossing.capacity(sender, receiver)
    return PathEvidence(
        fates=fates(sender, receiver, data.least, acks.least) if known and data and acks else None,
        there_s=None if data is None else data.waited / 1e9,
        answer_s=_answer_s(receiver),
        back_s=None if acks is None else acks.waited / 1e9,
        capacity_bps=None if capacity is None else capacity * 8,
        pairs=number,
    )


def waits(at_s: Floats, known_s: Floats, delays: Delays) -> Floats:
    """How long packets wait at each time, s: the last known wait, less the time since."""
    if len(known_s) == 0:
        return np.full(len(at_s), np.nan)
    waited = (delays.delay_ns - delays.delay_ns.min()) / 1e9
    last = np.searchsorted(known_s, at_s, side="right") - 1
    before = np.maximum(last, 0)
    return np.where(last >= 0, np.maximum(waited[before] - (at_s - known_s[before]), 0.0), 0.0)


def _answer_s(leg: CaptureLeg) -> float | None:
    """How long the receiver's host held ACKs of new data back after the data was complete, on average."""
    if len(leg.ack) == 0 or len(leg.seq) == 0:
        return None
    new = np.flatnonzero(np.diff(np.maximum.accumulate(leg.ack), prepend=-1) > 0)
    since = np.searchsorted(leg.complete(), leg.ack[new])
    known = since < len(leg.data_ns)
    waited = leg.ack_ns[new][known] - leg.data_ns[since[known]]
    # Packets that a capture has in another order do not count.
    waited = waited[waited >= 0]
    return float(waited.mean()) / 1e9 if len(waited) else None
