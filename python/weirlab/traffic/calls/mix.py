"""Calls with several codecs as one stream of packets, as a plan needs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quantities import percent
from weirlab.base.quoting import quoted
from weirlab.traffic.calls.codecs import VoiceStream, describe_codec
from weirlab.traffic.calls.spec import parse_classes
from weirlab.traffic.sizes import Constant, SizeMix, WeightedSizes

_PACKET_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)(?:ms)?")
_CODEC: Final = re.compile(r"\s*[^/:,\s]+(?:bit/s)?")
_TIMED: Final = re.compile(r":\s*[0-9.]+\s*ms\b")


@dataclass(frozen=True)
class VoiceMix:
    """The streams of calls, one direction each, and the shares of the calls, which sum to 1."""

    parts: tuple[tuple[VoiceStream, float], ...]

    @property
    def frame_bytes(self) -> float:
        """Mean Ethernet frame with FCS, over packets."""
        return sum(share * each.rate_pps * each.frame_bytes for each, share in self.parts) / self.rate_pps

    @property
    def sizes(self) -> SizeMix:
        """The sizes of its frames, over packets."""
        weights: dict[int, float] = {}
        for each, share in self.parts:
            weight = 100 * share * each.rate_pps / self.rate_pps
            weights[each.frame_bytes] = weights.get(each.frame_bytes, 0.0) + weight
        return Constant(*weights) if len(weights) == 1 else WeightedSizes(tuple(weights.items()))

    @property
    def rate_pps(self) -> float:
        """Packets per second of the mean stream while someone speaks."""
        return sum(share * each.rate_pps for each, share in self.parts)

    @property
    def packet_times_ms(self) -> tuple[float, ...]:
        """The packet times in it, each once, in ascending order."""
        return tuple(sorted({each.packet_ms for each, _ in self.parts}))

    @property
    def title(self) -> str:
        """``G.711 in packets of 20 ms (60 %) and G.729 in packets of 40 ms (40 %)``."""
        if len(self.parts) == 1:
            return self.parts[0][0].title
        return " and ".join(f"{each.title} ({percent(share)})" for each, share in self.parts)

    @property
    def name(self) -> str:
        """The title for columns: ``G.711 20 ms``, ``G.711 20 ms (60 %), G.729 40 ms (40 %)``."""
        alone = len(self.parts) == 1
        names = [
            f"{each.codec.title} {each.packet_ms:g} ms" + ("" if alone else f" ({percent(share)})")
            for each, share in self.parts
        ]
        return ", ".join(names)

    @property
    def text(self) -> str:
        """The text that :func:`parse_mix` reads back."""
        if len(self.parts) == 1:
            return describe_codec(self.parts[0][0])
        return ",".join(f"{describe_codec(each)}:{100 * share:g}" for each, share in self.parts)

    def calls_pps(self, calls: float, directions: int = 2) -> float:
        """Packets per second of ``calls`` calls; a two-way call is two streams."""
        return calls * directions * self.rate_pps


def parse_mix(text: str) -> VoiceMix:
    """Read a codec, or codecs with their shares, as ``weir calls`` does, over RTP and IPv4.

    Raises
    ------
    InputError
        The text is not understood, or a part has another transport than RTP.
    """
    classes = parse_classes(text)
    if other := next((each.transport for each in classes if each.transport != "rtp"), None):
        raise InputError(f"codec {quoted(text)}: a plan is for calls over RTP, not {other}")
    return VoiceMix(tuple((each.stream, each.share) for each in classes))


def with_packet_time(codecs: str, packet_time: str | None) -> str:
    """``codecs`` as :func:`parse_mix` reads them, with ``packet_time`` for each that names none.

    Raises ``InputError`` for a packet time that is none.
    """
    if packet_time is None:
        return codecs
    match = _PACKET_TIME.fullmatch(packet_time.strip().replace(" ", ""))
    if match is None:
        raise InputError(f"packet time {quoted(packet_time)} not understood; e.g. --packet-time 30ms")
    return ",".join(
        part if _TIMED.search(part) else _CODEC.sub(lambda name: f"{name[0]}:{match[1]}ms", part, count=1)
        for part in codecs.split(",")
    )
