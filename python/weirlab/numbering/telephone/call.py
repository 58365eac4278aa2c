"""One call of a telephone, from Setup to Release Complete. It does no I/O: ``now_s`` is an argument."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.telephone import h225, h245
from weirlab.numbering.telephone.h225 import H225Message
from weirlab.numbering.telephone.h245 import Channel

ANSWER_S: Final = 0.1
"""How long it rings."""
RESPONSE_S: Final = 4.0
"""Time limit for the first answer to a Setup (Q.931, timer T303)."""
CHANNEL_S: Final = 10.0
"""Time limit from Connect until there is a channel for speech."""

_TERMINAL: Final = 50
"""Type of a terminal without a multipoint controller (H.323, table 1)."""
_NUMBERS: Final = 1 << 24


@dataclass(frozen=True)
class TelephoneIdentity:
    """What is the same for all calls of a telephone."""

    name: str
    signalling: Address
    """Where it takes calls."""
    codecs: tuple[str, ...]
    """The preferred one first."""


class Call:
    """The state of a call at one of its ends.

    What it wants to say is in ``out`` (call signalling) and ``controls`` (H.245), to be sent in that order.

    Parameters
    ----------
    media:
        Where it hears speech (RTP); RTCP would be one port above.
    control:
        Where a connection of H.245 is waited for, if it is the callee.
    number:
        Called, digits.
    """

    def __init__(
        self,
        own: TelephoneIdentity,
        media: Address,
        control: Address,
        identifier: str,
        reference: int,
        number: str,
    ) -> None:
        self.own, self.media = own, media
        self._rtcp = media._replace(port=media.port + 1)
        self.identifier, self.reference, self.number = identifier, reference, number
        self.out: list[H225Message] = []
        self.controls: list[h245.ControlMessage] = []
        self.connects_to: Address | None = None
        """Where it wants a connection of H.245."""
        self.speaks_to: Address | None = None
        self.codec = ""
        """In which it speaks."""
        self.connected = False
        """The call has been answered."""
        self.over = False
        self.cause = 0
        self.why = ""
        """Why the call ended, in words; empty if it ended normally."""
        self.heard_s: float | None = None
        """When the first speech was heard."""
        self._control = control
        self._calls = True
        self._proposed: tuple[Channel, ...] = ()
        self._answers_s: float | None = None
        self._limit_s: float | None = None
        self._limit = ""
        self._theirs: tuple[str, ...] | None = None
        """What the other end can receive, from H.245."""
        self._understood = False
        """The other end has acknowledged what this end can receive."""
        self._rank = random.randrange(_NUMBERS)
        self._master: bool | None = None
        self._determined = False
        self._opened = False

    # The caller.

    def begin(self, now_s: float) -> None:
        """Call: propose channels in each codec, the preferred one first."""
        self._proposed = tuple(self._proposals())
        setup = H225Message(
            h225.SETUP, self.reference, False, self.identifier, self.number, channels=self._proposed,
            source=self.own.signalling, alias=self.own.name,
        )  # fmt: skip
        self.out.append(setup)
        self._limited(now_s + RESPONSE_S, "no answer to Setup")

    def _proposals(self) -> Iterator[Channel]:
        for rank, codec in enumerate(self.own.codecs):
            number = 2 * rank + 1
            yield Channel(number, codec, control=self._rtcp)
            yield Channel(number + 1, codec, reverse=True, media=self.media, control=self._rtcp)

    # The callee.

    @classmethod
    def taken(cls, own: TelephoneIdentity, media: Address, control: Address, setup: H225Message) -> Call:
        """A call that ``setup`` begins; it rings once it is :meth:`admitted`."""
        call = cls(own, media, control, setup.call, setup.reference, setup.number)
        call._calls = False
        call._proposed = setup.channels
        call._say(h225.PROCEEDING)
        return call

    def admitted(self, now_s: float) -> None:
        """The gatekeeper allows it, or there is none: ring."""
        if not self.over:
            self._say(h225.ALERTING)
            self._answers_s = now_s + ANSWER_S

    def _answer(self, now_s: float) -> None:
        """By fast connect if there is a codec in common each way, else by H.245."""
        self.connected = True
        there = next((each for each in self._proposed if not each.reverse and self._known(each)), None)
        back = next(
            (each for each in self._proposed if each.reverse and each.media and self._known(each)), None
        )
        if there is None or back is None:
            self._say(h225.CONNECT, control=self._control)
            self._limited(now_s + CHANNEL_S, "no channel for speech")
            return
        channels = (
            Channel(there.number, there.codec, media=self.media, control=self._rtcp),
            Channel(back.number, back.codec, reverse=True, media=back.media, control=self._rtcp),
        )
        self.codec, self.speaks_to = back.codec, back.media
        self._say(h225.CONNECT, channels=channels)

    # Both.

    def signalled(self, signal: H225Message, now_s: float) -> None:
        """A message of call signalling arrived."""
        if self.over or (signal.kind != h225.RELEASE and not self._calls):
            return
        if signal.kind == h225.RELEASE:
            self._end(signal.cause or h225.NORMAL)
            return
        self._limit_s = None
        if self.speaks_to is None and signal.channels:
            self._accepted(signal.channels)
        if signal.kind == h225.CONNECT:
            # A callee may tell its address for H.245 later, by Facility.
            self.connected = True
        if signal.control is not None and self.speaks_to is None and self.connects_to is None:
            self.connects_to = signal.control
        if self.connected and self.speaks_to is None:
            self._limited(now_s + CHANNEL_S, "no channel for speech")

    def opened(self) -> None:
        """The connection of H.245 is there: say what we hear, and find out who is the master."""
        self.controls += [h245.Capabilities(1, self.own.codecs), h245.Determination(_TERMINAL, self._rank)]

    def controlled(self, message: h245.ControlMessage, now_s: float) -> None:
        """A message of H.245 arrived."""
        match message:
            case h245.Capabilities(number, codecs):
                self._theirs = codecs
                self.controls.append(h245.CapabilitiesAck(number))
            case h245.CapabilitiesAck():
                self._understood = True
            case h245.Determination(kind, number):
                self._determine(kind, number)
            case h245.DeterminationAck(you_are_master):
                if not self._determined:
                    self._determined = True
                    self.controls.append(h245.DeterminationAck(not you_are_master))
                self._master = you_are_master
            case h245.OpenChannel(channel):
                self._open(channel)
            case h245.OpenChannelAck(_, media) if media is not None:
                self.speaks_to = media
                self._limit_s = None
            case h245.OpenChannelReject():
                self.hang_up(h225.NO_CODEC, f"the other end does not take {self.codec}")
            case h245.CloseChannel(number):
                self.controls.append(h245.CloseChannelAck(number))
            case h245.RoundTrip(number):
                self.controls.append(h245.RoundTripAnswer(number))
        if self._theirs is not None and self._understood and self._master is not None and not self._opened:
            self._opened = True
            self._open_own()

    def heard(self, now_s: float) -> None:
        """A packet of speech arrived."""
        if self.heard_s is None:
            self.heard_s = now_s

    def due(self, now_s: float) -> None:
        """Do what is due."""
        if self._answers_s is not None and now_s >= self._answers_s and not self.over:
            self._answers_s = None
            self._answer(now_s)
        if self._limit_s is not None and now_s >= self._limit_s:
            self.hang_up(h225.EXPIRED, f"{self._limit} in time")

    def hang_up(self, cause: int = h225.NORMAL, why: str = "") -> None:
        """End the call."""
        if not self.over:
            if self._opened:
                self.controls.append(h245.EndSession())
            self._say(h225.RELEASE, cause=cause)
            self._end(cause, why)

    def closed(self, why: str) -> None:
        """The connection of call signalling is gone."""
        if not self.over:
            self._end(h225.FAILURE, why)

    def _known(self, channel: Channel) -> bool:
        return channel.codec in self.own.codecs

    def _accepted(self, channels: Sequence[Channel]) -> None:
        there = next(
            (channel for channel in channels if not channel.reverse and channel.media is not None), None
        )
        if there is not None and self._known(there):
            self.codec, self.speaks_to = there.codec, there.media

    def _determine(self, kind: int, number: int) -> None:
        """The larger type is the master's, else whose number is behind by less than half (H.245, C.2)."""
        ahead = (number - self._rank) % _NUMBERS
        ours = kind < _TERMINAL or (kind == _TERMINAL and 0 < ahead < _NUMBERS // 2)
        self._master, self._determined = ours, True
        self.controls.append(h245.DeterminationAck(not ours))

    def _open(self, channel: Channel) -> None:
        if not self._known(channel):
            self.controls.append(h245.OpenChannelReject(channel.number))
            return
        self.controls.append(h245.OpenChannelAck(channel.number, self.media, self._rtcp))

    def _open_own(self) -> None:
        codec = next((each for each in self.own.codecs if each in (self._theirs or ())), None)
        if codec is None:
            theirs = ", ".join(self._theirs or ()) or "none of ours"
            self.hang_up(
                h225.NO_CODEC, f"no codec in common: {', '.join(self.own.codecs)} here, {theirs} there"
            )
            return
        self.codec = codec
        self.controls.append(h245.OpenChannel(Channel(1, codec, control=self._rtcp)))

    def _say(
        self, kind: int, cause: int = 0, control: Address | None = None, channels: tuple[Channel, ...] = ()
    ) -> None:
        told = H225Message(
            kind, self.reference, not self._calls, self.identifier, cause=cause, control=control,
            channels=channels,
        )  # fmt: skip
        self.out.append(told)

    def _limited(self, at_s: float, what: str) -> None:
        self._limit_s, self._limit = at_s, what

    def _end(self, cause: int, why: str = "") -> None:
        self.over, self.cause, self.why = True, cause, why
        self.speaks_to = self.connects_to = None
        self._limit_s = None
