"""What two orders of rules have counted, and whether they have counted the same."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weirlab.lab.equivalence.bed import FilterBed
from weirlab.rules.chains import ChainKey
from weirlab.rules.probing.trace import Place


@dataclass
class RuleCounts:
    """What the rules of a filter have counted; those with one verdict in one chain are added up.

    Of such rules, a packet is counted by whichever it meets first. If what one of them matches is unclear,
    their sum is, too.
    """

    sums: dict[tuple[str, str, str], tuple[int, int]] = field(default_factory=dict)
    """Packets and bytes by table, chain and rule."""
    named: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """Packets and bytes of counters with a name, by table and name."""
    unclear: set[tuple[str, str]] = field(default_factory=set)
    """Those in which rules count that depend on more than the packet."""


def rule_counts(
    bed: FilterBed,
    orders: Mapping[ChainKey, Sequence[int]],
    walked: Container[ChainKey],
    plain: Mapping[Place, str],
    unclear: Container[Place],
) -> RuleCounts:
    """What ``bed`` has counted in the chains ``walked``, some of which have their rules in the ``orders``.

    ``plain`` holds the verdicts of rules that do nothing else. Rules that depend on more than the packet,
    which are ``unclear``, are left out: they may count a packet that they do not match in the end. So are
    other chains, and those through which the kernel's own packets pass, too.
    """
    found = RuleCounts(named=bed.named_counters())
    vague, own = set(), bed.own_chains()
    for (table, chain), rules in bed.chains().items():
        order = orders.get((table, chain), range(len(rules)))
        for number, statements in zip(order, rules, strict=True):
            place = table, chain, number + 1
            key = table, chain, plain.get(place, f"rule {number + 1}")
            if (table, chain) not in walked or (table, chain) in own or place in unclear:
                vague.add(key)
                found.unclear |= {(table, name) for each in statements for name in _names(each)}
                continue
            for statement in statements:
                match statement:
                    case {"counter": {"packets": int(packets), "bytes": int(size)}}:
                        before = found.sums.get(key, (0, 0))
                        found.sums[key] = before[0] + packets, before[1] + size
    found.sums = {key: count for key, count in found.sums.items() if key not in vague}
    return found


def _names(statement: Any) -> list[str]:
    """The counters and quotas with a name in which a statement counts."""
    match statement:
        case {"counter": str(name)}:
            return [f"counter {name}"]
        case {"quota": str(name)}:
            return [f"quota {name}"]
    return []


def difference(before: RuleCounts, after: RuleCounts) -> str:
    """Which counters differ, as a clause; empty if none do."""
    unclear = before.unclear | after.unclear
    named = [
        {key: count for key, count in each.named.items() if key not in unclear} for each in (before, after)
    ]
    if named[0] != named[1]:
        return "named counters differ"
    wrong = next((key for key in before.sums if before.sums[key] != after.sums.get(key)), None)
    return "" if wrong is None else f"the counters of {wrong[1]} differ ({wrong[2]})"
