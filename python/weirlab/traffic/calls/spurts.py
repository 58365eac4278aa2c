"""Who talks when (ITU-T P.59, 03/93): talk spurts and silences.

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
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.units import NS_PER_S

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
