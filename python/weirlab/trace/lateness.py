"""Which end of a connection took the time, as remarks: what packets show without a look at every one."""

from __future__ import annotations

from typing import Final

from weirlab.trace.facts import Connection, SideName, side, sides
from weirlab.trace.quantities import duration, words

SECOND_NS: Final = 1_000_000_000


def reset_by(connection: Connection) -> str:
    """`` by a``; empty if no RST was captured."""
    by = [name for name, end in zip("ab", sides(connection), strict=True) if end["resets"]]
    return f" by {words(by)}" if by else ""


def lateness(connection: Connection) -> list[str]:
    """What ends, rather than the path, took the time; and an end in the middle."""
    a, b = sides(connection)
    if not (data := [end["data_ns"] for end in (a, b) if end["data_ns"]]):
        return []
    first_ns, last_ns = min(begun for begun, _ in data), max(ended for _, ended in data)
    least_ns = max(LATE_NS, int(LATE * (last_ns - connection["first_ns"])))
    remarks = []
    to_b, to_a = connection["handshake_ns"]
    by_a = a["data_ns"] is not None and a["data_ns"][0] == first_ns
    if connection["begin"] == "handshake" and to_a is not None and to_b is not None:
        waited_ns = first_ns - connection["first_ns"] - to_b - to_a - (0 if by_a else to_b)
        if waited_ns >= least_ns:
            remarks.append(f"{'a' if by_a else 'b'} began to send {duration(waited_ns)} after the handshake")
    for name, peer, end in (("a", "b", a), ("b", "a", b)):
        number, took_ns = end.get("answers", 0), end.get("answers_ns", 0)
        if took_ns >= least_ns:
            most = f" in all, {duration(end['answer_max_ns'])} at most" if number > 1 else ""
            told = f"took {duration(took_ns)} to answer"
            if connection["begin"] != "handshake" or by_a == (name == "a"):
                # Who sent data first asks, and what it sends later may be the next question. Who did is not
                # known of a capture that begins later.
                told = f"sent its next data {duration(took_ns)} after {peer}'s"
            remarks.append(f"{name} {told}{most}")
    remarks += [said for names in ("ab", "ba") if (said := _mute(connection, *names)) is not None]
    if connection["end"] == "reset":
        remarks.append(f"it was reset{reset_by(connection)}")
    return remarks


def _mute(connection: Connection, name: SideName, peer: SideName) -> str | None:
    """That ``name`` sent no data although the other end did and waited for some; None if it sent any."""
    end, other = side(connection, name), side(connection, peer)
    if not end["packets"]:
        return f"nothing that {name} sent was captured"
    if end["data_packets"] or other["data_ns"] is None or other["data_packets"] > FEW:
        return None
    waited_ns = connection["last_ns"] - other["data_ns"][1]
    return f"{name} sent no data within {duration(waited_ns)}" if waited_ns > SECOND_NS else None


FEW: Final = 10
"""Segments that may be requests; more are a transfer, which wants no answer."""
LATE: Final = 0.2
"""Share of the time until the last data that an end must take to be told."""
LATE_NS: Final = 100_000_000
"""The least time that is told: people notice it."""
