"""Samples of the sender's kernel (``TCP_INFO`` and ``INET_DIAG``) as a timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.finding import COUNTERS, time_shares
from weirlab.diagnosis.timeline import (
    DELAYED_S,
    Timeline,
    Timeouts,
    TransferFacts,
    lasting,
    recent_most,
)

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

NEEDED: Final = (
    "ca_state", "options", "snd_mss_bytes", "advmss_bytes", "unacked", "sacked", "lost", "retrans", "rtt_us",
    "rttvar_us",
    "min_rtt_us", "snd_cwnd", "snd_ssthresh", "snd_wnd_bytes", "notsent_bytes", "bytes_acked", "bytes_sent",
    "bytes_retrans", "total_retrans", "dsack_dups", "reord_seen", "data_segs_out", "pacing_rate_bytes_per_s",
    "max_pacing_rate_bytes_per_s", "busy_time_us", "rwnd_limited_us", "sndbuf_limited_us",
)  # fmt: skip
"""Fields of ``weir tcp watch`` without which there is no diagnosis."""
USEFUL: Final = (
    "bytes_received", "delivered", "delivered_ce", "wqueue_bytes", "rqueue_bytes", "skmem_wmem_queued_bytes",
    "skmem_sndbuf_bytes",
    "bbr_bandwidth_bytes_per_s", "bbr_pacing_gain_256ths",
)  # fmt: skip
"""Fields that make it better."""

_OPTION_TIMESTAMPS, _OPTION_SACK, _OPTION_SCALING = 1, 2, 4
WAKES_BELOW, WRITES_ABOVE = 0.6, 0.8
"""Fill of the send buffer. A blocked application sleeps until a third is free (``sk_stream_is_writeable``):
below the first value it is not blocked, and one that writes above the second was not blocked. Both differ
from two thirds because the samples are not taken at the same moment.
"""
FULL_TRIPS: Final = 10
"""Round trips in which at least one sample must show a full send buffer. After the application has filled it,
ACKs may free less than a third: then it sleeps until the next round trip, although there is some room.
"""
SILENT_S: Final = 0.1
"""After such a silence a timer triggered a retransmission: half of the least time-out of Linux, as a silence
begins up to a round trip later than the timer.
"""
ANSWERED: Final = 0.8
"""Share of the writes that follow an answer, from which on the application waits for answers."""
LATE_S: Final = 0.05
"""A busy host may run an application this long after waking it."""
_RECOVERY, _LOSS = 3, 4
"""``ca_state``: 3 is fast recovery, 4 is loss, after a time-out."""
PACED: Final = ("bbr",)
"""Congestion controls that pace by themselves."""
BBR_STARTS: Final = 2.0
"""Pacing gain: 2.89 in BBR's start-up, at most 1.25 later."""
_NO_LIMIT: Final = 2.0**63


@dataclass(frozen=True)
class Receiver:
    """What the receiver knows, on the same time axis: unread bytes, and its thread's waits for a CPU."""

    time_ns: Floats
    unread_bytes: Floats
    cpu_wait: Floats | None = None


def read(
    time_ns: Floats,
    fields: Mapping[str, Floats],
    receiver: Receiver | None = None,
    *,
    congestion: str = "",
    window_bytes: float = 0.0,
) -> tuple[Timeline, TransferFacts] | None:
    """A timeline from samples of one connection, at the end that sends.

    Parameters
    ----------
    time_ns
        When each sample was taken, rising.
    fields
        Columns named as in ``weir tcp watch``, NaN where the kernel reports nothing. Columns other than
        :data:`NEEDED` and :data:`USEFUL` are ignored; missing ones count as not reported.
    receiver
        The other end, if it was sampled, too.
    congestion
        The congestion control.
    window_bytes
        The largest receive window before these samples.

    Returns
    -------
    tuple or None
        None if the connection sent nothing, or was sampled less than three times.
    """

    def column(name: str) -> Floats:
        values = fields.get(name)
        return np.full(len(time_ns), np.nan) if values is None else np.asarray(values, dtype=np.float64)

    kept = _while_sending(column("bytes_sent"), column("notsent_bytes"))
    if kept is None:
        return None
    start, stop = kept
    times = np.asarray(time_ns, dtype=np.float64)[start : stop + 1] / 1e9
    if len(times) < 4:
        return None
    columns = {name: column(name)[start:stop] for name in (*NEEDED, *USEFUL)}
    columns |= _without_probes(columns)
    timeline = _timeline(times, columns, receiver)
    facts = _facts(columns, {name: column(name)[start] for name in NEEDED}, times)
    pacing = facts.pacing or (congestion.upper() if congestion in PACED else None)
    return timeline, replace(facts, pacing=pacing, window_before_bytes=window_bytes)


def _without_probes(c: Mapping[str, Floats]) -> dict[str, Floats]:
    """The counters of retransmissions without those into a closed window: these are probes.

    Nothing had been lost, and the answer to a probe is a DSACK, too.
    """
    closed = c["snd_wnd_bytes"] < c["snd_mss_bytes"]
    probing = closed[1:] | closed[:-1]
    counters = {}
    for name in ("total_retrans", "dsack_dups"):
        probes = np.where(probing, np.diff(c[name]), 0.0)
        counters[name] = c[name] - np.concatenate([[0.0], np.cumsum(probes)])
    return counters


def starvation(time_ns: Floats, waited_ns: Floats) -> Floats:
    """Share of the time before each sample in which a thread waited for a CPU.

    The scheduler counts a wait when it ends (``run_delay``), so each one is assigned to the time before.
    """
    found = np.zeros(len(time_ns))
    grown = np.diff(np.asarray(waited_ns, dtype=np.float64), prepend=np.nan)
    for row in np.flatnonzero(grown > 0):
        since = time_ns[row] - grown[row]
        first = int(np.searchsorted(time_ns, since, side="right"))
        found[first : row + 1] += 1.0
        begun = first - 1
        if 0 <= begun < row:
            # The piece in which it began counts in part.
            whole = time_ns[first] - time_ns[begun]
            found[first] -= 1.0 - min((time_ns[first] - since) / whole, 1.0)
    return np.clip(found, 0.0, 1.0)


def _while_sending(sent: Floats, unsent: Floats) -> tuple[int, int] | None:
    """From the first sample with data to the last one after which none was sent; None without data."""
    moves = np.diff(np.nan_to_num(sent), prepend=0.0) > 0
    at = np.flatnonzero(moves | (np.nan_to_num(unsent) > 0))
    return None if len(at) == 0 else (int(at[0]), int(at[-1]))


def _timeline(times: Floats, c: Mapping[str, Floats], receiver: Receiver | None) -> Timeline:
    starts, lasts = times[:-1], np.diff(times)
    mss = c["snd_mss_bytes"]
    unsent = c["notsent_bytes"]
    queue = c["wqueue_bytes"] - unsent
    counted = c["bytes_sent"] - c["bytes_retrans"] - c["bytes_acked"] + 1
    flight = np.where(np.isfinite(queue), queue, np.where(np.isfinite(counted), counted, c["unacked"] * mss))
    flight = np.maximum(flight, 0.0)
    on_the_way = np.maximum(c["unacked"] - c["sacked"] - c["lost"] + c["retrans"], 0.0)
    room = (c["snd_cwnd"] - on_the_way) * mss
    fill = c["skmem_wmem_queued_bytes"] / np.where(
        c["skmem_sndbuf_bytes"] > 0, c["skmem_sndbuf_bytes"], np.nan
    )
    # The mean includes ACKs that were delayed on purpose; a queue adds nothing to the variation.
    rtt = np.fmax(c["rtt_us"] - np.nan_to_num(c["rttvar_us"]), c["min_rtt_us"]) / 1e6
    usual = float(np.nanmedian(rtt)) if np.isfinite(rtt).any() else 0.0
    window_room = c["snd_wnd_bytes"] - flight
    few = (unsent > 0) & (unsent < mss) & (room >= mss) & (window_room >= unsent)
    held = few & (flight > 0) & (flight <= 2 * mss)
    # Without a delayed ACK, Nagle's algorithm holds a partial segment for a round trip at most, as intended.
    least = float(np.nanmin(c["min_rtt_us"])) / 1e6 if np.isfinite(c["min_rtt_us"]).any() else 0.0
    short = few & ~lasting(held, lasts, least + DELAYED_S)
    return Timeline(
        source="kernel",
        start_s=starts,
        lasts_s=lasts,
        flight_bytes=flight,
        window_bytes=c["snd_wnd_bytes"],
        unsent_bytes=np.where(short, 0.0, unsent),
        rtt_s=rtt,
        acked_bytes=_delivered(c),
        lost=c["total_retrans"],
        recovery=c["ca_state"] >= _RECOVERY,
        held_small=held & ~short,
        flat=_no(starts),
        paced=_no(starts),
        starting=_starting(c),
        timing_out=_timing_out(c, lasts, usual),
        cwnd_room_bytes=room,
        buffer_fill=_blocking(fill, c, lasts, max(usual, 0.02)),
        pacing_bytes_per_s=c["pacing_rate_bytes_per_s"],
        estimate_bytes_per_s=c["bbr_bandwidth_bytes_per_s"],
        unread_bytes=_at(starts, receiver, "unread_bytes"),
        cpu_wait=_at(starts, receiver, "cpu_wait"),
        marks=np.nan_to_num(c["delivered_ce"]),
    )


def _blocking(fill: Floats, c: Mapping[str, Floats], lasts: Floats, within_s: float) -> Floats:
    """The greatest recent fill where it may have blocked the application, else 0; NaN if not reported."""
    written = c["bytes_acked"] + c["wqueue_bytes"]
    writes = np.diff(written, append=written[-1:]) > 0
    if _writes_after_answers(c, writes):
        return np.where(np.isfinite(fill), 0.0, np.nan)
    # Until the next sample, ACKs free memory: more than the size of the data in it.
    freed = np.diff(c["bytes_acked"], append=c["bytes_acked"][-1:]) / np.maximum(c["wqueue_bytes"], 1) * fill
    # An application that stops short of a full buffer could have written more.
    stops = np.append(fill[1:], fill[-1:]) < 1
    above = writes & stops & (fill - freed > WRITES_ABOVE) & (fill < 1)
    freely = recent_most(above.astype(float), lasts, within_s) > 0
    most = recent_most(fill, lasts, FULL_TRIPS * within_s)
    full = (fill >= WAKES_BELOW) & ~freely & (most >= 1)
    # A busy host wakes it late: it is blocked until it writes again.
    writing = np.cumsum(np.concatenate([[False], writes[:-1]]))
    late = (fill < WAKES_BELOW) & (np.maximum.accumulate(np.where(full, writing, -1)) == writing)
    late &= ~lasting(late, lasts, LATE_S)
    blocked = np.where((fill >= WAKES_BELOW) & ~freely, most, np.where(late, 1.0, 0.0))
    return np.where(np.isfinite(fill), blocked, np.nan)


def _writes_after_answers(c: Mapping[str, Floats], writes: Bools) -> bool:
    """Whether the application writes when something has come back: its blocks may just fill the buffer."""
    answers = np.diff(c["bytes_received"], prepend=c["bytes_received"][:1]) > 0
    answered = answers | np.append(answers[1:], False)
    rest = answered[~writes]
    return bool(
        writes.any() and answered[writes].mean() >= ANSWERED and not (rest.size and rest.mean() > 0.5)
    )


def _delivered(c: Mapping[str, Floats]) -> Floats:
    """Bytes delivered, SACK included: without it, nothing seems to arrive during a recovery."""
    segments = c["delivered"] * c["snd_mss_bytes"]
    return np.where(np.isfinite(segments), segments, c["bytes_acked"])


def _starting(c: Mapping[str, Floats]) -> Bools:
    """The congestion window is below the threshold, and used; under BBR, which has none, its start-up."""
    used = c["unacked"] >= c["snd_cwnd"] / 2
    below = np.asarray((c["snd_cwnd"] < c["snd_ssthresh"]) & used)
    gain = c["bbr_pacing_gain_256ths"] / 256
    return np.where(np.isfinite(c["bbr_bandwidth_bytes_per_s"]), gain >= BBR_STARTS, below)


def _no(like: Floats) -> Bools:
    return np.zeros(len(like), dtype=bool)


def _timing_out(c: Mapping[str, Floats], lasts: Floats, rtt_s: float) -> Bools:
    """After a time-out, nothing more is delivered for longer than a retransmission takes."""
    progress = np.diff(_delivered(c), prepend=np.nan) > 0
    waits = (c["ca_state"] == _LOSS) & ~progress
    return lasting(waits, lasts, max(SILENT_S, 2 * rtt_s))


def _timeouts(c: Mapping[str, Floats], lasts: Floats, rtt_s: float) -> Timeouts | None:
    waits = _timing_out(c, lasts, rtt_s)
    if not waits.any():
        return None
    again = np.diff(c["total_retrans"], append=c["total_retrans"][-1:]) > 0
    ends = np.flatnonzero(waits & again)
    times = np.split(np.where(waits, lasts, 0.0), ends + 1)
    return Timeouts(
        number=max(len(ends), 1), tails=0, ignored=0, longest_s=float(max(part.sum() for part in times))
    )


def _at(starts: Floats, receiver: Receiver | None, name: str) -> Floats:
    """The receiver's latest value at each time."""
    values = None if receiver is None else getattr(receiver, name)
    if receiver is None or values is None or len(values) == 0:
        return np.full(len(starts), np.nan)
    at = np.searchsorted(receiver.time_ns / 1e9, starts, side="right") - 1
    return np.where(at >= 0, np.asarray(values, dtype=np.float64)[np.maximum(at, 0)], np.nan)


def _facts(c: Mapping[str, Floats], first: Mapping[str, float], times: Floats) -> TransferFacts:
    def last(name: str) -> float:
        known = c[name][np.isfinite(c[name])]
        return float(known[-1]) if len(known) else 0.0

    def grown(name: str) -> int:
        known = c[name][np.isfinite(c[name])]
        return int(known[-1] - known[0]) if len(known) else 0

    options = int(last("options"))
    least = c["min_rtt_us"][c["min_rtt_us"] > 0]
    smoothed = c["rtt_us"][c["rtt_us"] > 0]
    least_us = float(np.min(least)) if len(least) else float(np.min(smoothed)) if len(smoothed) else 0.0
    limit = c["max_pacing_rate_bytes_per_s"]
    limited = bool((limit < _NO_LIMIT).any())
    bbr = bool(np.isfinite(c["bbr_bandwidth_bytes_per_s"]).any())
    return TransferFacts(
        mss_bytes=int(last("snd_mss_bytes")),
        min_rtt_s=least_us / 1e6,
        data_bytes=grown("bytes_acked"),
        segments=grown("data_segs_out"),
        retransmitted=grown("total_retrans"),
        spurious=grown("dsack_dups"),
        reordered=grown("reord_seen"),
        window_scaling=bool(options & _OPTION_SCALING),
        sack=bool(options & _OPTION_SACK),
        timestamps=bool(options & _OPTION_TIMESTAMPS),
        offered_mss_bytes=int(last("advmss_bytes")) or None,
        pacing="BBR" if bbr else "the socket" if limited else None,
        pacing_limit_bytes_per_s=float(np.nanmin(limit)) if limited else None,
        timeouts=_timeouts(c, np.diff(times), float(np.median(smoothed)) / 1e6 if len(smoothed) else 0.0),
        counters=_counters(grown, float(times[-1] - times[0]) * 1e6),
    )


def _counters(grown: Callable[[str], int], elapsed_us: float) -> dict[str, float] | None:
    found = time_shares({name: grown(name) for name in COUNTERS}, elapsed_us)
    return None if found is None else vars(found)
