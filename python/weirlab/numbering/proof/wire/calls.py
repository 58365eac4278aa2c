"""Calls on the wire, in all protocols: legs from engine to engine, and every message. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from weirlab.numbering.lab.recorder import Frame
from weirlab.numbering.proof.wire import h323, mgcp, signalling
from weirlab.numbering.proof.wire.signalling import CallLeg, LadderMessage, SipMessage


def seen(frames: Sequence[Frame]) -> tuple[list[CallLeg], list[LadderMessage], list[SipMessage]]:
    """Legs of SIP, H.323 and MGCP; all messages by time; and the SIP messages alone."""
    sip = signalling.messages(frames)
    heard, asked = h323.signals(frames), h323.requests(frames)
    controlled = h323.controls(frames, heard)
    commands = mgcp.commands(frames)
    legs = [*signalling.legs(sip), *h323.legs(heard, asked, controlled)]
    legs += mgcp.legs(commands, legs)
    told = [*signalling.ladder(sip), *h323.ladder(heard, asked, controlled), *mgcp.ladder(commands)]
    return (sorted(legs, key=lambda leg: leg.at_ns), sorted(told, key=lambda each: each.at_ns), sip)
