"""Which rules matter: what each matches and costs, and which of them one rule with a set could replace."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.matching import KNOWN_STATES
from weirlab.rules.ordering import plain_verdict
from weirlab.rules.walking import ChainWalk, Walk, is_more, packets_of, walk

LEAST_SET: Final = 3
"""Rules in a row from which on a set is worth it."""
_OPTIONS: Final = ("-s|--source|saddr", "-d|--destination|daddr", "--dport|dport", "--sport|sport")
"""What a set may stand for, as iptables and nft write it."""
_MATCHES: Final = "-m set --match-set SET"
_PORTS: Final = re.compile(r"\d+(-\d+)?")


@dataclass(frozen=True)
class RuleCost:
    """A rule, and the comparisons with it per forwarded packet."""

    chain: str
    place: int
    """In its chain, from 1."""
    text: str
    comparisons: float
    share: float | None = None
    """Of forwarded packets: those that match it; None if nothing counts them."""
    saved: float | None = None
    """Comparisons per forwarded packet if this rule alone moved to the best place with the same meaning;
    None if it keeps its place, or another order is not proven."""


@dataclass(frozen=True)
class SetAdvice:
    """Rules in a row that differ only in one value: one rule with a set of these values says the same."""

    chain: str
    first: int
    last: int
    """Their places in the chain, from 1."""
    values: tuple[str, ...]
    """Networks that cover just the same, if they are addresses; else the values."""
    saved: float
    """Comparisons per forwarded packet."""
    text: str
    """The rule, with ``{...}`` for the values; of iptables, with the set of ipset ``SET``."""

    @property
    def set_type(self) -> str:
        """What ``ipset create SET`` needs for the values; empty for a set of nft."""
        if _MATCHES not in self.text:
            return ""
        if all(_PORTS.fullmatch(value) for value in self.values):
            return "bitmap:port range 0-65535"
        return "hash:net family inet6" if any(":" in value for value in self.values) else "hash:net"


@dataclass(frozen=True)
class KnownAdvice:
    """A rule that accepts packets of established connections and stands behind others."""

    chain: str
    place: int
    share: float
    """Of forwarded packets."""
    saved: float
    """Comparisons per forwarded packet if it came first."""
    blocked_by: tuple[int, ...]
    """Places of rules before it that decide otherwise about some of its packets, or depend on more than the
    packet."""
    last_saves: float = 0.0
    """Comparisons per forwarded packet that would be saved further if the last of these were not in the way:
    the rule could then move to behind the one before."""


def costs(
    rules: Ruleset,
    saved: Mapping[str, Sequence[float | None]] | None = None,
    packets: float | None = None,
) -> list[RuleCost]:
    """Every rule, the one that matches most packets first.

    ``saved`` has, by chain, the comparisons that each rule saves if it moves, summed over packets.
    ``packets`` is how many are forwarded, those of other rulesets included; None: what these rules counted.
    """
    found = walk(rules)
    total = found.packets if packets is None else packets
    result = []
    for name, chain, passing in _chains(rules, found):
        gains = (saved or {}).get(name) or [None] * len(chain.lines)
        for place, (line, count, gain) in enumerate(
            zip(chain.lines, _arrivals(passing), gains, strict=True), 1
        ):
            matched = packets_of(line)
            result.append(
                RuleCost(
                    name,
                    place,
                    line[0].text,
                    count / total,
                    None if matched is None else matched / total,
                    None if gain is None else gain / total,
                )
            )
    return by_matches(result)


def by_matches(found: Iterable[RuleCost]) -> list[RuleCost]:
    """Those that match most packets first."""
    return sorted(found, key=lambda cost: (-(cost.share or 0.0), -cost.comparisons))


def sets(rules: Ruleset, packets: float | None = None) -> list[SetAdvice]:
    """Rules that a set could replace, those that would save most first; ``packets`` as in :func:`costs`."""
    found = walk(rules)
    total = found.packets if packets is None else packets
    result = []
    for name, chain, passing in _chains(rules, found):
        arrivals, taken = _arrivals(passing), set[int]()
        for option in _OPTIONS:
            place = 0
            for skeleton, group in groupby(chain.lines, key=partial(_skeleton, option=option)):
                lines = list(group)
                first, place = place, place + len(lines)
                run = set(range(first, place))
                if skeleton is None or len(lines) < LEAST_SET or run & taken:
                    continue
                taken |= run
                values = [_value(_uncounted(line[0].text), option)[0] for line in lines]
                saved = sum(arrivals[first + 1 : place]) / total
                result.append(SetAdvice(name, first + 1, place, _covering(values), saved, skeleton))
    return sorted(result, key=lambda advice: -advice.saved)


def known_first(rules: Ruleset, packets: float | None = None) -> list[KnownAdvice]:
    """Rules for established connections that stand behind others; ``packets`` as in :func:`costs`."""
    found = walk(rules)
    total = found.packets if packets is None else packets
    result = []
    for name, chain, passing in _chains(rules, found):
        for place, line in enumerate(chain.lines):
            accepts = plain_verdict(line) is not None and (line[0].verdict or "").lower() == "accept"
            states = frozenset[str]().union(*(case.match.states for case in line))
            if not accepts or not states <= KNOWN_STATES or place == 0:
                continue
            stopped = passing.left[place]
            saved = (place * stopped - sum(passing.left[:place])) / total
            if saved > 0:
                blocked = tuple(
                    at + 1
                    for at, other in enumerate(chain.lines[:place])
                    if (
                        plain_verdict(other) != plain_verdict(line)
                        or any(case.unclear or case.pinned for case in other)
                    )
                    and any(case.match.states & states for case in other)
                )
                # From behind the last of them to behind the one before.
                first, last = (0, 0, *blocked)[-2:]
                passed = (last - first) * stopped - sum(passing.left[first:last])
                result.append(
                    KnownAdvice(name, place + 1, stopped / total, saved, blocked, max(passed, 0.0) / total)
                )
    return sorted(result, key=lambda advice: -advice.saved)


def _chains(rules: Ruleset, found: Walk) -> Iterator[tuple[str, Chain, ChainWalk]]:
    """Those whose counters can be compared with the number of forwarded packets."""
    for name, passing in found.chains.items():
        if found.contradictory and is_more(passing.entered, found.packets):
            continue
        yield name, rules.chains[name], passing


def _arrivals(passing: ChainWalk) -> list[float]:
    """By rule: packets that come to it."""
    left, counts = passing.entered, []
    for stopped in passing.left:
        counts.append(left)
        left = max(left - stopped, 0.0)
    return counts


def _skeleton(line: Sequence[Rule], option: str) -> str | None:
    """The rule without the value of ``option``, if a set may stand for it; None if not."""
    rule = line[0]
    if len(line) > 1 or plain_verdict(line) is None or rule.unclear or rule.pinned or "!" in rule.text:
        return None
    return _value(_uncounted(rule.text), option)[1] or None


def _uncounted(text: str) -> str:
    """A rule of nft without the values of its counter."""
    return re.sub(r"\bcounter packets \d+ bytes \d+", "counter", text)


def _value(text: str, option: str) -> tuple[str, str]:
    """The one value of ``option`` in a rule, and the rule without it; both empty without one."""
    found = list(re.finditer(rf"(?<=\s)(?:{option}) ([0-9a-fA-F.:/-]+)(?=\s|$)", f" {text}"))
    if len(found) != 1:
        return "", ""
    word, value = found[0][0].split()
    start, rest = found[0].start() - 1, text[found[0].end() - 1 :]
    if not word.startswith("-"):
        return value, f"{text[:start]}{word} {{...}}{rest}"
    # An IPv6 address has more colons than one.
    value = value.replace(":", "-") if re.fullmatch(r"\d+:\d+", value) else value
    return value, f"{text[:start]}{_MATCHES} {'src' if word.lstrip('-')[0] == 's' else 'dst'}{rest}"


def _covering(values: Sequence[str]) -> tuple[str, ...]:
    try:
        networks = [ipaddress.ip_network(value) for value in values]
    except ValueError:
        return tuple(dict.fromkeys(values))
    four = [network for network in networks if isinstance(network, ipaddress.IPv4Network)]
    six = [network for network in networks if isinstance(network, ipaddress.IPv6Network)]
    return tuple(map(str, [*ipaddress.collapse_addresses(four), *ipaddress.collapse_addresses(six)]))
