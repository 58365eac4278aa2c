"""What the facts of a captured connection say before its packets are read; needs nothing heavy."""

from __future__ import annotations

from typing import Final

from weirlab.diagnosis.causes import Source
from weirlab.trace.facts import Connection, SideName, SynOptions, busier, side

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


_OPTIONS: Final = ("window_scale", "sack", "timestamps")


def refused(connection: Connection, sender: SideName) -> dict[str, str]:
    """By option, who did not offer it: an answer offers only what the first SYN (of ``a``) does."""
    ends = connection["a"]["options"], connection["b"]["options"]
    if ends[0] is None or ends[1] is None:
        return {}
    names = [f"the {'sender' if name == sender else 'receiver'}" for name in ("a", "b")]
    lacking = {option: [not has_offered(end, option) for end in ends if end] for option in _OPTIONS}
    return {option: names[each.index(True)] for option, each in lacking.items() if True in each}


def has_offered(end: SynOptions, option: str) -> bool:
    """Whether a SYN offers ``option``; a window scale of 0 is an offer, too."""
    offer = dict(end)[option]
    return offer is not None and offer is not False


def agreed(connection: Connection, option: str) -> bool | None:
    """Whether both ends offered an option; None where a SYN was not captured."""
    offers = [end["options"] for end in (connection["a"], connection["b"])]
    if any(offer is None for offer in offers):
        return None
    return all(has_offered(offer, option) for offer in offers if offer is not None)


def offered_mss(connection: Connection) -> int:
    """The smaller MSS of both SYNs, in bytes; 0 if neither was captured."""
    offers = (connection[name]["options"] for name in ("a", "b"))
    return min((o["mss"] for o in offers if o is not None and o["mss"] is not None), default=0)


def is_scaled(connection: Connection) -> bool:
    """Whether the scale of windows is known: the options of a SYN may be cut off, too."""
    both = all(connection[name]["options"] is not None for name in ("a", "b"))
    return connection.get("scaled", False) or (connection["begin"] == "handshake" and both)
