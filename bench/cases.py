"""The parts of a planted cause of a slow transfer, and the counts from which the truth is computed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weirlab.diagnosis.causes import Cause
from weirlab.emulation.account import Direction, EmulationCounters

SECONDS = 6.0
BUSY = 0.5
"""Share of the time; a link that is busy for longer is itself the limit."""


@dataclass(frozen=True)
class Truth:
    """Counts of the programs that caused it; times in s."""

    seconds: float
    sender: Mapping[str, Any]
    receiver: Mapping[str, Any]
    link: EmulationCounters
    first_hit_s: float = 0.0
    """When the first frame was sent that the link lost or held back, or arrived that the receiver drops."""

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
    """A planted cause, with the path and the programs that produce it."""

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
    """By place: causes that may be named instead if it cannot be told; the diagnosis must say so."""
    void: Callable[[Truth], str] = lambda truth: ""
    """Returns why the planted cause did not occur or did not limit the transfer; empty if it did."""
    when: Callable[[Truth], Sequence[tuple[float, float]]] = lambda truth: ()
    """From when to when the cause applied, s since the transfer began; empty if that is not known."""
    notes: Sequence[str] = ()
    """Beginnings of the expected notes on settings, whatever the limit is."""
    also: Sequence[Cause] = ()
    """Causes that are right as well, from every place."""
    drops: int = 0
    """The receiver's host drops one of this many arriving data segments; 0: none."""
    rule: str = ""
    """What the receiver's host does to arriving packets, after they were captured: a rule of nftables."""
    mtu: int = 0
    """The path drops larger packets and says nothing; 0: it does not."""
    shaper: str = ""
    """The queueing discipline (tc) at the sender's interface, which packets pass before they are captured."""
    seconds: float = SECONDS
    drawn: Mapping[str, float] = field(default_factory=dict)


def path(
    delay_s: float, rate_bps: float, queue: float, **more: str
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """A path with the delay both ways and the rest in the direction of the data; `queue` in packets."""
    delay = {"delay": f"{delay_s * 1e6:.0f}us"}
    return {**delay, "rate": f"{rate_bps / 1e3:.0f}kbit/s", "queue": f"{queue:.0f}pkts", **more}, delay


def since_first_hit(truth: Truth) -> float:
    return 1 - truth.first_hit_s / truth.seconds


def until_the_end(share: Callable[[Truth], float]) -> Callable[[Truth], list[tuple[float, float]]]:
    """When a cause applied that begins once and has this `share` of the time."""
    return lambda truth: [((1 - share(truth)) * truth.seconds, truth.seconds)]


def where_idle(truth: Truth) -> str:
    """Void if the link is busy nevertheless: then loss and reordering do not limit the transfer."""
    busy = truth.utilisation
    return f"the link was busy {busy * 100:.0f} % of the time" if busy > BUSY else ""


class Draw:
    """Parameters of a case: the usual ones, or with a seed, log-uniform draws between bounds.

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
