"""What the two SYNs of a connection offer, and what both ends agreed on."""

from __future__ import annotations

from typing import Final

from weirlab.trace.facts import Connection, SideName, SynOptions

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
