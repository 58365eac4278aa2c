"""What was skipped in a capture, in sentences, so that an empty result is explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weirlab.trace.quantities import plural, words

OPAQUE: Final = {
    "mpls": "MPLS without IP right behind its labels (a pseudowire, for instance)",
    "macsec": "encrypted frames (MACsec)",
    "wireless": "encrypted, partial or aggregated frames of a wireless LAN",
    "backbone": "frames in frames (provider backbone bridges, 802.1ah)",
    "ppp": "PPP that is compressed, encrypted or spread over several links",
    "tunnel": "a tunnel with neither IP nor Ethernet inside",
    "deep": "tunnels in more than four tunnels",
    "fax": "a fax (T.38: no voice, and so without MOS)",
}
"""Packets that may contain IP but are not analysed."""

UNREAD: Final = (
    ("malformed", "with headers that contradict themselves or are cut off"),
    ("unknown_link", "of a link type that Weir does not know"),
    ("timeless", "without a time"),
    ("misdated", "with a time before 1824 or after 2116, which cannot be"),
)


def opaque(counts: Mapping[str, int]) -> list[str]:
    """A sentence about each kind of packet that is not analysed."""
    return [
        f"{plural(number, 'packet')} {'carries' if number == 1 else 'carry'} {OPAQUE[name]}, which Weir does "
        "not look into."
        for name, number in counts.items()
    ]


def unread(read: Mapping[str, Any]) -> str:
    """A sentence about packets that could not be used; empty if there are none."""
    said = [f"{plural(read[name], 'packet')} {what}" for name, what in UNREAD if read.get(name)]
    if said and read.get("unknown_links"):
        said = [text + _numbers(read) if text.endswith("does not know") else text for text in said]
    return f"The capture has {words(said)}." if said else ""


def instead_of_tcp(read: Mapping[str, Any]) -> str:
    """What a capture without TCP has: ``12 are UDP and 3 not IP``; empty if there is TCP."""
    if read["tcp"] or not read["selected"]:
        return ""
    numbers = {
        "UDP": read["udp"],
        "ESP": read["esp"],
        "other protocols over IP": read["other_ip"],
        "fragments": read["fragments"] - read["reassembled"],
        "not IP": read["not_ip"],
        "not looked into": sum(read["opaque"].values()),
        "not understood": read["malformed"] + read["unknown_link"],
    }
    found = [(number, what) for what, number in numbers.items() if number > 0]
    first, *rest = [f"{number:,} {what}" for number, what in found] or [""]
    verb = "is" if found and found[0][0] == 1 else "are"
    return words([first.replace(" ", f" {verb} ", 1), *rest]) if first else ""


def _numbers(read: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'LINKTYPE {number}' for number in read['unknown_links'])})"
