"""Which attempts to make, in which order, and what each one sends. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.quantities import plural
from weirlab.calls.ipsec.endpoints.section import CLEAR, ArmName, Beside, EndpointsSection
from weirlab.traffic.calls.codecs import VoiceStream, parse_codec
from weirlab.traffic.encapsulation import packets
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.encapsulation.suites import suite

BYPASS: Final[ArmName] = "bypass"
SOCKETS: Final[ArmName] = "sockets"
REAL_TIME: Final[ArmName] = "sockets-real-time"
IDLE: Final[Beside] = "idle"
HOG: Final[Beside] = "hog"

NAMES: Final[Mapping[str, str]] = {
    BYPASS: "bypassing endpoints",
    SOCKETS: "endpoints on sockets",
    REAL_TIME: "endpoints on sockets with real-time priority",
}
SHORT: Final[Mapping[str, str]] = {BYPASS: "bypass", SOCKETS: "sockets", REAL_TIME: "sockets, real-time"}
"""Where there is little room."""
WHERE: Final[Mapping[str, str]] = {IDLE: "without a CPU hog", HOG: "beside a CPU hog"}


@dataclass(frozen=True)
class EndpointPlan:
    """One attempt to make; ``repetition`` counts from 1."""

    arm: ArmName
    beside: Beside
    calls: int
    repetition: int

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What its row has, too."""
        return self.arm, self.beside, self.calls, self.repetition

    @property
    def text(self) -> str:
        where = WHERE[self.beside]
        return f"{plural(self.calls, 'call')} {where}: {SHORT[self.arm]}, repetition {self.repetition}"


@dataclass(frozen=True)
class EndpointCalls:
    """What the endpoints are to do in an attempt."""

    arm: ArmName
    beside: Beside
    stream: VoiceStream
    suite: str
    """Empty in the clear."""
    is_tunnel: bool
    phases_ns: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    """When each call's first packet is due, from the start, for either endpoint as the sender."""
    packets: int
    """Of every stream, the warm-up included."""
    warmup_packets: int

    @property
    def calls(self) -> int:
        return len(self.phases_ns[0])

    @property
    def lasts_s(self) -> float:
        """From the first packet to a packet time behind the last one, the warm-up included."""
        return self.packets * self.stream.packet_ns / 1e9

    @property
    def ip_bytes(self) -> int:
        """Length that every IP packet has, by the formulas of ``weir ipsec bytes``."""
        return ip_bytes(self.stream, self.suite, is_tunnel=self.is_tunnel)


def ip_bytes(stream: VoiceStream, name: str, *, is_tunnel: bool) -> int:
    """Length of a packet with ESP of the suite ``name`` in UDP; of one in the clear where that is empty."""
    voice = VoicePacket(stream.payload_bytes, natt=bool(name))
    if not name:
        return packets.total(packets.clear(voice))
    formula = packets.esp_tunnel if is_tunnel else packets.esp_transport
    return packets.total(formula(voice, suite(name)))


def plan(asked: EndpointsSection) -> tuple[EndpointPlan, ...]:
    """Every kind of endpoint with every number of calls, at idle and beside a hog.

    Round by round; within a round the kinds of endpoints take turns (A B A B ...), and the first one changes
    from turn to turn: a host that slowly changes treats all alike.
    """
    rng = np.random.default_rng(asked.seed)
    settings = [(beside, calls) for beside in asked.beside for calls in asked.calls]
    found: list[EndpointPlan] = []
    for repetition in range(1, asked.repetitions + 1):
        for turn, number in enumerate(rng.permutation(len(settings))):
            beside, calls = settings[number]
            first = (turn + repetition) % len(asked.arms)
            for arm in (*asked.arms[first:], *asked.arms[:first]):
                found.append(EndpointPlan(arm, beside, calls, repetition))
    return tuple(found)


def talk(asked: EndpointsSection, arm: ArmName, beside: Beside, calls: int, lasts_s: float) -> EndpointCalls:
    """An attempt; with equal numbers of calls, these begin at the same times in all of them."""
    stream = parse_codec(asked.codec)
    rng = np.random.default_rng([asked.seed, calls])
    phases = rng.integers(0, stream.packet_ns, (2, calls))
    warmup = round(asked.warmup_s * 1e9 / stream.packet_ns)
    return EndpointCalls(
        arm=arm,
        beside=beside,
        stream=stream,
        suite="" if asked.suite == CLEAR else suite(asked.suite).name,
        is_tunnel=asked.mode == "tunnel",
        phases_ns=(phases[0], phases[1]),
        packets=warmup + max(round(lasts_s * 1e9 / stream.packet_ns), 2),
        warmup_packets=warmup,
    )
