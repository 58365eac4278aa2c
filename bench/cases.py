"""What a planted cause of a slow transfer consists of, and what the truth about it is made from."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weirlab.diagnosis.causes import Cause
from weirlab.emulation.account import Account, Direction

SECONDS = 6.0
BUSY = 0.5
"""Share of the time; a link that is busy for longer is itself the limit."""


@dataclass(frozen=True)
class Truth:
    """What those who caused it counted; times in s."""

    seconds: float
    sender: Mapping[str, Any]
    receiver: Mapping[str, Any]
    link: Account
    first_hit_s: float = 0.0
    """When the first frame was sent that the link lost or held back, or came that the receiver drops."""

    @property
    def utilisation(self) -> float:
        """Share of the time for which the emulated link was transmitting."""
        return self._busy(self.link.up)

    @property
    def utilisation_back(self) -> float:
        """The same on the way back."""
        return self._busy(self.link.down)

    def _busy(self, way: Direction) -> float:
        return min(way.departed_bytes * 8 / (way.rate_bps or math.inf) / self.seconds, 1.0)


@dataclass(frozen=True)
class Case:
    """`cause`: what is planted."""

    name: str
    cause: Cause
    truth: Callable[[Truth], float]
    says: str
    """Where the truth comes from."""
    path: tuple[Mapping[str, str], Mapping[str, str]]
    send: Mapping[str, Any] = field(default_factory=lambda: {"mode": "bulk"})
    receive: Mapping[str, Any] = field(default_factory=lambda: {"mode": "fast"})
    sysctls: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    untold: Mapping[str, Sequence[Cause]] = field(default_factory=dict)
    """By place: what may stand for it where it cannot be told; the diagnosis is to say so."""
    void: Callable[[Truth], str] = lambda truth: ""
    """Why what was planted did not happen, or was not what limited the transfer."""
    notes: Sequence[str] = ()
    """Beginnings of what is to be said of settings, whatever the limit is."""
    drops: int = 0
    """Of so many segments with data that arrive, the receiver's host drops one; 0: none."""
    seconds: float = SECONDS
    drawn: Mapping[str, float] = field(default_factory=dict)


def path(
    delay_s: float, rate_bps: float, queue: float, **more: str
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Delay each way; everything else in the direction of the data. `queue`: packets."""
    delay = {"delay": f"{delay_s * 1e6:.0f}us"}
    return {**delay, "rate": f"{rate_bps / 1e3:.0f}kbit/s", "queue": f"{queue:.0f}pkts", **more}, delay


def since_first_hit(truth: Truth) -> float:
    return 1 - truth.first_hit_s / truth.seconds


def where_idle(truth: Truth) -> str:
    """Loss and reordering limit nothing where the link is busy all the same."""
    busy = truth.utilisation
    return f"the link was busy {busy * 100:.0f} % of the time" if busy > BUSY else ""


class Draw:
    """Parameters of a case: the usual ones; with a seed, drawn between bounds, evenly by ratio.

    `given` replaces some by name.
    """

    def __init__(self, name: str, seed: int | None, given: Mapping[str, float]) -> None:
        self._random = None if seed is None else random.Random(f"{seed} {name}")
        self._given = given
        self.drawn: dict[str, float] = {}

    def __call__(self, name: str, usual: float, least: float, most: float) -> float:
        value = usual
        if self._random is not None:
            value = float(f"{math.exp(self._random.uniform(math.log(least), math.log(most))):.4g}")
        self.drawn[name] = self._given.get(name, value)
        return self.drawn[name]
