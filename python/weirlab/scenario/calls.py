"""Calls in scenarios: the section ``calls`` of every kind that makes calls."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from weirlab.scenario.model import Section, Seed, readable
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls, Direction, Phases, Transport

CodecText = Annotated[
    str,
    readable(parse_codec),
    Field(json_schema_extra={"examples": ["g711", "g729:40ms", "opus@24kbit/s"]}),
]


class CallShape(Section):
    """What all calls have in common; how many there are varies."""

    codec: CodecText = "g711"
    """Codec, with the packet time behind a colon if not its usual one, e.g. ``g711:30ms``."""
    transport: Transport = "rtp"
    ip: Literal[4, 6] = 4
    directions: Direction = "both"
    """Who talks: ``forward`` is from the sender's side through the device to the receiver's."""
    phases: Phases = "even"
    """Packets of different calls evenly spread over the packet time, or at random."""
    spurts: bool = False
    """Talk spurts and silences after ITU-T P.59 instead of speech all the time."""
    rtcp: bool = True
    """Control packets of RTP."""
    seed: Seed = 1

    def calls(self, count: int) -> Calls:
        """``count`` such calls that last for the whole trial."""
        return Calls(
            classes=(CallClass(parse_codec(self.codec, self.ip), self.transport),),
            count=count,
            directions=self.directions,
            phases=self.phases,
            spurts=self.spurts,
            rtcp=self.rtcp,
            seed=self.seed,
        )
