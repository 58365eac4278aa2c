"""What SIP said about streams, compared with where they really went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any, Final

from weirlab.base.quoting import quoted
from weirlab.calls.quality.streams import CaptureStream, end
from weirlab.trace.quantities import duration, plural

_LEAST_NS: Final = 2_000_000_000
"""A call that is answered for a shorter time may be over before both speak."""
_MOST: Final = 8
"""Calls with a sentence of their own."""

Ports = frozenset[tuple[str, int]]


def one_way(
    calls: Sequence[Mapping[str, Any]], streams: Sequence[CaptureStream], start_ns: int, last_ns: int
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Calls that were to go both ways and went one way: numbers of the streams there are, and a sentence."""
    listed = list(_one_way(calls, streams, start_ns, last_ns))
    yield from listed[:_MOST]
    if rest := listed[_MOST:]:
        numbers = tuple(number for found, _ in rest for number in found)
        yield numbers, f"{plural(len(rest), 'other call')} went one way, too."


def _one_way(
    calls: Sequence[Mapping[str, Any]], streams: Sequence[CaptureStream], start_ns: int, last_ns: int
) -> Iterator[tuple[tuple[int, ...], str]]:
    for call in calls:
        answered_ns, ended_ns = call["answered_ns"], call["ended_ns"] or last_ns
        if answered_ns is None or ended_ns - answered_ns < _LEAST_NS or not call["both_ways"]:
            continue
        ports = [_ports(party) for party in call["parties"]]
        during = [
            stream for stream in streams if stream.first_ns <= ended_ns and stream.last_ns >= answered_ns
        ]
        to = [_between(during, ports[1 - i], ports[i]) for i in range(2)]
        if not all(ports) or bool(to[0]) == bool(to[1]):
            continue
        deaf = 0 if not to[0] else 1
        silent, hearing = call["parties"][1 - deaf], call["parties"][deaf]
        text = (
            f"{_title(call, start_ns)} has one-way audio, unless the capture sees only one direction: "
            f"nothing goes from {_listed(silent)} ({_ROLES[1 - deaf]}) to {_listed(hearing)} "
            f"({_ROLES[deaf]}), although both were to send.{_hidden(silent, _ROLES[1 - deaf])}"
        )
        yield tuple(each.number for each in to[1 - deaf]), text


def addresses(
    calls: Sequence[Mapping[str, Any]], streams: Sequence[CaptureStream]
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Streams that come from elsewhere than SIP said: their numbers, and a sentence."""
    told: set[int] = set()
    listed = []
    for call in calls:
        for i in range(2):
            sender, receiver = call["parties"][i], call["parties"][1 - i]
            announced, goal = _ports(sender), _ports(receiver)
            for stream in streams if announced else ():
                source = (stream.src, stream.src_port)
                # Calls one after another use the same ports.
                during = stream.last_ns >= call["first_ns"] and (
                    call["ended_ns"] is None or stream.first_ns <= call["ended_ns"]
                )
                heads_there = (stream.dst, stream.dst_port) in goal
                if not during or not heads_there or source in announced | goal or stream.number in told:
                    continue
                told.add(stream.number)
                text = (
                    f"Stream {stream.number} comes from {end(*source)}, but its sender's description (SDP) "
                    f"says {_listed(sender)}: its address is translated, or another host sends."
                )
                listed.append(((stream.number,), text))
    yield from listed[:_MOST]
    if rest := listed[_MOST:]:
        numbers = tuple(number for found, _ in rest for number in found)
        yield numbers, f"{plural(len(rest), 'other stream')} come from elsewhere than SDP says, too."


def _ports(party: Mapping[str, Any]) -> Ports:
    return frozenset((address, port) for address, port in party["media"])


def _between(streams: Sequence[CaptureStream], source: Ports, target: Ports) -> list[CaptureStream]:
    """Streams from or to the announced ports of a direction; the other end may be translated."""
    return [
        stream
        for stream in streams
        if (stream.dst, stream.dst_port) in target or (stream.src, stream.src_port) in source
    ]


def _title(call: Mapping[str, Any], start_ns: int) -> str:
    ends = f"from {quoted(call['from'])} to {quoted(call['to'])}"
    return f"The call {ends} (answered after {duration(call['answered_ns'] - start_ns)})"


def _listed(party: Mapping[str, Any]) -> str:
    return " or ".join(end(address, port) for address, port in party["media"])


_ROLES: Final = ("the caller", "the callee")


def _hidden(party: Mapping[str, Any], role: str) -> str:
    """That a party names a private address although its messages come from elsewhere; empty if not."""
    private = [address for address, _ in party["media"] if _is_private(address)]
    if not private or _is_private(party["address"]):
        return ""
    return (
        f" In SDP, {role} named the private address {private[0]}, but its messages come from "
        f"{party['address']}, so addresses are translated: what is sent to it does not arrive, either, "
        "unless both are in one network. Have its device or a server name the public address (STUN, session "
        "border controller; no SIP ALG)."
    )


_PRIVATE: Final = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "fc00::/7"),
    )
)


def _is_private(address: str) -> bool:
    """RFC 1918, RFC 4193, and addresses of links and of carriers' translators (RFC 3927, RFC 6598)."""
    found = ip_address(address)
    return any(found in network for network in _PRIVATE if network.version == found.version)
