"""Transfers made up: samples of a kernel, and packets between a sender and a receiver."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from weirlab.diagnosis.capture import ConnectionPackets, RttSeries
from weirlab.diagnosis.timeline import TransferFacts

MSS = 1_000
RTT_S = 0.05
MS = 1_000_000
NAN = float("nan")

Floats = NDArray[np.float64]


def samples(
    seconds: float = 2.0, period_s: float = 0.005, **columns: object
) -> tuple[Floats, dict[str, Floats]]:
    """A kernel that sends 100 segments per round trip, held by its congestion window, and loses nothing.

    ``columns`` replace fields: a number, or an array.
    """
    count = round(seconds / period_s) + 1
    at = np.arange(count) * period_s
    sent = at / RTT_S * 100 * MSS + 100 * MSS
    plain: dict[str, object] = {
        "ca_state": 0, "options": 7, "snd_mss_bytes": MSS, "advmss_bytes": 1460, "unacked": 100, "sacked": 0,
        "lost": 0, "retrans": 0, "rtt_us": RTT_S * 1e6, "rttvar_us": 500, "min_rtt_us": RTT_S * 1e6,
        "snd_cwnd": 100, "snd_ssthresh": 50, "snd_wnd_bytes": 1_000 * MSS, "notsent_bytes": 200 * MSS,
        "bytes_sent": sent, "bytes_acked": sent - 100 * MSS + 1, "bytes_retrans": 0, "total_retrans": 0,
        "dsack_dups": 0, "reord_seen": 0, "data_segs_out": sent / MSS, "pacing_rate_bytes_per_s": 1e9,
        "max_pacing_rate_bytes_per_s": 2.0**64, "busy_time_us": at * 1e6, "rwnd_limited_us": 0,
        "sndbuf_limited_us": 0, "wqueue_bytes": 300 * MSS, "skmem_wmem_queued_bytes": 400 * MSS,
        "skmem_sndbuf_bytes": 1_000 * MSS,
    }  # fmt: skip
    given = {**plain, **columns}
    fields = {name: np.broadcast_to(np.asarray(value, float), count).copy() for name, value in given.items()}
    return at * 1e9, fields


@dataclass
class Sender:
    """Sends what the application wrote as far as both windows allow; all in bytes and seconds.

    ``writes``: when the application writes how much. ``buffer_bytes`` bounds what it has written ahead; with
    ``wakes_s`` it sleeps until a third of that is free, and so much longer, in turn. With ``pieces`` it
    writes these in turn, each as a whole as soon as anything is free.
    """

    writes: list[tuple[float, int]]
    window_bytes: int = 1_000 * MSS
    cwnd_bytes: int = 1_000 * MSS
    buffer_bytes: int = 10_000 * MSS
    wakes_s: tuple[float, ...] = ()
    pieces: tuple[int, ...] = ()
    pace_bytes_per_s: float = 0.0
    """Two segments at a time; 0: none."""
    rate_bytes_per_s: float = 1e9
    slow_start: bool = False
    rtt_s: float = RTT_S
    facts: TransferFacts = field(
        default_factory=lambda: TransferFacts(
            MSS, RTT_S, 0, 0, 0, 0, 0, window_scaling=True, sack=True, timestamps=True
        )
    )

    def packets(self) -> tuple[ConnectionPackets, RttSeries, TransferFacts]:
        """What a capture at the sender has, its round trips and facts."""
        events = [(at, 0, order, size) for order, (at, size) in enumerate(self.writes)]
        heapq.heapify(events)
        cwnd = 10 * MSS if self.slow_start else self.cwnd_bytes
        unwritten = written = sent = acked = 0
        free_s = paced_s = 0.0
        woken = pieces = 0
        sleeps = False
        rows: list[tuple[float, bool, int, int, int]] = []
        trips: list[tuple[float, float]] = []
        while events:
            now, kind, order, size = heapq.heappop(events)
            if kind == 0:
                unwritten += size
            elif kind == 2:
                sleeps = False
            else:
                rows.append((now, False, 1, 0, 1 + size))
                trips.append((now, now - order / 1e9))
                cwnd = min(cwnd + size - acked, self.cwnd_bytes)
                acked = max(acked, size)
            if self.wakes_s and kind == 1:
                if not sleeps and unwritten and written - acked <= self.buffer_bytes * 2 / 3:
                    late_s, sleeps, woken = self.wakes_s[woken % len(self.wakes_s)], True, woken + 1
                    heapq.heappush(events, (now + late_s, 2, 0, 0))
            else:
                while (free := self.buffer_bytes - (written - acked)) > 0 and unwritten > 0:
                    piece = self.pieces[pieces % len(self.pieces)] if self.pieces else free
                    pieces += 1
                    more = min(unwritten, piece)
                    unwritten, written = unwritten - more, written + more
            room = min(cwnd, self.window_bytes) - (sent - acked)
            burst = 0
            while (
                sent < written
                and room >= min(MSS, written - sent)
                and (not self.pace_bytes_per_s or paced_s <= now)
            ):
                part = min(MSS, written - sent)
                rows.append((now, True, 1 + sent, part, 1))
                sent, room, burst = sent + part, room - part, burst + part
                if self.pace_bytes_per_s and burst >= 2 * MSS:
                    paced_s = now + burst / self.pace_bytes_per_s
                    heapq.heappush(events, (paced_s, 2, 0, 0))
                free_s = max(free_s, now) + part / self.rate_bytes_per_s
                heapq.heappush(events, (free_s + self.rtt_s, 1, round(now * 1e9), sent))
        facts = replace(self.facts, data_bytes=sent, segments=sent // MSS)
        return self._captured(rows), self._trips(trips), facts

    def _captured(self, rows: list[tuple[float, bool, int, int, int]]) -> ConnectionPackets:
        # Each a little later than the one before, as on a host.
        columns = list(zip(*rows, strict=True))
        times = np.array([round(at * 1e9) + number for number, at in enumerate(columns[0])], dtype=np.int64)
        ours = np.array(columns[1])
        count = len(rows)
        return ConnectionPackets(
            time_ns=times,
            from_sender=ours,
            seq=np.array(columns[2], dtype=np.int64),
            payload_bytes=np.array(columns[3], dtype=np.int64),
            ack=np.array(columns[4], dtype=np.int64),
            window_bytes=np.where(ours, 60_000, self.window_bytes).astype(np.int64),
            flags=np.full(count, 16, dtype=np.int64),
            again=np.zeros(count, dtype=bool),
            probe=np.zeros(count, dtype=bool),
            timeout=np.zeros(count, dtype=bool),
            # The clock of the sender is soon beyond 32 bits.
            tsval=np.where(ours, (times // MS + 2**32 - 100) % 2**32, NAN),
        )

    def _trips(self, trips: list[tuple[float, float]]) -> RttSeries:
        times = np.array([round(at * 1e9) for at, _ in trips], dtype=np.int64)
        return RttSeries(times, np.array([round(rtt * 1e9) for _, rtt in trips], dtype=np.int64))


NOWHERE = RttSeries(np.empty(0, np.int64), np.empty(0, np.int64))


def at_the_receiver(packets: ConnectionPackets, sender: Sender) -> tuple[ConnectionPackets, RttSeries]:
    """The same packets as a capture at the receiver has them, and how far behind the sender it is.

    Data comes half a round trip after the bottleneck has transmitted it, ACKs left half a round trip before
    the sender had them.
    """
    half = round(sender.rtt_s / 2 * 1e9)
    times = packets.time_ns - half
    free = 0
    for row in np.flatnonzero(packets.from_sender):
        free = max(free, int(packets.time_ns[row]))
        free += round(int(packets.payload_bytes[row]) / sender.rate_bytes_per_s * 1e9)
        times[row] = free + half
    order = np.argsort(times, kind="stable")
    moved = {name: column[order] for name, column in vars(packets).items() if column is not None}
    moved["time_ns"] = times[order]
    acks, data = np.sort(times[~packets.from_sender]), np.sort(times[packets.from_sender])
    # Each ACK's round trip ends with the first data that left after the sender had it.
    left = np.sort(packets.time_ns[packets.from_sender])
    first = np.searchsorted(left, acks + half)
    there = first < len(left)
    back = data[first[there]]
    return ConnectionPackets(**moved), RttSeries(back, back - acks[there]).without_pauses(data, 2 * half)
