"""Packets that try out rules: their bytes, where they lie, and what a trace of them must show."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop
from scapy.layers.l2 import Ether

from weirlab.rules import Ruleset, iptables_path, matching
from weirlab.rules.matching import Interface, Match, both, is_exact, named
from weirlab.rules.probing.boundaries import Probes, names_of
from weirlab.rules.probing.probe import Probe
from weirlab.rules.probing.trace import ChainReading, Cover, TraceStep


def probe(family: int = 4, **fields: Any) -> Probe:
    addresses = ("10.0.0.1", "192.168.0.7") if family == 4 else ("2001:db8::1", "2001:db8::2")
    source, destination = (matching.network(each)[0][0] for each in addresses)
    usual: dict[str, Any] = {
        "source": source,
        "destination": destination,
        "protocol": 17,
        "source_port": 40000,
        "destination_port": 53,
        "icmp_type": 8,
        "icmp_code": 0,
        "tcp_flags": 2,
        "inward": "eth0",
        "outward": "eth1",
        "state": "NEW",
    }
    return Probe(family=family, **{**usual, **fields})  # type: ignore[arg-type]


def rules(*lines: str, chains: str = "") -> Ruleset:
    body = "".join(
        f"[1:1] -A {line}\n" if line[0].islower() else f"[1:1] -A FORWARD {line}\n" for line in lines
    )
    (path,) = iptables_path(f"*filter\n:FORWARD DROP [0:0]\n{chains}{body}COMMIT\n")
    return path


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("protocol", [1, 6, 17, 58])
def test_a_packet_has_the_headers_of_its_fields_and_correct_checksums(family: int, protocol: int) -> None:
    some = probe(family, protocol=protocol, dscp=46, ttl=9, length_bytes=200)
    read = Ether(some.frame(0))
    ip = read[IP if family == 4 else IPv6]
    assert ip.ttl == 9 if family == 4 else ip.hlim == 9
    assert (ip.tos >> 2 if family == 4 else ip.tc >> 2) == 46
    assert len(bytes(ip)) == 200
    whole = bytes(ip)
    for layer in (IP, TCP, UDP, ICMP):
        if layer in ip:
            del ip[layer].chksum
    assert bytes(ip) == whole


def test_a_packet_of_an_invalid_connection_has_a_wrong_checksum() -> None:
    good, bad = (probe(state=state).transport for state in ("NEW", "INVALID"))
    assert good[6:8] != bad[6:8]
    assert good[:6] + good[8:] == bad[:6] + bad[8:]


def test_hop_by_hop_options_precede_the_transport_protocol() -> None:
    read = Ether(probe(6, hop_options=True).frame(0))
    assert read[IPv6].nh == 0
    assert read[IPv6ExtHdrHopByHop].nh == 17
    assert read[UDP].dport == 53


def test_marks_and_tracking_are_asked_for_in_the_source_address() -> None:
    assert probe().frame(0x0102)[6:12] == bytes.fromhex("025800000102")
    assert probe(state="UNTRACKED").frame(0)[6:12] == bytes.fromhex("025801000000")


def test_rules_cover_the_packets_whose_bytes_they_compare() -> None:
    cover = Cover(
        rules(
            "-p udp --dport 53 -j DROP",
            "-i eth1 -j DROP",
            "-m mark --mark 1 -j DROP",
            "-s 10.0.0.0/8 -j DROP",
        ).forward
    )
    found = cover.covering(probe(), "NEW")
    assert cover.numbers(found) == [1, 3, 4]
    assert cover.numbers(cover.tried(found)) == [1, 4]
    assert cover.certain(found, 1, None) == 4
    assert cover.certain(found, 1, 4) is None


def test_every_edge_of_a_match_is_tried_from_both_sides() -> None:
    ruleset = rules("-s 10.1.0.0/16 -p tcp -m multiport --dports 80,90:100 -i eth0 -j DROP")
    found = list(Probes(ruleset, names_of([ruleset]), stateful=False).at_rules())
    low, high = matching.network("10.1.0.0/16")[0]
    assert {low - 1, low, high, high + 1} <= {each.source for each in found}
    assert {79, 80, 81, 89, 90, 100, 101} == {each.destination_port for each in found}
    assert {5, 6, 7} <= {each.protocol for each in found}
    assert {"eth0", "weir0", "weir1"} == {each.inward for each in found}
    # Outside in one field at a time.
    covering = Cover(ruleset.forward)
    inside = [each for each in found if covering.covering(each, "NEW")]
    assert len(inside) >= 3
    assert len(found) - len(inside) >= 8


def test_a_rule_of_a_called_chain_is_tried_with_packets_that_get_there() -> None:
    ruleset = rules(
        "-p udp -d 192.168.0.0/24 -j web", "web -p udp --dport 53 -j DROP", chains=":web - [0:0]\n"
    )
    found = Probes(ruleset, names_of([ruleset]), stateful=False).at_rules()
    called, web = Cover(ruleset.forward), Cover(ruleset.chains["web"])
    assert any(called.covering(each, "NEW") and web.covering(each, "NEW") for each in found)


def test_packets_are_the_same_every_time() -> None:
    ruleset = rules("-s 10.0.0.0/8 -j DROP", "-p udp -m multiport --dports 1:9,20,30:40 -j ACCEPT")
    first, second = (
        list(itertools.islice(Probes(ruleset, names_of([ruleset]), stateful=True).anywhere(), 50))
        for _ in range(2)
    )
    assert first == second


WEB = rules(
    "-p tcp -j web",
    "-p udp --dport 53 -j ACCEPT",
    "-j DROP",
    "web -s 10.0.0.0/8 -j RETURN",
    chains=":web - [0:0]\n",
)


def step(chain: str, number: int, verdict: str) -> TraceStep:
    return TraceStep("ip filter", chain, number, verdict)


@pytest.mark.parametrize(
    ("some", "steps", "wrong"),
    [
        (probe(), [step("FORWARD", 2, "accept")], ""),
        (probe(), [step("FORWARD", 3, "drop")], "rule 2 does not match a packet that it should match"),
        (probe(), [step("FORWARD", 2, "drop")], "rule 2 decides otherwise"),
        (
            probe(destination_port=54),
            [step("FORWARD", 2, "accept")],
            "rule 2 matches a packet that it should not",
        ),
        (
            probe(protocol=6),
            [step("FORWARD", 1, "jump web"), step("web", 1, "return"), step("FORWARD", 3, "drop")],
            "",
        ),
        (
            probe(protocol=6),
            [step("FORWARD", 1, "jump web"), step("web", 0, "continue"), step("FORWARD", 3, "drop")],
            "web rule 1 does not match a packet that it should match",
        ),
        (probe(), [step("FORWARD", 0, "drop")], "rule 2 does not match a packet that it should match"),
        (probe(), [], ""),
    ],
)
def test_what_the_kernel_does_is_compared_with_what_was_read(
    some: Probe, steps: list[TraceStep], wrong: str
) -> None:
    known = {
        ("ip filter", name, line[0].number) for name, chain in WEB.chains.items() for line in chain.lines
    }
    found = ChainReading(WEB, known).contradiction(some, "NEW", steps)
    assert wrong in found
    assert bool(wrong) == bool(found)


NAMES = ("eth0", "eth1", "ether", "wan", "lan0", "x")
INTERFACES = [
    Interface(frozenset(names), frozenset(prefixes), inverted)
    for names in ((), ("eth0",), ("eth0", "wan"), ("lan0",))
    for prefixes in ((), ("eth",), ("e", "lan"))
    for inverted in (False, True)
]


def test_two_matches_on_an_interface_share_the_names_that_both_match() -> None:
    for a, b in itertools.product(INTERFACES, repeat=2):
        common = both(Match(inward=a), Match(inward=b)).inward
        expected = {name for name in NAMES if named(a, name) and named(b, name)}
        found = {name for name in NAMES if named(common, name)}
        assert expected <= found
        if is_exact(Match(inward=a), Match(inward=b)):
            assert expected == found
