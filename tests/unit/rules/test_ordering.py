"""Rules in a new order must mean the same; packets are followed by an oracle of its own."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.rules import advise, iptables_path, reordered
from weirlab.rules.ordering import exchangeable, improve, moved


@dataclass(frozen=True)
class Packet:
    source: str
    destination: str
    protocol: str
    port: int
    state: str
    inward: str


@dataclass(frozen=True)
class Line:
    """A rule as the oracle understands it."""

    target: str
    source: str | None = None
    not_source: str | None = None
    destination: str | None = None
    protocol: str | None = None
    ports: tuple[tuple[int, int], ...] = ()
    states: tuple[str, ...] = ()
    inward: str | None = None
    packets: int = 0
    limited: bool = False

    def text(self) -> str:
        words = []
        if self.source:
            words.append(f"-s {self.source}")
        if self.not_source:
            words.append(f"! -s {self.not_source}")
        if self.destination:
            words.append(f"-d {self.destination}")
        if self.inward:
            words.append(f"-i {self.inward}")
        if self.protocol:
            words.append(f"-p {self.protocol} -m {self.protocol}")
        if self.ports:
            listed = ",".join(str(a) if a == b else f"{a}:{b}" for a, b in self.ports)
            words.append(f"-m multiport --dports {listed}")
        if self.states:
            words.append(f"-m conntrack --ctstate {','.join(self.states)}")
        if self.limited:
            words.append("-m limit --limit 5/sec")
        return " ".join([*words, "-j", self.target])

    def matches(self, packet: Packet) -> bool:
        source = ipaddress.ip_address(packet.source)
        return (
            (self.source is None or source in ipaddress.ip_network(self.source))
            and (self.not_source is None or source not in ipaddress.ip_network(self.not_source))
            and (
                self.destination is None
                or ipaddress.ip_address(packet.destination) in ipaddress.ip_network(self.destination)
            )
            and self.protocol in (None, packet.protocol)
            and (not self.ports or any(a <= packet.port <= b for a, b in self.ports))
            and (not self.states or packet.state in self.states)
            and (
                self.inward is None
                or (
                    packet.inward.startswith(self.inward[:-1])
                    if self.inward.endswith("+")
                    else packet.inward == self.inward
                )
            )
        )


TERMINAL = ("ACCEPT", "DROP", "REJECT --reject-with icmp-port-unreachable", "RETURN")
NETWORKS = ("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "192.168.0.0/16")
ADDRESSES = ("10.0.0.1", "10.1.0.1", "10.1.2.1", "10.1.2.3", "192.168.1.1", "8.8.8.8")
STATES = ("NEW", "ESTABLISHED", "RELATED", "INVALID")

lines = st.builds(
    Line,
    target=st.sampled_from((*TERMINAL, "LOG", "web")),
    source=st.none() | st.sampled_from(NETWORKS),
    not_source=st.none() | st.sampled_from(NETWORKS),
    destination=st.none() | st.sampled_from(NETWORKS),
    protocol=st.none() | st.sampled_from(("tcp", "udp")),
    ports=st.just(()) | st.sampled_from((((22, 22),), ((80, 80), (443, 443)), ((1, 100),), ((200, 65535),))),
    states=st.just(()) | st.sampled_from((("NEW",), ("ESTABLISHED", "RELATED"), ("INVALID",))),
    inward=st.none() | st.sampled_from(("eth0", "eth1", "eth+", "wlan0")),
    packets=st.integers(0, 1000),
    limited=st.sampled_from((False, False, False, True)),
)
packets = st.builds(
    Packet,
    source=st.sampled_from(ADDRESSES),
    destination=st.sampled_from(ADDRESSES),
    protocol=st.sampled_from(("tcp", "udp")),
    port=st.sampled_from((22, 80, 100, 443, 5000)),
    state=st.sampled_from(STATES),
    inward=st.sampled_from(("eth0", "eth1", "eth2", "wlan0")),
)


def save(forward: Sequence[Line], web: Sequence[Line], policy_packets: int = 1) -> str:
    body = [f"[{line.packets}:0] -A FORWARD {line.text()}" for line in forward]
    body += [f"[{line.packets}:0] -A web {line.text()}" for line in web]
    head = ["*filter", ":INPUT ACCEPT [0:0]", f":FORWARD DROP [{policy_packets}:0]", ":web - [0:0]"]
    return "\n".join([*head, *body, "COMMIT"]) + "\n"


def trace(
    packet: Packet, chains: dict[str, list[Line]], name: str = "FORWARD"
) -> tuple[str | None, list[str]]:
    """Verdict of ``packet`` and what was logged or met a limit on the way."""
    seen: list[str] = []
    for line in chains[name]:
        if not line.matches(packet):
            continue
        if line.limited:
            seen.append(f"limit {line.text()}")
        if line.target == "LOG":
            seen.append(line.text())
        elif line.target == "web":
            verdict, more = trace(packet, chains, "web")
            seen += more
            if verdict is not None:
                return verdict, seen
        elif line.target == "RETURN":
            break
        else:
            return line.target, seen
    return ("policy" if name == "FORWARD" else None), seen


@given(
    st.lists(lines, min_size=1, max_size=9),
    st.lists(lines.filter(lambda line: line.target != "web"), max_size=5),
    st.lists(packets, min_size=1, max_size=30),
)
def test_every_packet_meets_the_same_verdict_and_log_in_the_new_order(
    forward: list[Line], web: list[Line], traffic: list[Packet]
) -> None:
    advice = advise(iptables_path(save(forward, web)))
    before = {"FORWARD": list(forward), "web": list(web)}
    after = dict(before)
    for chain in advice.chains:
        after[chain.chain] = [before[chain.chain][i] for i in chain.order]
    for packet in traffic:
        assert trace(packet, before) == trace(packet, after)
    assert advice.after.mean_position <= advice.before.mean_position


@given(st.lists(lines, min_size=2, max_size=6))
def test_two_rules_are_exchangeable_both_ways_and_pinned_ones_never(forward: list[Line]) -> None:
    lines_ = iptables_path(save(forward, ()))[0].forward.lines
    allowed = exchangeable(lines_, [bool(line[0].unclear) for line in lines_])
    assert (allowed == allowed.T).all()
    for i, line in enumerate(forward):
        assert not (line.limited and allowed[i].any())


def cost(order: Sequence[int], stopped: Sequence[float]) -> float:
    return sum(place * stopped[rule] for place, rule in enumerate(order, 1))


@given(st.data(), st.integers(1, 6))
def test_small_chains_come_close_to_the_best_order_there_is(data: st.DataObject, n: int) -> None:
    stopped = data.draw(st.lists(st.integers(0, 100), min_size=n, max_size=n))
    allowed = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(i):
            allowed[i, j] = allowed[j, i] = data.draw(st.booleans())
    order = improve(stopped, allowed)

    def keeps(candidate: Sequence[int]) -> bool:
        place = {rule: k for k, rule in enumerate(candidate)}
        return all(allowed[i, j] or place[j] < place[i] for i in range(n) for j in range(i))

    assert sorted(order) == list(range(n))
    assert keeps(order)
    least = min(cost(candidate, stopped) for candidate in permutations(range(n)) if keeps(candidate))
    # A heuristic: no theorem, but nothing worse than this among all that were drawn.
    assert cost(order, stopped) <= 1.25 * least


def test_without_constraints_rules_come_in_the_order_of_their_packets() -> None:
    free = ~np.eye(5, dtype=bool)
    assert improve([3, 1, 4, 1, 5], free) == [4, 2, 0, 1, 3]


def test_a_busy_rule_pulls_up_the_idle_one_that_must_precede_it() -> None:
    free = ~np.eye(3, dtype=bool)
    free[1, 2] = free[2, 1] = False
    assert improve([10, 0, 100], free) == [1, 2, 0]


def test_as_few_rules_as_possible_are_called_moved() -> None:
    assert moved([3, 0, 1, 2]) == [3]
    assert moved([1, 2, 3, 0]) == [0]
    assert moved([0, 1, 2]) == []
    assert len(moved([4, 3, 2, 1, 0])) == 4


def test_the_reordered_file_has_the_same_lines_and_reads_back_in_the_new_order() -> None:
    text = save(
        [
            Line("ACCEPT", protocol="tcp", ports=((22, 22),), packets=1),
            Line("LOG", protocol="udp", packets=3),
            Line("ACCEPT", protocol="tcp", ports=((80, 80),), packets=1000),
        ],
        [],
    )
    advice = advise(iptables_path(text))
    written = reordered(text, [([line[0] for line in chain.lines], chain.order) for chain in advice.chains])
    assert sorted(written.splitlines()) == sorted(text.splitlines())
    (again,) = iptables_path(written)
    assert [rule.text for rule in again.forward.rules] == [
        rule.text for rule in advice.rules[0].forward.rules
    ]
    assert again.forward.rules[0].packets == 1000


@pytest.mark.parametrize("n", [400])
def test_hundreds_of_rules_are_ordered(n: int) -> None:
    lines = [
        Line("DROP" if i % 7 == 0 else "ACCEPT", source=f"10.0.{i % 250}.0/24", packets=i) for i in range(n)
    ]
    advice = advise(iptables_path(save(lines, [])))
    assert advice.after.mean_position < 0.6 * advice.before.mean_position
