"""When calls begin and end, and how their packets are phased."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls.signalling import iax2, sip
from weirlab.traffic.calls.spec import CallClass, Calls, Direction
from weirlab.traffic.calls.transport import calls_per_packet

I64 = npt.NDArray[np.int64]

FOREVER_NS: Final = 1 << 62

SET_UP_NS: Final = round(max(sip.SET_UP_MS, iax2.SET_UP_MS) * 1e6)
"""From the first message of a call to its speech."""

FIRST_ANSWER_NS: Final = round(min(sip.TRYING_MS, iax2.ACCEPT_MS) * 1e6)
"""From the first message of a call to the callee's first answer."""

MAX_UNITS: Final = 1 << 22

_GOLDEN_RATIO: Final = (math.sqrt(5) - 1) / 2

_WRAP_NS: Final = (1 << 16) * 1_000_000
"""Time after which the 16-bit time stamps of IAX2 repeat."""


@dataclass(frozen=True)
class Units:
    """Units that each send their own packets: a call, or a trunk with the speech of several.

    Shapes (units,); times in ns from some moment before the first packet.

    ``call``
        Number of the unit's first call.
    ``carried``
        Its calls.
    ``dialled_ns``
        When the first message of the call leaves, or would have left.
    ``begin_ns``, ``end_ns``
        People talk from ``begin_ns`` to just before ``end_ns``.
    ``announced``
        Whether the call is set up within the trial; others are up when it begins.
    ``first_ns``
        Shape (units, directions): departure of the first packet if there is speech in it; the
        others follow in packet times.
    """

    call_class: I64
    call: I64
    carried: I64
    dialled_ns: I64
    begin_ns: I64
    end_ns: I64
    announced: npt.NDArray[np.bool_]
    first_ns: I64

    def __len__(self) -> int:
        return len(self.call)

    def where(self, keep: npt.NDArray[np.bool_]) -> Self:
        """Only the units to ``keep``; calls are renumbered."""
        carried = self.carried[keep]
        return replace(
            self,
            call_class=self.call_class[keep],
            call=np.cumsum(carried) - carried,
            carried=carried,
            dialled_ns=self.dialled_ns[keep],
            begin_ns=self.begin_ns[keep],
            end_ns=self.end_ns[keep],
            announced=self.announced[keep],
            first_ns=self.first_ns[keep],
        )


def backs(directions: Direction) -> tuple[bool, ...]:
    """For each direction in which there is traffic, whether it is sent from the receiver's side."""
    return {"forward": (False,), "back": (True,), "both": (False, True)}[directions]


def draw_units(calls: Calls, warmup_ns: int, horizon_ns: int, rng: np.random.Generator) -> Units:
    """All calls from 0 to ``horizon_ns``, standing or arriving."""
    if calls.arrivals == "poisson":
        return _arriving(calls, horizon_ns, rng)
    return _standing(calls, warmup_ns, rng)


def class_counts(classes: Sequence[CallClass], count: int) -> list[int]:
    """How many of ``count`` calls are of each class: their shares, to within one call."""
    wanted = np.array([kind.share for kind in classes]) * count
    whole = np.floor(wanted + 1e-9).astype(np.int64)
    rest = count - int(whole.sum())
    whole[np.argsort(whole - wanted, kind="stable")[:rest]] += 1
    return [int(n) for n in whole]


def _standing(calls: Calls, warmup_ns: int, rng: np.random.Generator) -> Units:
    call_class, carried = _interleaved(calls)
    n = len(carried)
    packet_ns = np.array([kind.stream.packet_ns for kind in calls.classes])[call_class]
    phase = _phases(calls, packet_ns, rng)
    begin_ns = np.zeros(n, dtype=np.int64)
    # Each call of a trunk has named its codec in a full frame of speech before the trunk carries it.
    trunk = np.array([kind.transport == "iax2-trunk" for kind in calls.classes])[call_class]
    lead_ns = np.where(trunk, packet_ns, 0)
    room_ns = warmup_ns - SET_UP_NS - int(packet_ns.max()) - int(lead_ns.max())
    announced = calls.signalling and room_ns > 0
    if announced:
        begin_ns = np.arange(n, dtype=np.int64) * room_ns // n + SET_UP_NS
    ready_ns = begin_ns + lead_ns if announced else begin_ns
    late_ns = np.maximum(ready_ns[:, None] - phase, 0)
    return Units(
        call_class=call_class,
        call=np.cumsum(carried) - carried,
        carried=carried,
        dialled_ns=begin_ns - SET_UP_NS if announced else -_ages_ns(n, rng),
        begin_ns=begin_ns,
        end_ns=np.full(n, FOREVER_NS, dtype=np.int64),
        announced=np.full(n, announced),
        first_ns=phase + -(-late_ns // packet_ns[:, None]) * packet_ns[:, None],
    )


def _interleaved(calls: Calls) -> tuple[I64, I64]:
    """Class and number of calls of each unit, classes evenly mixed."""
    place: list[npt.NDArray[np.float64]] = []
    call_class: list[I64] = []
    carried: list[I64] = []
    counts = class_counts(calls.classes, calls.count)
    fulls = [calls_per_packet(kind.stream, kind.transport, kind.trunk_calls) for kind in calls.classes]
    units = sum(-(-count // full) for count, full in zip(counts, fulls, strict=True))
    if units > MAX_UNITS:
        raise InputError(
            f"{calls.count:,} calls are {units:,} streams of packets in each direction, more than "
            f"{MAX_UNITS:,}; make fewer calls, or have more of them share a packet (iax2-trunk)"
        )
    for i, (count, full) in enumerate(zip(counts, fulls, strict=True)):
        n = -(-count // full)
        sizes = np.full(n, full, dtype=np.int64)
        if n:
            sizes[-1] = count - full * (n - 1)
        place.append((np.arange(n) + 0.5) / max(n, 1))
        call_class.append(np.full(n, i, dtype=np.int64))
        carried.append(sizes)
    order = np.argsort(np.concatenate(place), kind="stable")
    return np.concatenate(call_class)[order], np.concatenate(carried)[order]


def _phases(calls: Calls, packet_ns: I64, rng: np.random.Generator) -> I64:
    """Departure of each unit's and direction's first packet within the packet time.

    Evenly: with n units and both directions there are 2 n slots of equal length, which the
    directions take in turn. Units of other packet times have their own slots, which begin
    a little later.
    """
    ways = len(backs(calls.directions))
    phase = np.zeros((len(packet_ns), ways), dtype=np.int64)
    times_ns, units = np.unique(packet_ns, return_counts=True)
    slot_ns = float((times_ns / (units * ways)).min())
    for i, time_ns in enumerate(times_ns):
        mine = np.flatnonzero(packet_ns == time_ns)
        slots = len(mine) * ways
        # Multiples of the golden ratio are as far from each other as possible.
        late_ns = int(i * _GOLDEN_RATIO % 1 * slot_ns)
        if calls.phases == "random":
            phase[mine] = rng.integers(time_ns, size=(len(mine), ways))
        else:
            slot = np.arange(slots, dtype=np.int64).reshape(-1, ways)
            phase[mine] = slot * int(time_ns) // slots + late_ns
    return phase


def _arriving(calls: Calls, horizon_ns: int, rng: np.random.Generator) -> Units:
    """An M/M/infinity system in its steady state from the start.

    The number of calls is Poisson distributed, and the rest of a holding time is
    again exponential with the same mean. Calls dialled by the end count.
    """
    until_ns = horizon_ns + SET_UP_NS
    holding_ns = calls.holding_s * NS_PER_S
    expected = calls.count * (1 + until_ns / holding_ns)
    if expected > MAX_UNITS:
        raise InputError(
            f"about {expected:,.0f} calls would come and go, more than {MAX_UNITS:,}; shorten the trial, "
            "lengthen the holding time or make fewer calls"
        )
    standing = int(rng.poisson(calls.count))
    new = int(rng.poisson(calls.count * until_ns / holding_ns))
    arrival_ns = np.sort(rng.integers(until_ns, size=new))
    begin_ns = np.concatenate([np.zeros(standing, dtype=np.int64), arrival_ns])
    n = standing + new
    life_ns = np.clip(np.rint(rng.exponential(holding_ns, size=n)), 1, FOREVER_NS).astype(np.int64)
    call_class = rng.choice(len(calls.classes), size=n, p=_shares(calls)).astype(np.int64)
    packet_ns = np.array([kind.stream.packet_ns for kind in calls.classes])[call_class]
    ways = len(backs(calls.directions))
    announced = np.arange(n) >= standing
    return Units(
        call_class=call_class,
        call=np.arange(n, dtype=np.int64),
        carried=np.ones(n, dtype=np.int64),
        dialled_ns=np.where(announced, begin_ns - SET_UP_NS, -_ages_ns(n, rng)),
        begin_ns=begin_ns,
        end_ns=begin_ns + life_ns,
        announced=announced,
        first_ns=begin_ns[:, None] + (rng.random((n, ways)) * packet_ns[:, None]).astype(np.int64),
    )


def _shares(calls: Calls) -> npt.NDArray[np.float64]:
    shares: npt.NDArray[np.float64] = np.array([kind.share for kind in calls.classes], dtype=np.float64)
    shares /= shares.sum()
    return shares


def _ages_ns(n: int, rng: np.random.Generator) -> I64:
    """How long ago standing calls were dialled; random, so that their time stamps do not wrap all at once."""
    return SET_UP_NS + rng.integers(_WRAP_NS, size=n)
