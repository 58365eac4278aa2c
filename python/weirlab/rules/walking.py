"""How many rules a packet is compared with, derived from the rules' counters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quantities import words
from weirlab.rules.chains import Chain, Rule, Ruleset

RuleNumber = tuple[str, int]
"""A chain and the number of a rule in it, from 1."""

NO_CHAIN: Final = (
    "these rules have no chain for forwarded packets (FORWARD in iptables, a chain with 'type filter hook "
    "forward' in nft)"
)
MOST_SPANS: Final = 3
"""Ranges of rules that a sentence names."""


def spans(rules: Sequence[RuleNumber]) -> str:
    """``FORWARD 1-300, 302, web 4 and 12 more``: rules in the order of their chains, as ranges."""
    runs: list[tuple[str, int, int]] = []
    for chain, number in rules:
        if runs and runs[-1][0] == chain and runs[-1][2] == number - 1:
            runs[-1] = (chain, runs[-1][1], number)
        else:
            runs.append((chain, number, number))
    named = [
        ("" if at and runs[at - 1][0] == chain else f"{chain} ")
        + (f"{first}-{last}" if last > first else f"{first}")
        for at, (chain, first, last) in enumerate(runs[:MOST_SPANS])
    ]
    rest = sum(last - first + 1 for _, first, last in runs[MOST_SPANS:])
    return words([*named, *([f"{rest:,} more"] if rest else [])])


@dataclass(frozen=True)
class ChainWalk:
    """The packets that pass through one chain."""

    entered: float
    left: tuple[float, ...]
    """By rule: packets that leave this chain there."""
    uncounted: tuple[bool, ...]
    """By rule: whether it decides about packets that nothing counts; these are left out."""
    ended: float
    """Packets whose walk ends here or in a chain called from here."""
    comparisons: float
    """Comparisons with rules, summed over packets, including those in called chains."""


@dataclass(frozen=True)
class Walk:
    """How far forwarded packets walk."""

    packets: float
    comparisons: float
    """With rules, summed over packets."""
    chains: Mapping[str, ChainWalk]
    """The chain that forwarded packets enter, and those that it calls, in the order of the calls."""
    notes: tuple[str, ...] = ()
    uncounted: tuple[RuleNumber, ...] = ()
    """Rules that decide about packets which nothing counts; these packets are left out."""
    contradictory: bool = False
    """Whether a chain called from here counted more packets than entered it."""

    @property
    def mean_position(self) -> float:
        """Rules that a packet is compared with on average; a packet that no rule stops is compared with
        all. NaN without packets."""
        return self.comparisons / self.packets if self.packets else math.nan


def walk(rules: Ruleset) -> Walk:
    """Follow the counters through the chain for forwarded packets and all that it calls.

    If a chain is called from several places, all its packets are assumed to match alike.
    Raises ``InputError`` if no packet was counted or chains call each other in a circle.
    """
    counting = _ChainCounter(rules)
    names = called(rules)
    for name in reversed(names):
        counting.follow(rules.chains[name])
    found = counting.chains[rules.entry]
    if found.entered <= 0:
        raise InputError(f"no packet was counted in {rules}{_what_to_do(rules, names)}")
    return Walk(
        found.entered,
        found.comparisons,
        {name: counting.chains[name] for name in names},
        tuple(dict.fromkeys(counting.notes)),
        tuple(counting.uncounted),
        counting.contradictory,
    )


def forwarding_rulesets(path: Sequence[Ruleset], where: str) -> tuple[list[Ruleset], list[Ruleset]]:
    """Of the chains at the hook for forwarded packets, those that most packets enter, and the others.

    A chain in which no rule decides comes last: all of its packets enter the other chains, too.

    Raises ``InputError``, naming ``where``, if there is no chain at that hook.
    """
    at_hook = [ruleset for ruleset in path if ruleset.hook == "forward"]
    if not at_hook:
        raise InputError(
            f"{where}: {NO_CHAIN}, and a plan is about such packets: give the rules of a router or firewall"
        )
    counted = {id(ruleset): counted_packets(ruleset) for ruleset in at_hook}
    apart: list[Ruleset] = []
    for ruleset in sorted(at_hook, key=lambda each: (not _has_verdicts(each), -counted[id(each)])):
        if all(set(ruleset.families).isdisjoint(other.families) for other in apart):
            apart.append(ruleset)
    chosen = [ruleset for ruleset in apart if counted[id(ruleset)]] or apart[:1]
    return chosen, [ruleset for ruleset in at_hook if not any(ruleset is each for each in chosen)]


def _has_verdicts(ruleset: Ruleset) -> bool:
    return any(rule.verdict for name in called(ruleset) for rule in ruleset.chains[name].rules)


def counted_packets(ruleset: Ruleset) -> int:
    """Packets that rules of the ruleset, or its policy, decided about."""
    rules = [rule for name in called(ruleset) for rule in ruleset.chains[name].rules]
    return sum(rule.packets or 0 for rule in rules if rule.decides) + (ruleset.forward.policy_packets or 0)


def sum_of_walks(walks: Sequence[Walk]) -> Walk:
    """Walks of different packets together."""
    if len(walks) == 1:
        return walks[0]
    return Walk(
        sum(each.packets for each in walks),
        sum(each.comparisons for each in walks),
        {},
        tuple(dict.fromkeys(note for each in walks for note in each.notes)),
        tuple(rule for each in walks for rule in each.uncounted),
    )


def _what_to_do(rules: Ruleset, names: Sequence[str]) -> str:
    """What rules without counted packets lack, and what helps."""
    every = [rule for name in names for rule in rules.chains[name].rules]
    if not every:
        return ", which has no rules, only a policy: plan with --rules 0"
    why = ", as none of its rules has a counter" if all(rule.packets is None for rule in every) else ""
    return (
        f"{why}; save the rules with counters while traffic flows: iptables-save -c, or nft list ruleset "
        "with 'counter' in the rules, before the verdict; or plan with --rules N, the rules that a packet is "
        "compared with on average"
    )


def called(rules: Ruleset) -> list[str]:
    """The chain for forwarded packets and all that it calls, every chain before those that it calls.

    Raises ``InputError`` if chains call each other in a circle.
    """
    done: list[str] = []
    open_: list[tuple[str, list[str]]] = [(rules.entry, _targets(rules, rules.entry))]
    above = {rules.entry}
    while open_:
        name, targets = open_[-1]
        if not targets:
            open_.pop()
            above.remove(name)
            done.append(name)
            continue
        target = targets.pop()
        if target in above:
            way = " -> ".join([*(each for each, _ in open_), target])
            raise InputError(f"chains call each other in a circle: {way}")
        if target not in done:
            open_.append((target, _targets(rules, target)))
            above.add(target)
    return done[::-1]


def _targets(rules: Ruleset, name: str) -> list[str]:
    jumps = (rule.jump for rule in rules.chains[name].rules)
    return list(dict.fromkeys(jump for jump in jumps if jump is not None and jump in rules.chains))[::-1]


@dataclass
class _ChainCounter:
    """Chains as they are followed, called ones first."""

    rules: Ruleset
    chains: dict[str, ChainWalk] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    uncounted: list[RuleNumber] = field(default_factory=list)
    contradictory: bool = False

    def __post_init__(self) -> None:
        self.calls: dict[str, float] = {}
        """Packets that enter each chain from rules that count them."""
        self.uncounted_calls: dict[str, int] = {}
        """Rules that jump there and do not count."""
        for chain in self.rules.chains.values():
            for line in chain.lines:
                for target in {rule.jump for rule in line if rule.jump is not None}:
                    if (packets := packets_of(line)) is None:
                        self.uncounted_calls[target] = self.uncounted_calls.get(target, 0) + 1
                    else:
                        self.calls[target] = self.calls.get(target, 0.0) + packets

    def follow(self, chain: Chain) -> None:
        left: list[float] = []
        uncounted: list[bool] = []
        ended = called_for = 0.0
        for line in chain.lines:
            gone, stopped, compared = self._matched(line)
            unknown = packets_of(line) is None and any(rule.decides for rule in line)
            left.append(gone)
            uncounted.append(unknown)
            ended += stopped
            called_for += compared
            if unknown:
                self.uncounted.append((chain.name, line[0].number))
        entered = self.calls.get(chain.name, 0.0)
        least = _least(chain, left)
        if chain.name == self.rules.entry:
            # Packets that returned early met the policy as well.
            entered = ended = ended + (chain.policy_packets or 0)
            if chain.policy_packets is None:
                some = (
                    f", except {least - entered:,.0f} that a rule counted before" if least > entered else ""
                )
                self.notes.append(
                    f"packets that pass all rules of {chain.name} are not counted and were left out{some}"
                )
            else:
                self._note_excess(chain, entered, least)
            entered = ended = max(entered, least)
        elif not self.uncounted_calls.get(chain.name):
            self._note_excess(chain, entered, least)
        # A rule cannot match more packets than there are.
        entered = max(entered, least)
        comparisons = sum(_reaching(entered, left)) + called_for
        self.chains[chain.name] = ChainWalk(
            entered, tuple(left), tuple(uncounted), min(ended, entered), comparisons
        )

    def _note_excess(self, chain: Chain, entered: float, least: float) -> None:
        if is_more(least, entered):
            self.contradictory |= chain.name != self.rules.entry
            self.notes.append(
                f"the counters of chain {chain.name} do not add up (of {entered:,.0f} packets, "
                f"{least:,.0f} met its rules); read all counters at once, without resetting some"
            )

    def _matched(self, line: Sequence[Rule]) -> tuple[float, float, float]:
        """Of the packets that matched: how many left this chain and ended, comparisons in called chains."""
        count = packets_of(line)
        rule = line[0]
        targets = {rule.jump for rule in line if rule.jump in self.rules.chains}
        if not targets:
            if count is None or rule.verdict is None:
                return 0.0, 0.0, 0.0
            return count, 0.0 if rule.verdict.lower() == "return" else count, 0.0
        gone = stopped = compared = 0.0
        for target in targets:
            assert target is not None
            inner = self.chains[target]
            packets = count
            if packets is None:
                # What is missing to the packets that the chain counted, shared by those that do not count.
                missing = inner.entered - self.calls.get(target, 0.0)
                packets = max(missing, 0.0) / self.uncounted_calls[target]
            if inner.entered > 0:
                share = packets / inner.entered
                stopped += inner.ended * share
                compared += inner.comparisons * share
                gone += packets if rule.verdict is not None else inner.ended * share
        return gone, stopped, compared


def is_more(packets: float, than: float) -> bool:
    """Whether a counter exceeds another by more than packets on their way explain."""
    return packets > than * 1.001 + 10


def packets_of(line: Sequence[Rule]) -> float | None:
    """Packets that a rule stopped or sent on; None if nothing counts them, or not verdict by verdict."""
    same = all((rule.verdict, rule.jump) == (line[0].verdict, line[0].jump) for rule in line)
    return line[0].packets if same else None


def _least(chain: Chain, left: Sequence[float]) -> float:
    """How many packets entered a chain at least: those that a rule matched, and had left before it."""
    gone = most = 0.0
    for line, leaves in zip(chain.lines, left, strict=True):
        most = max(most, gone + (packets_of(line) or 0.0))
        gone += leaves
    return most


def _reaching(entered: float, left: Sequence[float]) -> list[float]:
    """By rule: packets that are compared with it."""
    found, at = [], entered
    for gone in left:
        found.append(max(at, 0.0))
        at -= gone
    return found
