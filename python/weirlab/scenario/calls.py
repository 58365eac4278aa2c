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
    """What all calls have in common; their number varies."""

    codec: CodecText = "g711"
    """Codec, followed by a colon and the packet time if that is not the usual one, e.g. ``g711:30ms``."""
    transport: Transport = "rtp"
    ip: Literal[4, 6] = 4
    directions: Direction = "both"
    """Who talks: ``forward`` is from the sender's side through the device to the receiver's."""
    phases: Phases = "even"
    """Whether packets of different calls are spread evenly over the packet time, or at random."""
    spurts: bool = False
    """Talk spurts and silences of ITU-T P.59 instead of continuous speech."""
    rtcp: bool = True
    """Whether RTCP packets are sent."""
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
