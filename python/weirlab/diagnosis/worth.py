"""Whether a captured connection has enough data for a diagnosis; needs nothing heavy."""

from __future__ import annotations

from typing import Final

from weirlab.diagnosis.causes import Source
from weirlab.trace.facts import Connection, SideName, busier, side

LEAST_SEGMENTS: Final = 20
"""Segments with data. Fewer say nothing about what limits a transfer."""
LEAST_TIMEOUTS: Final = 2
"""Retransmission time-outs that say enough, however little was sent."""
LEAST_TRIPS: Final = 4
"""Round trips that a transfer must last."""


def worth_it(connection: Connection, sender: SideName | None = None) -> bool:
    """Whether there is enough data to say why it was not faster."""
    name = sender or busier(connection)
    sent = side(connection, name)
    waited = sent["retransmissions"]["timeout"] >= LEAST_TIMEOUTS
    if sent["data_ns"] is None or (sent["data_packets"] < LEAST_SEGMENTS and not waited):
        return False
    if sent["unique_bytes"] == 0:
        return False
    return sent["data_ns"][1] - sent["data_ns"][0] > LEAST_TRIPS * least_ns(connection, name)


def source(connection: Connection, sender: SideName) -> tuple[Source, bool]:
    """Where it was captured, seen from ``sender``; and whether that is known."""
    match connection["place"]:
        case "at_a" | "at_b" as place:
            return ("sender" if place == f"at_{sender}" else "receiver"), True
        case "between":
            return "between", True
        case _:
            return "sender", False


def least_ns(connection: Connection, sender: SideName) -> int:
    """The minimum RTT of the whole path, ns; 0 if it is not known."""
    there = side(connection, sender)["rtt"]["min_ns"]
    whole = [each for each in connection["handshake_ns"] if each is not None]
    known = [sum(whole)] if len(whole) == 2 else []
    if source(connection, sender)[0] == "sender" and there is not None:
        known.append(there)
    return min(known, default=0)
