"""Which rules packets met, from counters of these packets alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from weirlab.base.errors import InputError
from weirlab.rules.chains import ChainKey, Rule, Ruleset
from weirlab.rules.naming import walked
from weirlab.rules.passing import VerdictPlace
from weirlab.rules.walking import walk


@dataclass(frozen=True)
class Encounters:
    """What counters say about packets that walked a ruleset."""

    packets: float
    """Packets that entered the base chain that most entered."""
    comparisons: float
    """With rules, in all base chains."""
    ends: tuple[tuple[VerdictPlace, float], ...]
    """Packets by the rule or policy that accepted or dropped them, in any base chain; most packets first."""

    def at(self, place: VerdictPlace) -> float:
        """Packets that ``place`` accepted or dropped."""
        return sum(packets for end, packets in self.ends if end.is_at(place))


def from_matches(path: Sequence[Ruleset]) -> Encounters:
    """From how many packets matched each rule and met each policy, as iptables counts."""
    packets = comparisons = 0.0
    ends: list[tuple[VerdictPlace, float]] = []
    for ruleset in path:
        with suppress(InputError):  # No packet was counted.
            found = walk(ruleset)
            packets = max(packets, found.packets)
            comparisons += found.comparisons
        chains = ruleset.chains
        ends += [
            (_end(ruleset, name, line), float(line[0].packets or 0))
            for name in walked(ruleset)
            for line in chains[name].lines
            if _decides(line)
        ]
        ends.append((_policy(ruleset), float(ruleset.forward.policy_packets or 0)))
    return Encounters(packets, comparisons, _sorted(ends))


def from_arrivals(path: Sequence[Ruleset], arrivals: Mapping[ChainKey, Sequence[int]]) -> Encounters:
    """From how many packets came to each rule, and to the end of each chain; by table and chain."""
    packets = comparisons = 0.0
    ends: list[tuple[VerdictPlace, float]] = []
    for table, name, ruleset in _chains(path):
        counts = arrivals.get((table, name), ())
        lines = ruleset.chains[name].lines
        if len(counts) != len(lines) + 1:
            continue
        comparisons += sum(counts[:-1])
        if name == ruleset.entry:
            packets = max(packets, counts[0])
            passed = (arrivals.get((table, each), ()) for each in _before_policy(ruleset))
            ends.append((_policy(ruleset), float(sum(each[-1] for each in passed if each))))
        ends += [
            (_end(ruleset, name, line), float(count - after))
            for line, count, after in zip(lines, counts, counts[1:], strict=False)
            if _decides(line)
        ]
    return Encounters(packets, comparisons, _sorted(ends))


def _before_policy(ruleset: Ruleset) -> list[str]:
    """The chains at whose end the policy decides: the base chain, and those that packets only go to from such
    chains and do not return from."""
    found = [ruleset.entry]
    calls = [
        (name, rule.jump, rule.verdict is not None)
        for name in walked(ruleset)
        for rule in ruleset.chains[name].rules
        if rule.jump is not None
    ]
    for chain in found:
        for target in [to for name, to, leaves in calls if name == chain and leaves and to not in found]:
            if all(leaves and name in found for name, to, leaves in calls if to == target):
                found.append(target)
    return list(dict.fromkeys(found))


def _chains(path: Sequence[Ruleset]) -> Iterator[tuple[str, str, Ruleset]]:
    """Every chain on the path, each once."""
    done: set[ChainKey] = set()
    for ruleset in path:
        for name in walked(ruleset):
            if (ruleset.table, name) not in done or name == ruleset.entry:
                done.add((ruleset.table, name))
                yield ruleset.table, name, ruleset


def _decides(line: Sequence[Rule]) -> bool:
    """Whether packets that leave the chain at this rule are accepted or dropped."""
    places = [VerdictPlace("", "", rule) for rule in line if rule.jump is None]
    return any(place.accepts or place.drops for place in places)


def _end(ruleset: Ruleset, chain: str, line: Sequence[Rule]) -> VerdictPlace:
    return VerdictPlace(ruleset.table, chain, line[0])


def _policy(ruleset: Ruleset) -> VerdictPlace:
    return VerdictPlace(ruleset.table, ruleset.entry, None, ruleset.forward.policy or "accept")


def _sorted(ends: Sequence[tuple[VerdictPlace, float]]) -> tuple[tuple[VerdictPlace, float], ...]:
    return tuple(sorted((end for end in ends if end[1] > 0), key=lambda end: -end[1]))
