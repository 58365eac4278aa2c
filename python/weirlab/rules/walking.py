"""How many rules a packet is compared with, derived from the rules' counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weirlab.errors import InputError
from weirlab.rules.chains import Rule, Ruleset


@dataclass(frozen=True)
class ChainWalk:
    """The packets that pass through one chain."""

    entered: float
    left: tuple[float, ...]
    """By rule: packets that leave this chain there."""
    ended: float
    """Packets whose walk ends here or in a chain called from here."""
    comparisons: float
    """Comparisons with rules, summed over packets, including those in called chains."""


@dataclass(frozen=True)
class Walk:
    """How far forwarded packets walk."""

    packets: float
    mean_position: float
    """Rules that a packet is compared with on average; a packet that no rule stops is compared with all."""
    chains: Mapping[str, ChainWalk]
    notes: tuple[str, ...] = ()


def walk(rules: Ruleset) -> Walk:
    """Follow the counters through the chain for forwarded packets and all that it calls.

    If a chain is called from several places, all its packets are assumed to match alike.
    Raises ``InputError`` if no packet was counted or chains call each other in a circle.
    """
    name = rules.entry
    _refuse_circles(rules, name, ())
    chains: dict[str, ChainWalk] = {}
    notes = list(rules.notes)
    found = _follow(rules, name, _calls(rules), chains, notes)
    if found.entered <= 0:
        raise InputError(
            f"no packet was counted in chain {name}; save the rules with counters while traffic "
            "flows: iptables-save -c, or nft list ruleset with 'counter' in the rules"
        )
    return Walk(found.entered, found.comparisons / found.entered, chains, tuple(dict.fromkeys(notes)))


def _calls(rules: Ruleset) -> dict[str, float]:
    """Packets that enter each user-defined chain, from all its callers."""
    entered: dict[str, float] = {}
    for chain in rules.chains.values():
        for rule in chain.rules:
            if rule.jump is not None:
                entered[rule.jump] = entered.get(rule.jump, 0.0) + rule.packets
    return entered


def _refuse_circles(rules: Ruleset, name: str, above: tuple[str, ...]) -> None:
    if name in above:
        raise InputError(f"chains call each other in a circle: {' -> '.join([*above, name])}")
    for called in {rule.jump for rule in rules.chains[name].rules if rule.jump in rules.chains}:
        assert called is not None
        _refuse_circles(rules, called, (*above, name))


def _follow(
    rules: Ruleset, name: str, calls: dict[str, float], chains: dict[str, ChainWalk], notes: list[str]
) -> ChainWalk:
    if name in chains:
        return chains[name]
    chain = rules.chains[name]
    left: list[float] = []
    ended = called = 0.0
    for rule in chain.rules:
        gone, stopped, compared = _matched(rules, rule, calls, chains, notes)
        left.append(gone)
        ended += stopped
        called += compared
    entered = calls.get(name, 0.0)
    if name == rules.entry:
        if chain.policy_packets is None:
            notes.append(f"packets that pass all rules of {name} are not counted and were left out")
        # Packets that returned early met the policy as well.
        entered = ended = ended + (chain.policy_packets or 0)
    elif ended > entered * 1.001 + 10:
        notes.append(
            f"the counters of chain {name} do not add up ({ended:,.0f} of {entered:,.0f} packets ended "
            "there); read all counters at once, without resetting some"
        )
    comparisons = sum(_reaching(entered, left)) + called
    chains[name] = ChainWalk(entered, tuple(left), min(ended, entered), comparisons)
    return chains[name]


def _reaching(entered: float, left: Sequence[float]) -> list[float]:
    """By rule: packets that are compared with it."""
    found, at = [], entered
    for gone in left:
        found.append(max(at, 0.0))
        at -= gone
    return found


def _matched(
    rules: Ruleset, rule: Rule, calls: dict[str, float], chains: dict[str, ChainWalk], notes: list[str]
) -> tuple[float, float, float]:
    """Of the packets that matched: how many left this chain and ended, comparisons in the called chain."""
    count = float(rule.packets)
    if rule.jump is not None and rule.jump in rules.chains:
        inner = _follow(rules, rule.jump, calls, chains, notes)
        if inner.entered <= 0:
            return 0.0, 0.0, 0.0
        share = count / inner.entered
        ended = inner.ended * share
        return (count if rule.verdict is not None else ended), ended, inner.comparisons * share
    if rule.verdict is None:
        return 0.0, 0.0, 0.0
    return count, 0.0 if rule.verdict == "RETURN" else count, 0.0
