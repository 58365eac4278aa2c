"""Which packets carry speech, and when: as runs of packets first, then one by one.

A run is a sequence of packets of one stream at intervals of exactly its packet time. Without talk spurts a
stream is one run. Everything is counted in runs, because a trial has few of them but millions of packets.

P.59 distinguishes four states of two people who talk to each other: one talks, the other, both, none. Their
durations are exponential with means of 0.854 s (single talk), 0.226 s (double talk) and 0.456 s (mutual
silence). After single talk comes double talk in 40 % of cases, otherwise silence, and after either one each
of the two is equally likely to go on alone. Each then talks 42.5 % of the time, in spurts of
1.03 s; both talk 7.4 % of the time and neither 22.5 % (measured for P.59: 6.6 % and 22.5 %).

One direction alone has no partner to wait for: talk spurts of 1.004 s and pauses of 1.587 s on average
(P.59, table 1), both exponential, thus 38.7 % of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls.arrivals import Units

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

SINGLE_TALK_S: Final = 0.854
DOUBLE_TALK_S: Final = 0.226
MUTUAL_SILENCE_S: Final = 0.456
DOUBLE_TALK_SHARE: Final = 0.4
"""Share of single talks that end because the other one begins too."""

TALK_SPURT_S: Final = 1.004
PAUSE_S: Final = 1.587

_DOUBLE_S: Final = DOUBLE_TALK_SHARE * DOUBLE_TALK_S
_SILENT_S: Final = (1 - DOUBLE_TALK_SHARE) * MUTUAL_SILENCE_S
_CYCLE_S: Final = SINGLE_TALK_S + _DOUBLE_S + _SILENT_S
CONVERSATION_ACTIVITY: Final = (SINGLE_TALK_S / 2 + _DOUBLE_S) / _CYCLE_S
"""Share of the time that each side of a conversation talks."""

MONOLOGUE_ACTIVITY: Final = TALK_SPURT_S / (TALK_SPURT_S + PAUSE_S)


@dataclass(frozen=True)
class TalkSpurts:
    """Stretches of speech, ordered by call, direction and time; shapes (stretches,).

    From ``start_ns`` to just before ``end_ns``; one may begin where another ends.
    """

    unit: I64
    way: I64
    """Index of the direction."""
    start_ns: I64
    end_ns: I64


def conversations(n: int, ways: int, length_ns: int, rng: np.random.Generator) -> TalkSpurts:
    """Who talks in ``n`` calls of ``length_ns``, in the steady state from the start.

    ``ways`` is 2 for both directions of a call and 1 for one alone.
    """
    return _dialogues(n, length_ns, rng) if ways == 2 else _monologues(n, length_ns, rng)


def _dialogues(n: int, length_ns: int, rng: np.random.Generator) -> TalkSpurts:
    """Single talk and something else take turns: even and odd columns below."""

    def draw(turns: int) -> tuple[F64, npt.NDArray[np.bool_]]:
        double = rng.random((n, turns)) < DOUBLE_TALK_SHARE
        # In the steady state a call is in each state for a share of time that matches its duration.
        between = rng.random(n) < (_DOUBLE_S + _SILENT_S) / _CYCLE_S
        double[between, 0] = rng.random(int(between.sum())) < _DOUBLE_S / (_DOUBLE_S + _SILENT_S)
        first_talks = rng.random((n, turns)) < 0.5
        spans = np.empty((n, 2 * turns))
        spans[:, ::2] = rng.exponential(SINGLE_TALK_S, (n, turns))
        spans[between, 0] = 0.0
        spans[:, 1::2] = rng.exponential(1.0, (n, turns)) * np.where(double, DOUBLE_TALK_S, MUTUAL_SILENCE_S)
        talks = np.empty((n, 2, 2 * turns), dtype=np.bool_)
        talks[:, 0, ::2], talks[:, 1, ::2] = first_talks, ~first_talks
        talks[:, :, 1::2] = double[:, None, :]
        return spans, talks

    return _stretches(draw, length_ns, _CYCLE_S)


def _monologues(n: int, length_ns: int, rng: np.random.Generator) -> TalkSpurts:
    def draw(turns: int) -> tuple[F64, npt.NDArray[np.bool_]]:
        spans = np.empty((n, 2 * turns))
        spans[:, ::2] = rng.exponential(TALK_SPURT_S, (n, turns))
        spans[:, 1::2] = rng.exponential(PAUSE_S, (n, turns))
        spans[rng.random(n) >= MONOLOGUE_ACTIVITY, 0] = 0.0
        talks = np.zeros((n, 1, 2 * turns), dtype=np.bool_)
        talks[:, :, ::2] = True
        return spans, talks

    return _stretches(draw, length_ns, TALK_SPURT_S + PAUSE_S)


def _stretches(
    draw: Callable[[int], tuple[F64, npt.NDArray[np.bool_]]], length_ns: int, cycle_s: float
) -> TalkSpurts:
    """``draw`` gives durations in s, shape (calls, 2 turns), and who talks, (calls, ways, 2 turns)."""
    cycles = length_ns / NS_PER_S / cycle_s
    turns = math.ceil(cycles + 6 * math.sqrt(cycles)) + 8
    spans, talks = draw(turns)
    while len(spans) and float(spans.sum(axis=1).min()) * NS_PER_S < length_ns:
        turns *= 2
        spans, talks = draw(turns)
    ends = np.minimum(np.rint(np.cumsum(spans, axis=1) * NS_PER_S), length_ns).astype(np.int64)
    starts = np.zeros_like(ends)
    starts[:, 1:] = ends[:, :-1]
    unit, way, span = np.nonzero(talks & (ends > starts)[:, None, :])
    return TalkSpurts(unit, way, starts[unit, span], ends[unit, span])


@dataclass(frozen=True)
class PacketRuns:
    """Runs of packets, ordered by stream and time; shapes (runs,).

    ``stream`` is ``unit * directions + direction``; packet ``i`` of a run leaves at
    ``start_ns + i * packet_ns`` and is the stream's ``slot + i``-th packet time.
    """

    stream: I64
    start_ns: I64
    slot: I64
    packets: I64
    packet_ns: I64

    def __len__(self) -> int:
        return len(self.stream)

    @property
    def total(self) -> int:
        """Packets of all runs."""
        return int(self.packets.sum())


def runs_of(units: Units, packet_ns: I64, horizon_ns: int, talk: TalkSpurts | None) -> PacketRuns:
    """All speech of ``units`` before ``horizon_ns``; ``talk`` counts from when each call begins."""
    ways = units.first_ns.shape[1]
    if talk is None:
        unit, way = np.divmod(np.arange(len(units) * ways, dtype=np.int64), ways)
        from_ns, to_ns = units.begin_ns[unit], units.end_ns[unit]
    else:
        unit, way = talk.unit, talk.way
        from_ns = units.begin_ns[unit] + talk.start_ns
        to_ns = np.minimum(units.begin_ns[unit] + talk.end_ns, units.end_ns[unit])
    first, period = units.first_ns[unit, way], packet_ns[unit]
    slot = np.maximum(-((first - from_ns) // period), 0)
    beyond = np.maximum(-((first - np.minimum(to_ns, horizon_ns)) // period), 0)
    return _some(
        PacketRuns(unit * ways + way, first + slot * period, slot, np.maximum(beyond - slot, 0), period)
    )


def within(runs: PacketRuns, start_ns: int, end_ns: int) -> PacketRuns:
    """Only the packets that depart from ``start_ns`` to just before ``end_ns``."""
    skipped = np.clip(-((runs.start_ns - start_ns) // runs.packet_ns), 0, runs.packets)
    beyond = np.clip(-((runs.start_ns - end_ns) // runs.packet_ns), 0, runs.packets)
    return _some(
        replace(
            runs,
            start_ns=runs.start_ns + skipped * runs.packet_ns,
            slot=runs.slot + skipped,
            packets=np.maximum(beyond - skipped, 0),
        )
    )


def moved(runs: PacketRuns, stream: I64, by_ns: int) -> PacketRuns:
    """``runs`` moved ``by_ns`` later and renumbered: ``stream`` has each stream's new number, negative to
    leave it out."""
    kept = replace(runs, stream=stream[runs.stream], start_ns=runs.start_ns + by_ns)
    return _where(kept, kept.stream >= 0)


def sent_before(runs: PacketRuns, stream: I64, at_ns: I64) -> I64:
    """How many packets of ``stream`` depart before ``at_ns``; both shape (n,)."""
    n = len(runs)
    # Both sorted by time, with a query before the packet that departs at the same instant.
    question = np.concatenate([np.zeros(n, dtype=np.bool_), np.ones(len(stream), dtype=np.bool_)])
    order = np.lexsort(
        (~question, np.concatenate([runs.start_ns, at_ns]), np.concatenate([runs.stream, stream]))
    )
    latest = np.empty(len(order), dtype=np.int64)
    latest[order] = np.maximum.accumulate(np.where(question[order], -1, order))
    run = latest[n:]
    begun = run >= 0
    begun[begun] = runs.stream[run[begun]] == stream[begun]
    run, stream, at_ns = run[begun], stream[begun], at_ns[begun]
    done = np.concatenate([[0], np.cumsum(runs.packets)])
    sent = np.zeros(len(begun), dtype=np.int64)
    sent[begun] = done[run] - done[np.searchsorted(runs.stream, stream)]
    sent[begun] += np.clip(-((runs.start_ns[run] - at_ns) // runs.packet_ns[run]), 0, runs.packets[run])
    return sent


@dataclass(frozen=True)
class MediaPackets:
    """Every packet of some runs, one run after the other; shapes (packets,)."""

    due_ns: I64
    run: npt.NDArray[np.uint32]
    slot: I64


def packets_of(runs: PacketRuns) -> MediaPackets:
    """One row per packet."""
    run = np.repeat(np.arange(len(runs), dtype=np.uint32), runs.packets)
    first = np.cumsum(runs.packets) - runs.packets
    index = np.arange(len(run), dtype=np.int64)
    index -= first[run]
    due_ns = index * runs.packet_ns[run]
    due_ns += runs.start_ns[run]
    index += runs.slot[run]
    return MediaPackets(due_ns, run, index)


def begins_spurt(runs: PacketRuns) -> npt.NDArray[np.bool_]:
    """Which runs begin after a silence, or begin the stream."""
    begins = np.ones(len(runs), dtype=np.bool_)
    same = runs.stream[1:] == runs.stream[:-1]
    begins[1:] = ~same | (runs.slot[1:] != runs.slot[:-1] + runs.packets[:-1])
    return begins


def wraps(runs: PacketRuns, stamp: I64, step: I64, modulus: int) -> tuple[I64, I64]:
    """Packets whose time stamp has wrapped since the stream's last one, and first packets of streams.

    ``stamp`` is that of each run's first packet and ``step`` from packet to packet, shapes (runs,);
    it restarts at every multiple of ``modulus``.
    Returns the run and the index in the run of each such packet, in order.
    """
    last = stamp + (runs.packets - 1) * step
    low, high = stamp // modulus, last // modulus
    before = np.full(len(runs), -1, dtype=np.int64)
    before[1:] = np.where(runs.stream[1:] == runs.stream[:-1], high[:-1], -1)
    starts = before != low
    inner = high - low
    count = inner + starts
    run = np.repeat(np.arange(len(runs), dtype=np.int64), count)
    nth = np.arange(len(run), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    wrap = low[run] + nth + ~starts[run]
    index = np.maximum(-((stamp[run] - wrap * modulus) // step[run]), 0)
    return run, index


def _some(runs: PacketRuns) -> PacketRuns:
    return _where(runs, runs.packets > 0)


def _where(runs: PacketRuns, keep: npt.NDArray[np.bool_]) -> PacketRuns:
    return PacketRuns(
        runs.stream[keep], runs.start_ns[keep], runs.slot[keep], runs.packets[keep], runs.packet_ns[keep]
    )
