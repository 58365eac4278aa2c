"""The generated rules, which match the test traffic or never can; devices without rules that Weir makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.lab.base import Driver, Site
from weirlab.records import RuleSetup
from weirlab.traffic.places import network

Family = Literal[4, 6]

FAMILIES: Final[tuple[Family, ...]] = (4, 6)
"""Both families get the same rules; a packet only walks those of its own."""

MAX_POSITION: Final = 1 << 20

INSTEAD: Final = "; choose another device, for example iptables"

_PORTS: Final = (22, 25, 53, 80, 123, 143, 161, 389, 443, 445, 993, 3306, 3389, 5060, 5432, 8080)


@dataclass(frozen=True)
class AddressMatch:
    """Source and destination of a rule; ``protocol`` and ``port`` (destination) None for any."""

    source: str
    destination: str
    protocol: str | None = None
    port: int | None = None


_TEST_TRAFFIC: Final[dict[Family, AddressMatch]] = {
    4: AddressMatch("198.18.0.0/16", "198.19.0.0/16"),
    6: AddressMatch("2001:2:0:1::/64", "2001:2:0:2::/64"),
}
_BOTH_WAYS: Final[dict[Family, AddressMatch]] = {
    4: AddressMatch("198.18.0.0/15", "198.18.0.0/15"),
    6: AddressMatch("2001:2::/48", "2001:2::/48"),
}


def test_traffic(family: Family) -> AddressMatch:
    """What all test traffic matches: the benchmarking ranges of RFC 2544 and RFC 5180, any protocol."""
    return _TEST_TRAFFIC[family]


def accepted(family: Family, rules: RuleSetup) -> AddressMatch:
    """What the accepting rule matches: test traffic of one side or both, or networks given in its place."""
    for each in rules.networks:
        if (":" in each) == (family == 6):
            return AddressMatch(each, each)
    return (_BOTH_WAYS if rules.both_ways else _TEST_TRAFFIC)[family]


def chain(family: Family, rules: RuleSetup) -> Iterator[AddressMatch]:
    """The matches of a linear ruleset in order, the last one at the matching position.

    With several places, each accepting rule only matches the flows of its own place, which
    differ in destination; it matches on source and destination like a single one does.
    """
    if not rules.position:
        return
    accepting = dict.fromkeys(rules.accepting, accepted(family, rules))
    if len(accepting) > 1:
        source = test_traffic(family).source
        accepting = {n: AddressMatch(source, network(family, i)) for i, n in enumerate(accepting)}
    others = fillers(family, rules.position)
    for n in range(1, rules.position + 1):
        yield accepting[n] if n in accepting else next(others)


def fillers(family: Family, count: int) -> Iterator[AddressMatch]:
    """``count`` matches, all different, that no test traffic can match.

    They resemble a company's rules: a private subnet may reach a server at a well-known port.
    """
    for i in range(count):
        yield AddressMatch(
            source=_subnet(family, i),
            destination=_server(family, i),
            protocol="udp" if i % 4 == 3 else "tcp",
            port=_PORTS[i % len(_PORTS)],
        )


def check(rules: RuleSetup) -> None:
    """Raises ``InputError`` for an impossible matching position."""
    if not 0 <= rules.position <= MAX_POSITION:
        raise InputError(
            f"matching position {rules.position}: must be 0 (no rules) or the place of the matching rule, "
            f"up to {MAX_POSITION}"
        )


def check_none(rules: RuleSetup, device: str, why: str, hint: str = "") -> None:
    """Raises ``InputError`` for any rules, ``why`` the device gets none."""
    if replace(rules, both_ways=False) != RuleSetup():
        raise InputError(
            f"the device {quoted(device)} {why}: only matching position 0, stateless, is possible{hint}"
        )


def check_single(rules: RuleSetup, device: str) -> None:
    """Raises ``InputError`` for several places if rules are not walked one after the other."""
    if len(rules.accepting) > 1:
        raise InputError(
            f"the device {device!r} does not walk its rules one by one, so traffic cannot match at "
            f"several positions ({', '.join(map(str, rules.accepting))}); choose iptables or nftables"
        )


def _subnet(family: Family, i: int) -> str:
    if family == 4:
        high, low = divmod(i * 16, 256)
        return f"10.{high >> 8}.{high & 255}.{low}/28"
    return f"fd00:{i >> 16:x}:{i & 0xFFFF:x}::/64"


def _server(family: Family, i: int) -> str:
    if family == 4:
        return f"172.{16 + (i >> 16)}.{i >> 8 & 255}.{i & 255}"
    return f"2001:db8:{i >> 16:x}:{i & 0xFFFF:x}::1"


def check_stateless(rules: RuleSetup, device: str, most: int | None = None, *, linear: bool = True) -> None:
    """Raise ``InputError`` for rules that ``device`` cannot implement.

    It tracks no connections, has at most ``most`` rules, and compares them one by one if ``linear``.
    """
    check(rules)
    if not linear:
        check_single(rules, device)
    if most is not None and rules.position > most:
        raise InputError(f"matching position {rules.position:,}: {device} takes {most:,} rules at most")
    if rules.stateful or (rules.answered and rules.position):
        raise InputError(
            f"the device {quoted(device)} tracks no connections: it cannot be stateful, nor have rules for "
            "flows that are answered; choose nftables"
        )


class Forward(Driver):
    """Plain forwarding. There are no rules, so the only position is 0, and nothing keeps state."""

    name = "forward"

    def check(self) -> list[str]:
        return []

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_none(rules, self.name, "has no rules", INSTEAD)

    def facts(self) -> Mapping[str, object]:
        return {"layout": "no filter"}


class BlackBox(Driver):
    """Whatever is between two ports of this machine. It has its own rules: the only position is 0."""

    name = "blackbox"

    def check(self) -> list[str]:
        return ["it is a device of your own between two ports of this machine: --lab wired --between A B"]

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_none(replace(rules, answered=False), self.name, "has its own rules, which Weir does not change")

    def facts(self) -> Mapping[str, object]:
        return {"layout": "its own, unknown"}
