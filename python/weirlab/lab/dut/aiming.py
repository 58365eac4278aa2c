"""Test traffic for a user's own rules: addresses, protocol and ports that they accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from weirlab.base.errors import InputError
from weirlab.lab import wiring
from weirlab.lab.dut.rules import FAMILIES
from weirlab.records import RuleEncounters
from weirlab.rules import Aim, Ruleset, accepted, aim, aims, matching
from weirlab.rules.aiming import Wish, between_any, connecting
from weirlab.rules.matching import Range, Ranges
from weirlab.rules.naming import text, unmet_known
from weirlab.rules.packets import FIELDS, PacketSet, host_ranges, reversed_packets, widest, with_ports
from weirlab.rules.passing import VerdictPlace
from weirlab.rules.walking import NO_CHAIN
from weirlab.traffic.calls.addresses import FIRST_RTP_PORT, LAST_RTP_PORT
from weirlab.traffic.calls.signalling import iax2, sip
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.flows import DESTINATION_PORT, FIRST_SOURCE_PORT, HOSTS
from weirlab.traffic.spec import FlowEndpoints, Flows

Layer4 = Literal["udp", "tcp"]
Ip = Literal[4, 6]

_PROTOCOLS: Final[dict[Layer4, int]] = {"udp": 17, "tcp": 6}
_USUAL: Final[dict[Ip, tuple[str, str]]] = {
    4: ("198.18.1.1-198.18.254.254", "198.19.1.1-198.19.254.254"),
    6: ("2001:2:0:1::101-2001:2:0:1::fefe", "2001:2:0:2::101-2001:2:0:2::fefe"),
}
"""Sources and destinations as in :mod:`weirlab.traffic.flows`."""
_UNICAST: Final[dict[Ip, tuple[str, ...]]] = {
    4: ("1.0.0.0-126.255.255.255", "128.0.0.0-223.255.255.255"),
    6: ("2000::/3", "fc00::/7"),
}
_MANAGEMENT: Final = (wiring.MANAGED, wiring.STATION)
_LAB: Final[dict[Ip, tuple[str, ...]]] = {
    4: (wiring.IN0.ipv4, wiring.OUT0.ipv4, *(port.ipv4.partition("/")[0] for port in _MANAGEMENT)),
    6: (wiring.IN0.ipv6, wiring.OUT0.ipv6, *(port.ipv6.partition("/")[0] for port in _MANAGEMENT)),
}
"""Networks of the device's ports, and the addresses of a management session, which no flow may use."""
_ANY_PORT: Final[Range] = (1, 65535)
PACKETS: Final = "rules_packets"
COMPARED: Final = "rules_compared"
MATCHED: Final = "rule_matched"
"""Counters of a device with the user's rules: packets, their comparisons with rules, and those that met their
verdict at the rule that they were to meet."""


@dataclass(frozen=True)
class RuleTraffic:
    """Test traffic that meets its verdict at one of the user's rules."""

    place: VerdictPlace
    """The rule that accepts or drops it."""
    sentence: str
    """What is sent, to which rule, and why."""
    doubt: str
    """What is not certain about it, as further clauses of the sentence."""
    l4: Layer4
    ip: Ip
    endpoints: FlowEndpoints | None
    """None for the default ones."""
    inward: str
    """Name of the device's interface towards the sender, and of the one towards the receiver."""
    outward: str
    compared: int
    """Rules with which each packet is compared, in all base chains on its way; of calls, the speech of the
    callers."""
    sent: str = ""
    """Protocol, addresses and ports in words."""
    calls: bool = False
    answered: bool = False
    unmet: str = ""
    """The rule for known connections, if further packets of the flows end before it."""
    checked: RuleEncounters | None = None
    """What a few such packets met in a copy of the rules."""

    @property
    def note(self) -> str:
        """All that is to be said about it."""
        unmet = f"; no test packet reaches {self.unmet}, which is for known connections" if self.unmet else ""
        return self.sentence + self.doubt + unmet

    @property
    def rule(self) -> str:
        """The rule in words."""
        return str(self.place)

    def sends_as(self, other: RuleTraffic) -> bool:
        """Whether the packets are the same, whichever rule they meet."""
        mine, its = ((one.l4, one.ip, one.endpoints, one.inward, one.outward) for one in (self, other))
        return mine == its

    @property
    def drops(self) -> bool:
        """Whether the rule drops the traffic."""
        return self.place.drops

    @property
    def expected(self) -> float | None:
        """Rules with which each packet is compared; None for packets of several kinds: calls, answers."""
        return None if self.calls or self.answered else float(self.compared)

    def dropped(self, counters: Mapping[str, int]) -> int | None:
        """How many packets the rule dropped by which the device's counters changed so; None if it accepts."""
        if not self.drops:
            return None
        if MATCHED in counters:
            return counters[MATCHED]
        # What the device took in went through the rules; what it could not take in is not counted here.
        ratio = None if self.checked is None else self.checked.matched_ratio
        return round(counters["in_rx_packets"] * (1.0 if ratio is None else ratio))

    def rules_met(self, counters: Mapping[str, int], sent: int) -> RuleEncounters | None:
        """What the packets met, so many of which were sent, by which the device's counters changed so."""
        matched = counters.get(MATCHED)
        if packets := counters.get(PACKETS, 0):
            return RuleEncounters(
                self.expected, counters[COMPARED] / packets, (matched or 0) / packets, counted_in="device"
            )
        if self.checked is None or matched is None:
            return self.checked
        received = counters["in_rx_packets"] + (counters["out_rx_packets"] if self.expected is None else 0)
        # The hosts also send packets of their own, such as reports of multicast listeners (RFC 3810).
        received = min(received, sent)
        if not received:
            return self.checked
        return replace(self.checked, matched_ratio=min(matched / received, 1.0))


def candidates(
    path: Sequence[Ruleset], source: str, match: str | None, flows: Flows, calls: Calls | None = None
) -> Iterator[RuleTraffic]:
    """Traffic that meets its verdict at the rule of ``path`` that ``match`` names, as close to ``flows`` as
    possible, and of an IP version that the rules are for; the best first.

    For ``calls``, every kind of packet has to pass, in both directions if both sides talk.

    Raises
    ------
    InputError
        There is no such rule, or no such traffic; the message says which rule is in the way.
    """
    if not path:
        raise InputError(
            f"{source}: {NO_CHAIN}, so they decide nothing about test traffic; to measure forwarding without "
            "rules, use --dut forward"
        )
    families = families_of(path)
    if calls is not None:
        yield _for_calls(path, source, match, calls, families)
        return
    kinds = dict.fromkeys([(flows.l4, flows.ip), *((l4, ip) for ip in FAMILIES for l4 in _PROTOCOLS)])
    wishes = between_any(path, ((_possible(l4, ip), _usual(l4, ip)) for l4, ip in kinds if ip in families))
    remark = "" if flows.ip in families else f"IPv{families[0]}, since no rule is for IPv{flows.ip}"
    if flows.answered:
        yield _for_answers(path, source, match, wishes, remark)
        return
    yield from (_described(found, remark) for found in aims(path, wishes, match, source))


def same_packets(path: Sequence[Ruleset], source: str, like: RuleTraffic) -> RuleTraffic:
    """The packets of ``like``, which was aimed at other rules, and the rule of ``path`` that accepts them;
    some of them if rules of ``path`` decide differently. Raises ``InputError`` if none pass."""
    packets, ends = _usual(like.l4, like.ip), like.endpoints
    if ends is not None:
        senders, receivers = (
            matching.networks(("-".join(each),)) for each in (ends.source, ends.destination)
        )
        packets = _packets(like.l4, senders, receivers, ends.source_port, ends.destination_port)
    packets = replace(packets, inward=(like.inward,), outward=(like.outward,))
    found = accepted(path, packets, f"packets that the other rules accept ({like.sent})", source)
    if like.answered:
        known = _known(path, source, found.packets)
        found = replace(known, packets=replace(known.packets, state=found.packets.state))
    unmet = unmet_known(path, found.place) if like.answered else ""
    here = replace(_described(found), answered=like.answered, unmet=unmet)
    whole = all(getattr(found.packets, name) == getattr(packets, name) for name in FIELDS)
    sentence = here.sentence.replace(here.sent, like.sent)
    return replace(here, endpoints=ends, sent=like.sent, sentence=sentence) if whole else here


def _for_answers(
    path: Sequence[Ruleset], source: str, match: str | None, wishes: Sequence[Wish], remark: str
) -> RuleTraffic:
    """Flows of which the first packet, further ones and the answers pass; first or further packets meet the
    rule that ``match`` names, further ones if it names none."""
    refusals: dict[bool, InputError] = {}
    """The first error by whether further packets met the rule."""
    for opening, met in _openings(path, source, match, wishes):
        known = opening if met else None
        try:
            if known is None:
                known = aim(path, [(replace(opening.packets, state="ESTABLISHED"),) * 2], match, source)
            if opening.place.drops or known.place.drops:
                raise InputError(
                    f"{source}: {known.place} ({text(known.place)}) drops packets: nothing answers"
                )
            flows = replace(known, packets=replace(known.packets, state="NEW"))
            further = _known(path, source, flows.packets)
        except InputError as error:
            refusals.setdefault(known is not None, error)
            continue
        unmet = unmet_known(path, further.place)
        return replace(_described(flows, remark), answered=True, unmet=unmet)
    raise refusals.get(True) or refusals[False]


def _openings(
    path: Sequence[Ruleset], source: str, match: str | None, wishes: Sequence[Wish]
) -> Iterator[tuple[Aim, bool]]:
    """Packets that open flows, each set once, and whether they meet the rule that ``match`` names; else they
    fit it but for the state. Raises ``InputError`` if there are none."""
    found: Iterable[tuple[Aim, bool]]
    if match is None:
        found = ((each, False) for each in aims(path, wishes, None, source))
    else:
        try:
            found = [(aim(path, wishes, match, source), True)]
        except InputError:
            further = [
                (replace(possible, state="ESTABLISHED"), replace(usual, state="ESTABLISHED"))
                for possible, usual in wishes
            ]
            known = aim(path, further, match, source)
            fitting = connecting(path, wishes, match)
            try:
                found = [(each, False) for each in aims(path, fitting, None, source)]
            except InputError as error:
                raise InputError(
                    f"{source}: {known.place} ({text(known.place)}) matches packets of known connections, "
                    f"and no rule accepts the packet that opens one; {error}"
                ) from None
    done: set[PacketSet] = set()
    for opening, met in found:
        if opening.packets not in done:
            done.add(opening.packets)
            yield opening, met


def _known(path: Sequence[Ruleset], source: str, opening: PacketSet) -> Aim:
    """Where further packets of the flows are accepted; raises ``InputError`` unless they and answers pass."""
    further = replace(opening, state="ESTABLISHED")
    accepted(path, reversed_packets(further, "ESTABLISHED"), "answers", source)
    return accepted(path, further, "further packets of a flow", source)


def networks(endpoints: FlowEndpoints | None, *, translates: bool) -> tuple[Sequence[str], Sequence[str]]:
    """The networks behind the device's two ports, for traffic between ``endpoints``."""
    senders: Sequence[str] = wiring.SENDERS
    receivers: Sequence[str] = wiring.RECEIVERS
    if endpoints is not None:
        senders, receivers = (matching.summary(each) for each in (endpoints.source, endpoints.destination))
    # Rules that translate may send packets on to any address.
    return senders, [*receivers, *wiring.ANYWHERE] if translates else receivers


def families_of(path: Sequence[Ruleset]) -> tuple[Ip, ...]:
    """The IP versions that the rules are for: those for forwarded packets, if there are such."""
    forward = [ruleset for ruleset in path if ruleset.hook == "forward"] or path
    return tuple(ip for ip in FAMILIES if any(ip in ruleset.families for ruleset in forward))


def _for_calls(
    path: Sequence[Ruleset], source: str, match: str | None, calls: Calls, families: Sequence[Ip]
) -> RuleTraffic:
    ip = calls.classes[0].stream.ip
    if ip not in families:
        raise InputError(
            f"{source}: the rules are for IPv{families[0]}, the calls IPv{ip}: give --ip {families[0]}"
        )
    streams, *others = _call_ports(calls)
    back_too = calls.directions == "both"
    possible, usual = (
        with_ports(packets, streams[1]) for packets in (_possible("udp", ip), _usual("udp", ip))
    )
    if calls.directions == "back":
        raise InputError(
            f"{source}: calls in which only the receiver's side talks cannot be aimed at a rule; "
            "leave --directions out, or give forward"
        )
    found = aim(path, between_any(path, [(possible, usual)]), match, source)
    if found.place.drops:
        raise InputError(f"{source}: {found.place} ({text(found.place)}) drops packets: no call gets through")
    some = found.packets
    for what, ports in [streams, *others]:
        there = accepted(path, with_ports(some, ports), f"{what} from the callers", source).packets
        if back_too:
            answer = reversed_packets(there, "ESTABLISHED")
            here = accepted(path, answer, f"{what} from those called", source).packets
            there = replace(there, source=here.destination, destination=here.source)
        some = replace(some, source=there.source, destination=there.destination)
    return replace(_described(replace(found, packets=some)), calls=True)


def _call_ports(calls: Calls) -> list[tuple[str, Range]]:
    """The kinds of packets and their ports, speech first."""
    transports = {kind.transport for kind in calls.classes}
    found: list[tuple[str, Range]] = []
    if "rtp" in transports:
        found.append(("RTP", (FIRST_RTP_PORT, LAST_RTP_PORT - 1)))
        if calls.signalling:
            found.append(("SIP", (sip.PORT, sip.PORT)))
    if transports - {"rtp"}:
        found.append(("IAX2", (iax2.PORT, iax2.PORT)))
    return found


def _described(found: Aim, remark: str = "") -> RuleTraffic:
    packets = found.packets
    sources, destinations = host_ranges(packets.source, packets.destination, HOSTS)
    from_ports, to_ports = widest(packets.source_port), widest(packets.destination_port)
    l4: Layer4 = "tcp" if packets.protocol == ((_PROTOCOLS["tcp"],) * 2,) else "udp"
    ip = packets.family
    usual = _usual(l4, ip)
    as_usual = all(getattr(packets, name) == getattr(usual, name) for name in FIELDS)
    endpoints = FlowEndpoints(_addresses(sources), _addresses(destinations), from_ports, to_ports)
    inward, outward = found.interfaces
    does = "is dropped by" if found.place.drops else "is made to match"
    between = f"from {_span(endpoints.source)} to {_span(endpoints.destination)}"
    sent = f"{l4.upper()} {between}, port {_span(to_ports)}"
    sentence = f"test traffic {does} {found.place} ({text(found.place)}): {sent}"
    if (inward, outward) != (wiring.IN0.name, wiring.OUT0.name):
        sentence += (
            f"; the device's interface to the sender is called {inward}, that to the receiver {outward}"
        )
    for words in (found.reason, remark):
        sentence += f"; {words}" if words else ""
    return RuleTraffic(
        found.place,
        sentence,
        _doubt(found),
        l4,
        ip,
        None if as_usual else endpoints,
        inward,
        outward,
        found.compared,
        sent,
    )


def _doubt(found: Aim) -> str:
    """Which rules may or may not match, as further clauses."""
    others = [place for place in found.doubts if not place.is_at(found.place)]
    words = f"; whether it also matches {', '.join(map(str, others))} is not known" if others else ""
    if len(others) < len(found.doubts):
        words += "; whether it does is not certain, since the rule matches on more than Weir understands"
    return words


def _possible(l4: Layer4, ip: Ip) -> PacketSet:
    own = matching.networks(_LAB[ip])
    addresses = matching.intersection(
        matching.networks(_UNICAST[ip]), matching.complement(own, matching.ADDRESSES[ip])
    )
    assert addresses is not None
    return _packets(l4, addresses, addresses, _ANY_PORT, _ANY_PORT)


def _usual(l4: Layer4, ip: Ip) -> PacketSet:
    source, destination = (matching.networks((text,)) for text in _USUAL[ip])
    return _packets(
        l4, source, destination, (FIRST_SOURCE_PORT, _ANY_PORT[1]), (DESTINATION_PORT, DESTINATION_PORT)
    )


def _packets(
    l4: Layer4, source: Ranges, destination: Ranges, from_ports: Range, to_ports: Range
) -> PacketSet:
    number = _PROTOCOLS[l4]
    return PacketSet(
        source=source,
        destination=destination,
        protocol=((number, number),),
        source_port=(from_ports,),
        destination_port=(to_ports,),
        # Connection tracking sees each packet as the first, unless some are answered.
        state="NEW",
        inward=(wiring.IN0.name,),
        outward=(wiring.OUT0.name,),
    )


def _addresses(span: Range) -> tuple[str, str]:
    return str(matching.address(span[0])), str(matching.address(span[1]))


def _span(ends: tuple[Any, Any]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"
