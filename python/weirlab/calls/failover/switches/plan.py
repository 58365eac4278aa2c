"""Which switches to measure, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weirlab.calls.failover.switches.pair import Kind, PairSpec
from weirlab.calls.failover.switches.timing import Timing

BUILD_S = 6.0
"""What it takes to build a pair and have it agree on a master, beside its timers; experience corrects it."""


@dataclass(frozen=True)
class FailoverPlan:
    """One switch to measure; ``repetition`` counts from 1.

    ``early_s`` is by how much the event comes before its time: somewhere between two advertisements, not
    always at the same place, which settles how long the other firewall waits.
    """

    index: int
    pair: PairSpec
    kind: Kind
    repetition: int
    early_s: float = 0.0

    @property
    def text(self) -> str:
        return f"{self.pair.text}: {self.kind}, run {self.repetition}"


def plan(
    pairs: Sequence[PairSpec], kinds: Sequence[Kind], repetitions: int, seed: int
) -> tuple[FailoverPlan, ...]:
    """Every kind of event with every pair, ``repetitions`` times.

    Round by round, so that a host that slowly changes treats all alike; within a round at random.
    """
    rng = np.random.default_rng(seed)
    every = [(pair, kind) for pair in pairs for kind in kinds]
    found: list[FailoverPlan] = []
    for repetition in range(1, repetitions + 1):
        for i in rng.permutation(len(every)):
            pair, kind = every[i]
            early_s = float(rng.uniform(0, pair.advert_s))
            found.append(FailoverPlan(len(found), pair, kind, repetition, early_s))
    return tuple(found)


def expected_s(planned: FailoverPlan, timing: Timing) -> float:
    """Expected wall time of one undisturbed switch, building the pair included."""
    latest_s = planned.pair.protocol.expected_failover_s[1]
    waits = 2 if planned.kind == "return" else 1
    return timing.warmup_s + timing.duration_s + BUILD_S + waits * latest_s


def estimate_s(switches: Iterable[FailoverPlan], timing: Timing) -> float:
    """Expected wall time of all ``switches`` when none has to be repeated."""
    return sum(expected_s(planned, timing) for planned in switches)
