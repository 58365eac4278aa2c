"""Which calls to make, in the user's terms, and as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from weirlab.base.documents import SPARSE
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.traffic.calls.codecs import VoiceStream, describe_codec, parse_codec
from weirlab.traffic.calls.offered import parse_count
from weirlab.traffic.calls.transport import TITLES, TRANSPORTS, Transport, check, parse_transport

__all__ = [
    "TRANSPORTS", "CallClass", "Calls", "Direction", "Phases", "Transport", "describe", "parse_calls",
    "parse_classes",
]  # fmt: skip

Direction = Literal["forward", "back", "both"]
"""``forward``: from the sender's side through the device to the receiver's; ``back``: the other way."""

Phases = Literal["even", "random"]

RTCP_MIN_S: Final = 5.0
"""Shortest mean time between control packets of one side (RFC 3550 section 6.2)."""
_RTCP_MOST_S: Final = 86_400


@dataclass(frozen=True)
class CallClass:
    """Calls of one kind.

    ``share`` is their part of all calls (shares of all classes sum to 1).
    """

    stream: VoiceStream
    transport: Transport = "rtp"
    share: float = 1.0
    trunk_calls: int | None = None
    """Calls whose speech shares a packet (``iax2-trunk`` only); None: as many as fit."""


@dataclass(frozen=True)
class Calls:
    """Calls that go on at the same time.

    ``standing`` calls are up from the first packet to the last. With ``poisson`` arrivals,
    callers come at random and stay for an exponential time of mean ``holding_s``, so that
    ``count`` calls are up on average.

    With only one direction, only that side sends anything: not even its signalling is answered.
    """

    classes: tuple[CallClass, ...]
    count: int
    directions: Direction = "both"
    phases: Phases = "even"
    """How the calls' packets are phased: spread evenly over the packet time, or at random. Calls that
    arrive at random have random phases."""
    arrivals: Literal["standing", "poisson"] = "standing"
    holding_s: float = 180.0
    spurts: bool = False
    """Talk spurts and silences after ITU-T P.59 instead of continuous speech."""
    rtcp: bool = True
    """Control packets, 5 % of the session bandwidth (RFC 3550 section 6.2); RTP only."""
    signalling: bool = True
    """SIP or IAX2 messages if a call is set up or torn down during the trial. Standing calls are
    set up in the warm-up, if that is long enough; if not, they are up from the start."""
    seed: int = 1
    rtcp_min_s: float = RTCP_MIN_S
    """Least mean time between control packets of one side: the 5 s of RFC 3550 leave most voice
    sessions far below their 5 %; 0 as in RFC 4585 (AVPF) makes them use it up."""
    one_flow: bool = field(default=False, metadata=SPARSE)
    """All calls have the addresses and ports of the first, so that a device sees them as one connection
    (of each transport)."""


ACCEPTED: Final = (
    "'g711', 'g729:40ms' (packet time), 'g711/rtp:50,gsm/iax2:50' (codec/transport:share) or "
    "'gsm:40ms/iax2-trunk*8:30,opus@24kbit/s:70'"
)

_PART: Final = re.compile(
    r"(?P<codec>[^/:,]+(?:bit/s)?(?::[0-9.]+ms)?)(?:/(?P<transport>(?!s(?:[:/]|$))[a-z][^/:,]*))?(?::(?P<share>[0-9.]+)%?)?"
)


def parse_calls(
    count: str | int, codec: str = "g711", transport: str = "rtp", ip: Literal[4, 6] = 4
) -> Calls:
    """Calls that stand all the time; use :func:`dataclasses.replace` for other fields.

    Parameters
    ----------
    count
        As :func:`weirlab.traffic.calls.offered.parse_count` reads it: ``1000``, ``10k``, ``20erl``.
    codec
        A codec, or codecs with their shares: parts are separated by commas, and each is
        ``CODEC[:PACKETms][/TRANSPORT][:SHARE]``. In such a part the packet time needs its ``ms``, since
        a bare number is a share. Shares are relative to their sum; parts without shares are equal.
    transport
        For parts that name none: ``rtp``, ``iax2``, ``iax2-trunk`` or ``iax2-trunk*8``.

    Raises
    ------
    InputError
        The text is not understood, or the calls are impossible.
    """
    text = codec.strip().lower().replace(" ", "")
    usual = parse_transport(transport)
    parts = [_part(part, codec, usual, ip) for part in text.split(",")]
    shares = [share for _, share in parts]
    if len(parts) == 1 and shares[0] is not None:
        raise InputError(
            f"calls {quoted(codec)}: is the number behind the colon a share or a packet time? A share needs "
            f"another codec beside it; for the packet time write '{text}ms'"
        )
    if any(share is None for share in shares) and any(share is not None for share in shares):
        raise InputError(f"calls {quoted(codec)}: give every part a share, or none")
    weights = [1.0 if share is None else share for share in shares]
    total = sum(weights)
    if not (math.isfinite(total) and total > 0 and min(weights) > 0):
        raise InputError(f"calls {quoted(codec)}: shares must be above 0")
    calls = Calls(
        tuple(
            CallClass(kind.stream, kind.transport, weight / total, kind.trunk_calls)
            for (kind, _), weight in zip(parts, weights, strict=True)
        ),
        parse_count(count),
    )
    validate(calls)
    return calls


def parse_classes(text: str, transport: Transport = "rtp", ip: Literal[4, 6] = 4) -> tuple[CallClass, ...]:
    """Kinds of calls: a codec with an optional packet time, or a mix as :func:`parse_calls` reads it.

    ``transport`` is for parts that name none. Raises ``InputError`` as that does.
    """
    if "," not in text and "/" not in text:
        return (CallClass(parse_codec(text, ip), transport),)
    return parse_calls(1, text, transport, ip).classes


def validate(calls: Calls) -> None:
    """Raise ``InputError`` for calls that cannot be made."""
    if not calls.classes:
        raise InputError("there are no kinds of calls: name a codec")
    if calls.count < 1:
        raise InputError(f"{calls.count} calls: 1 or more are possible")
    if abs(sum(kind.share for kind in calls.classes) - 1) > 1e-6:
        raise InputError("the shares of the kinds of calls must sum to 1")
    if any(kind.share <= 0 for kind in calls.classes):
        raise InputError("the share of a kind of calls must be above 0")
    if len({kind.stream.ip for kind in calls.classes}) > 1:
        raise InputError("calls over IPv4 and IPv6 in one trial are not possible; choose one")
    if not (math.isfinite(calls.holding_s) and calls.holding_s > 0):
        raise InputError(f"holding time of {calls.holding_s:g} s: it must be above 0 s")
    if not 0 <= calls.rtcp_min_s <= _RTCP_MOST_S:
        raise InputError(
            f"{calls.rtcp_min_s:g} s between control packets: 0 s to {_RTCP_MOST_S:,} s are possible; "
            "without any, leave RTCP out"
        )
    if calls.seed < 0:
        raise InputError(f"seed {calls.seed}: it must be 0 or more")
    for kind in calls.classes:
        check(kind.stream, kind.transport, kind.trunk_calls)
        if kind.transport == "iax2-trunk" and (calls.spurts or calls.arrivals == "poisson"):
            what = "talk spurts" if calls.spurts else "calls that come and go"
            raise InputError(
                f"{what} over IAX2 trunks: which calls are in a packet would change from packet to packet, "
                "so a lost packet would not show whose speech was lost; use iax2 or rtp"
            )


def describe(calls: Calls) -> str:
    """For people: ``1,000 calls, G.711 in packets of 20 ms over RTP, both directions, evenly phased``."""
    ways = {"both": "both directions", "forward": "forward only", "back": "back only"}
    traits = [ways[calls.directions]]
    if calls.arrivals == "poisson":
        traits.append(f"coming and going, {calls.holding_s:g} s on average")
    else:
        traits.append("evenly phased" if calls.phases == "even" else "randomly phased")
    if calls.spurts:
        traits.append("talk spurts")
    if calls.one_flow:
        traits.append("all between the same addresses and ports")
    several = len(calls.classes) > 1
    kinds = " and ".join(
        (f"{100 * kind.share:.3g} % " if several else "") + f"{kind.stream.title} over {_over(kind)}"
        for kind in calls.classes
    )
    noun = "call" if calls.count == 1 else "calls"
    return f"{calls.count:,} {noun}, {kinds}, {', '.join(traits)}"


def describe_classes(classes: Sequence[CallClass]) -> str:
    """The text that :func:`parse_calls` reads back as ``classes``."""
    return ",".join(
        f"{describe_codec(kind.stream)}/{_transport(kind)}"
        + (f":{100 * kind.share:.12g}" if len(classes) > 1 else "")
        for kind in classes
    )


def _transport(kind: CallClass) -> str:
    return kind.transport + ("" if kind.trunk_calls is None else f"*{kind.trunk_calls}")


def _over(kind: CallClass) -> str:
    per_packet = "" if kind.trunk_calls is None else f" of {kind.trunk_calls}"
    return TITLES[kind.transport] + per_packet


def _part(
    part: str, whole: str, usual: tuple[Transport, int | None], ip: Literal[4, 6]
) -> tuple[CallClass, float | None]:
    match = _PART.fullmatch(part)
    if match is None:
        raise InputError(f"calls {quoted(whole)}: {quoted(part)} not understood; accepted are {ACCEPTED}")
    stream = parse_codec(match["codec"], ip)
    transport, trunk_calls = parse_transport(match["transport"]) if match["transport"] else usual
    share = None
    if match["share"]:
        try:
            share = float(match["share"])
        except ValueError:
            raise InputError(f"calls {quoted(whole)}: share {quoted(match['share'])} is no number") from None
    return CallClass(stream, transport, 1.0, trunk_calls), share
