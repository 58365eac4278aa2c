"""What a scenario about endpoints may say, which attempts follow from it, and what each one sends. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field

from weirlab.base.errors import InputError
from weirlab.base.quantities import plural
from weirlab.scenario.conflicts import Conflict
from weirlab.scenario.model import Root, Section
from weirlab.scenario.values import (
    Attempts,
    NotEmpty,
    Repetitions,
    Seconds,
    Seed,
    WarmUp,
    no_repeats,
    readable,
)
from weirlab.traffic.calls.codecs import VoiceStream, parse_codec
from weirlab.traffic.encapsulation import packets
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.encapsulation.suites import suite

ArmName = Literal["bypass", "sockets", "sockets-real-time"]
Beside = Literal["idle", "hog"]

MOST_CALLS: Final = 20_000
MOST_PACKETS: Final = 1 << 16
"""Of a stream: sequence numbers of RTP tell so many apart."""
MOST_TIMES: Final = 8_000_000
"""Packets of an attempt in one direction, whose times are kept in memory until it is over."""
CLEAR: Final = "none"


def _codec(text: str) -> object:
    from weirlab.traffic.calls.codecs import parse_codec

    stream = parse_codec(text)
    if stream.payload_bytes > _MOST_PAYLOAD_BYTES:
        raise InputError(
            f"{stream.title} has {stream.payload_bytes} B of speech per packet; at most "
            f"{_MOST_PAYLOAD_BYTES:,} are possible: use a shorter packet time"
        )
    return stream


def _suite(text: str) -> object:
    from weirlab.traffic.encapsulation.suites import suite

    if text == CLEAR:
        return CLEAR
    try:
        return suite(text)
    except InputError as error:
        raise InputError(f"{error}, or {CLEAR} for calls in the clear") from None


_MOST_PAYLOAD_BYTES: Final = 1200
CodecText = Annotated[str, Field(max_length=40), readable(_codec)]
SuiteText = Annotated[str, Field(max_length=40), readable(_suite)]
Calls = Annotated[int, Field(strict=True, ge=1, le=MOST_CALLS)]
Ratio = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class CallLimitSection(Section):
    """The search for the most calls."""

    most_calls: Calls = 10_000
    """Maximum calls to try."""
    late_ms: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 10.0
    """A packet is bad if it is heard later than this after it was due, in ms, or not at all."""
    bad_share: Ratio = 0.001
    """Maximum share of bad packets."""
    trial_s: Annotated[float, Field(ge=0.2, le=3600, allow_inf_nan=False)] = 1.0
    """Length of a trial after its warm-up, in s."""
    trials: Annotated[int, Field(strict=True, ge=1, le=99)] = 2
    """Maximum trials per number of calls; fewer if they agree."""
    width: Ratio = 0.1
    """Distance of the bounds at which the search ends, as a share of the upper one."""


class EndpointsSection(Section):
    """Endpoints and calls to measure."""

    codec: CodecText = "g711"
    """Codec of every call, with an optional packet time."""
    suite: SuiteText = "aes-gcm-16"
    """Cipher suite of ESP; ``none``: calls in the clear."""
    mode: Literal["transport", "tunnel"] = "transport"
    """Mode of ESP."""
    arms: Annotated[tuple[ArmName, ...], NotEmpty, AfterValidator(no_repeats)] = (
        "bypass", "sockets", "sockets-real-time",
    )  # fmt: skip
    """``bypass``: AF_XDP sockets, polled by real-time threads; ``sockets``: UDP sockets of ordinary threads;
    ``sockets-real-time``: the same, of real-time threads."""
    beside: Annotated[tuple[Beside, ...], NotEmpty, AfterValidator(no_repeats)] = ("idle", "hog")
    """What else runs on each endpoint's CPU: nothing, or a program that never sleeps."""
    calls: Annotated[tuple[Calls, ...], NotEmpty, AfterValidator(no_repeats)] = (1, 100, 1000)
    """Numbers of calls to compare."""
    warmup_s: WarmUp = 0.5
    """Time of calls before recording, in s."""
    lasts_s: Seconds = 4.0
    """Recorded time of an attempt, in s."""
    repetitions: Repetitions = 5
    """Valid attempts of each kind."""
    limit: CallLimitSection | None = CallLimitSection()
    """The search for the most calls; ``null``: none."""
    max_attempts: Attempts = 4
    """Maximum tries of an attempt that the host spoils."""
    seed: Seed = 1
    """Seed of the times at which calls begin, and of the order of attempts."""


class EndpointScenario(Root, title="Weir scenario: endpoints of calls"):
    """A scenario about endpoints that bypass the kernel."""

    KEY = "endpoints"

    endpoints: EndpointsSection

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        what = self.endpoints
        yield (("endpoints",), len(what.arms) * len(what.beside) * len(what.calls) * what.repetitions)

    def conflicts(self) -> Iterator[Conflict]:
        from weirlab.traffic.calls.codecs import parse_codec

        what = self.endpoints
        packet_s = parse_codec(what.codec).packet_ns / 1e9
        attempts = [("lasts_s", what.lasts_s, max(what.calls))]
        if what.limit is not None:
            attempts.append(("limit", what.limit.trial_s, what.limit.most_calls))
        for place, lasts_s, calls in attempts:
            packets = round((what.warmup_s + lasts_s) / packet_s)
            if packets > MOST_PACKETS:
                longest_s = MOST_PACKETS * packet_s
                yield ("endpoints", place), f"with the warm-up at most {longest_s:,.0f} s are possible"
            elif packets * calls > MOST_TIMES:
                yield (
                    ("endpoints", place),
                    f"{calls:,} calls of {packets:,} packets are too many to keep: shorten the attempts, or "
                    "leave the highest numbers of calls out",
                )


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
