"""Calls in scenarios: the section ``calls`` of every kind that makes calls."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from weirlab.scenario.model import Section
from weirlab.scenario.values import Seed, readable
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import Calls, Direction, Phases, Transport, parse_classes

CodecText = Annotated[
    str, readable(parse_codec), Field(json_schema_extra={"examples": ["g711", "g729:40ms", "opus@24kbit/s"]})
]

MixText = Annotated[
    str,
    readable(parse_classes),
    Field(json_schema_extra={"examples": ["g711", "g729:40ms", "g711:60,g729/iax2:40"]}),
]


class CallShape(Section):
    """What all calls have in common; their number varies."""

    codec: MixText = "g711"
    """Codec, followed by a colon and the packet time if that is not the usual one, e.g. ``g711:30ms``; or a
    mix: parts with commas between them, each ``CODEC:PACKETms/TRANSPORT:SHARE``, of which only the codec is
    needed."""
    transport: Transport = "rtp"
    """Transport of the calls, or of the parts of a mix that name none."""
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
            classes=parse_classes(self.codec, self.transport, self.ip),
            count=count,
            directions=self.directions,
            phases=self.phases,
            spurts=self.spurts,
            rtcp=self.rtcp,
            seed=self.seed,
        )
