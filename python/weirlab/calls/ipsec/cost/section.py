"""What a scenario about the cost of ESP may say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, Field

from weirlab.base.errors import InputError
from weirlab.scenario.calls import CodecText
from weirlab.scenario.conflicts import Conflict
from weirlab.scenario.model import Root, Section
from weirlab.scenario.values import NotEmpty, no_repeats, readable
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.encapsulation.suites import suite

EspMode = Literal["transport", "tunnel"]
CostWay = Literal[
    "out", "out-each", "out-udp", "out-rtp", "in", "in-udp", "in-rtp", "in-layers", "in-system"
]  # fmt: skip
WAYS: Final[tuple[CostWay, ...]] = get_args(CostWay)
LONGEST_BYTES: Final = 1500

SuiteText = Annotated[str, Field(max_length=40), readable(suite)]


class EspCostSection(Section):
    """Packets to process, and what is timed."""

    codec: CodecText = "g711"
    """Codec of the speech."""
    packet_times_ms: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1000)], ...], NotEmpty, AfterValidator(no_repeats)
    ] = (10, 20, 30, 40, 50, 60)
    """Packet times, in ms."""
    suites: Annotated[tuple[SuiteText, ...], NotEmpty, AfterValidator(no_repeats)] = (
        "aes-cbc",
        "aes-cbc-hmac-md5-96",
        "aes-cbc-hmac-sha1-96",
        "aes-cbc-hmac-sha256-128",
        "aes-gcm-16",
        "chacha20-poly1305",
    )
    """Cipher suites of ESP."""
    modes: Annotated[tuple[EspMode, ...], NotEmpty, AfterValidator(no_repeats)] = ("transport", "tunnel")
    """Modes of ESP."""
    ways: Annotated[tuple[CostWay, ...], NotEmpty, AfterValidator(no_repeats)] = WAYS
    """``out``: encapsulated; ``out-each``: eight at a time; ``out-udp``, ``out-rtp``: headers written before,
    with UDP or without; ``in``: decapsulated; ``in-udp``, ``in-rtp``: and handed to its call, with UDP or
    without; ``in-layers``: through a queue between IPsec and UDP; ``in-system``: through a socket."""
    rounds: Annotated[int, Field(strict=True, ge=2, le=10_000)] = 40
    """Rounds; in each, every case has its turn."""
    packets: Annotated[int, Field(strict=True, ge=8, le=100_000)] = 64
    """Packets that a case handles in a round. Few stay in the CPU's caches."""
    associations: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 1
    """Security associations, used in turn."""

    def sizes(self) -> tuple[tuple[float, int], ...]:
        """Packet times with the lengths of their IP packets in the clear."""
        name = self.codec.partition(":")[0]
        streams = [(packet_ms, parse_codec(f"{name}:{packet_ms:g}ms")) for packet_ms in self.packet_times_ms]
        return tuple((ms, VoicePacket(stream.payload_bytes).packet_bytes) for ms, stream in streams)


class EspCostScenario(Root, title="Weir scenario: cost of ESP"):
    """A scenario about the processing time of packets with ESP."""

    KEY = "esp"

    esp: EspCostSection

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        what = self.esp
        cases = len(what.suites) * len(what.modes) * len(what.ways) * len(what.packet_times_ms)
        yield ("esp",), what.rounds * cases

    def conflicts(self) -> Iterator[Conflict]:
        what = self.esp
        if ":" in what.codec:
            yield ("esp", "codec"), "the packet time is in 'packet_times_ms': leave it out here"
            return
        try:
            longest = max(length for _, length in what.sizes())
        except InputError as error:
            yield ("esp", "packet_times_ms"), str(error)
            return
        if longest > LONGEST_BYTES:
            yield (
                ("esp", "packet_times_ms"),
                f"packets of {longest:,} B; at most {LONGEST_BYTES:,} are possible: use shorter packet times",
            )
