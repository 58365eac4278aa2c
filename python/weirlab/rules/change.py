"""How many rules packets meet before and after a change of rules, by counters alone."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from weirlab.base.errors import InputError
from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.matching import Match
from weirlab.rules.walking import (
    RuleNumber,
    Walk,
    called,
    counted_packets,
    forwarding_rulesets,
    packets_of,
    sum_of_walks,
    walk,
)

_COUNTER: Final = re.compile(r"(?<!\S)counter(?: packets \d+ bytes \d+)?(?!\S)")
"""Statement of nft that counts packets; named counters stay."""
_WORD: Final = re.compile(r'(?:[^\s"]|"(?:\\.|[^"\\])*")+')
"""A word of a rule; quoted ones may have blanks."""
_SET: Final = re.compile(r"\{ ([^{}\"]*) \}")
"""Elements of a set or map of nft."""
_LISTS: Final = {
    **dict.fromkeys(("--ctstate", "--state", "--ctstatus"), 1),
    **dict.fromkeys(("--dports", "--sports", "--ports", "--destination-ports", "--source-ports"), 1),
    "--tcp-flags": 2,
}
"""Options of iptables, by how many lists follow in which the order means nothing."""

RuleMeaning = str | frozenset[tuple[Match, str | None, str | None, tuple[str, ...]]]
RulePlace = tuple[str, str, str, RuleMeaning]
"""IP versions, table, chain and meaning of a rule; a policy is the last rule of its chain."""


@dataclass(frozen=True)
class RulesetChange:
    """Two rulesets, and how far packets walk in each."""

    before: Walk
    after: Walk
    """At most, for the packets that were counted before the change: new rules stop none of them, new jumps
    are taken by all, and packets of rules that are gone are compared with all rules."""
    least_position: float
    """As the mean of ``after``, if packets of rules that are gone are compared with none, and new jumps are
    taken by none."""
    own: Walk | None
    """The second ruleset by its own counters, of other traffic; None unless new rules counted packets."""
    added: int
    """Rules that are only in the second ruleset."""
    removed: int
    """Rules that are only in the first."""
    reordered: bool
    """Whether rules that are in both come in another order."""
    unstopping: tuple[RuleNumber, ...] = ()
    """New rules: they stop no packet in ``after``."""
    new_jumps: tuple[RuleNumber, ...] = ()
    """New jumps: every packet takes them in ``after``."""
    uncounted: tuple[RuleNumber, ...] = ()
    """Old rules of ``after`` that have no counter: the packets that they decide about are left out."""
    absent: tuple[int, ...] = ()
    """IP versions whose packets are left out: the second ruleset has no chain for them."""

    @property
    def known(self) -> Walk:
        """How far packets walk in the second ruleset: by its own counters if new rules have any, else at
        most."""
        return self.after if self.own is None else self.own

    @property
    def growth_ratio(self) -> float:
        """By which share the mean matching position grows; negative if it shrinks."""
        return self._growth(self.after.mean_position)

    @property
    def least(self) -> float:
        """The mean matching position at least: :attr:`least_position`, or by the own counters of the second
        ruleset, which show that new rules may stop packets from before."""
        own = [] if self.own is None else [self.own.mean_position]
        return min(self.least_position, *own, self.after.mean_position)

    @property
    def least_growth_ratio(self) -> float:
        """As :attr:`growth_ratio`, for :attr:`least`."""
        return self._growth(self.least)

    def _growth(self, position: float) -> float:
        if self.same_rules:
            return 0.0
        if self.before.mean_position == 0:
            return math.inf if position > 0 else 0.0
        return position / self.before.mean_position - 1

    @property
    def same_rules(self) -> bool:
        """Whether both have the same rules in the same order."""
        return not (self.added or self.removed or self.reordered)


def ruleset_change(
    before: Sequence[Ruleset], after: Sequence[Ruleset], names: tuple[str, str] = ("before", "after")
) -> RulesetChange:
    """Compare the rules that forwarded packets meet.

    Both are judged by the same traffic: the packets that were counted before the change.

    Parameters
    ----------
    before, after:
        The base chains that forwarded packets enter.
    names:
        What the rulesets are called in messages.

    Raises
    ------
    InputError
        One has no chain for forwarded packets, or ``before`` counted none and its rules are not the same;
        or ``before`` counted packets only of IP versions for which ``after`` has no chain.
    """
    if _are_same_without_counters(before, after):
        nothing = Walk(0, 0, {})
        return RulesetChange(nothing, nothing, math.nan, None, added=0, removed=0, reordered=False)
    old, _ = forwarding_rulesets(before, names[0])
    entered = [each for each in after if each.hook == "forward"]
    every, old = old, [each for each in old if not entered or _common(each, entered)]
    absent = tuple(family for each in every if each not in old for family in each.families)
    if not old:
        raise InputError(
            f"{names[1]} has no chain for packets of the IP version that {names[0]} counted: compare files "
            "of the same IP version"
        )
    try:
        old_walk = _walk(old, names[0])
    except InputError as error:
        raise InputError(f"{error}; or give --before a dump of the running firewall with counters") from None
    new, _ = forwarding_rulesets(after, names[1])
    lines, known = _lines(old), set(_lines(old))
    own = _walk(new, names[1]) if any(_new_rules_count(each, known) for each in new) else None
    # Which chains these packets enter is known only with their counters.
    counted = [_with_counters(each, old) for each in after]
    new, _ = forwarding_rulesets(counted, names[1])
    # A chain whose rules are all new has none of these counters.
    for each in old:
        if not _common(each, new):
            new += _common(each, [one for one in counted if one.hook == "forward"])[:1]
    others = _lines(new)
    blind = _blind_rules(new, known)
    most = [_with_new_jumps(each, known, old_walk.packets) for each in new]
    missing = [-_packets(each) for each in most]
    for each in old:
        missing[most.index(_common(each, most)[0])] += _packets(each)
    most = [_with_missing(each, packets) for each, packets in zip(most, missing, strict=True)]
    least = sum(_comparisons(_with_new_jumps(each, known, 0)) for each in new)
    kept = set(lines) & set(others)
    return RulesetChange(
        old_walk,
        _walk(most, names[1]),
        least / old_walk.packets,
        own,
        added=(Counter(others) - Counter(lines)).total(),
        removed=(Counter(lines) - Counter(others)).total(),
        reordered=[line for line in lines if line in kept] != [line for line in others if line in kept],
        absent=absent,
        **blind,
    )


def _common(ruleset: Ruleset, others: Sequence[Ruleset]) -> list[Ruleset]:
    """Those of ``others`` that see packets of an IP version of ``ruleset``."""
    return [each for each in others if not set(each.families).isdisjoint(ruleset.families)]


def _blind_rules(
    rulesets: Sequence[Ruleset], known: Collection[RulePlace]
) -> dict[str, tuple[RuleNumber, ...]]:
    """The rules whose packets nothing counted before the change, by field of :class:`RulesetChange`.

    Those that are not ``known`` are new.
    """
    result: dict[str, list[RuleNumber]] = {"unstopping": [], "new_jumps": [], "uncounted": []}
    for ruleset in rulesets:
        for name in called(ruleset):
            for line in ruleset.chains[name].lines:
                is_new = _place(ruleset, name, _meaning(line, ruleset.language)) not in known
                if (is_new or packets_of(line) is None) and any(rule.decides for rule in line):
                    jumps = any(rule.jump is not None for rule in line)
                    field = "uncounted" if not is_new else "new_jumps" if jumps else "unstopping"
                    result[field].append((name, line[0].number))
    return {field: tuple(rules) for field, rules in result.items()}


def _are_same_without_counters(before: Sequence[Ruleset], after: Sequence[Ruleset]) -> bool:
    """Whether no counter is needed: neither counted a packet, and the rules are the same."""
    old, new = ([ruleset for ruleset in path if ruleset.hook == "forward"] for path in (before, after))
    counted = sum(map(counted_packets, (*old, *new)))
    return bool(old) and not counted and _lines(old) == _lines(new)


def _walk(rulesets: Sequence[Ruleset], name: str) -> Walk:
    try:
        return sum_of_walks([walk(ruleset) for ruleset in rulesets])
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _new_rules_count(ruleset: Ruleset, known: Collection[RulePlace]) -> bool:
    """Whether a rule that is not ``known`` counted packets by itself."""
    return any(
        any(rule.packets and rule.decides for rule in line)
        and _place(ruleset, name, _meaning(line, ruleset.language)) not in known
        for name in called(ruleset)
        for line in ruleset.chains[name].lines
    )


def _packets(ruleset: Ruleset) -> float:
    try:
        return walk(ruleset).packets
    except InputError:
        return 0.0


def _comparisons(ruleset: Ruleset) -> float:
    try:
        return walk(ruleset).comparisons
    except InputError:
        return 0.0


def _lines(rulesets: Sequence[Ruleset]) -> list[RulePlace]:
    return [place for ruleset in rulesets for place in _places(ruleset)]


def _places(ruleset: Ruleset) -> Iterator[RulePlace]:
    """Every rule that packets may meet."""
    for name in called(ruleset):
        chain = ruleset.chains[name]
        for line in chain.lines:
            yield _place(ruleset, name, _meaning(line, ruleset.language))
        if chain.policy is not None:
            yield _place(ruleset, name, f"policy {chain.policy}")


def _meaning(line: Sequence[Rule], language: str) -> RuleMeaning:
    """What the rule does to packets, the same in every spelling: without its comment and the statement that
    counts its packets.

    A rule that is not understood, or that does more than decide, is told by its words, with sets in one
    order.
    """
    # A condition of nft lacks the values that it compares.
    whole = language != "nft"
    if not all(
        rule.decides and not (rule.unclear or rule.effects or rule.alters) and (whole or not rule.conditions)
        for rule in line
    ):
        return _same_words(line[0].text)
    return frozenset(
        (rule.match, rule.verdict, rule.jump, tuple(sorted(rule.conditions.split(", ")))) for rule in line
    )


@lru_cache(20_000)
def _same_words(text: str) -> str:
    words, kept, lists = _WORD.findall(text), list[str](), 0
    at = 0
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        at += 2
        if word == "--comment" or (word, following) in (("-m", "comment"), ("--match", "comment")):
            continue
        if word == "comment" and following.startswith('"'):
            # An element of a set may have one, too.
            if following.endswith(",") and kept:
                kept[-1] += ","
            continue
        at -= 1
        if (word, following) in (("-m", "state"), ("--match", "state")):
            words[at] = "conntrack"
        word = "--ctstate" if word == "--state" else word
        kept.append(",".join(sorted(word.split(","))) if lists else word)
        lists = _LISTS.get(word, max(lists - 1, 0))
    uncounted = " ".join(_COUNTER.sub(" ", " ".join(kept)).split())
    return _SET.sub(lambda found: f"{{ {', '.join(sorted(found[1].split(', ')))} }}", uncounted)


def _place(ruleset: Ruleset, chain: str, meaning: RuleMeaning) -> RulePlace:
    return "+".join(map(str, ruleset.families)), ruleset.table, chain, meaning


def _with_counters(ruleset: Ruleset, old: Sequence[Ruleset]) -> Ruleset:
    """``ruleset`` with the counters that the same rules have in ``old``."""
    twin = max(
        _common(ruleset, old),
        key=lambda e: (e.table == ruleset.table, e.entry == ruleset.entry),
        default=None,
    )
    known = {} if twin is None else twin.chains
    chains = {
        name: _counted_chain(chain, known.get(name), ruleset.language)
        for name, chain in ruleset.chains.items()
    }
    return replace(ruleset, chains=chains)


def _counted_chain(chain: Chain, twin: Chain | None, language: str) -> Chain:
    counts: dict[RuleMeaning, list[int | None]] = {}
    for line in twin.lines if twin is not None else ():
        counts.setdefault(_meaning(line, language), []).append(line[0].packets)
    rules: list[Rule] = []
    for line in chain.lines:
        known = counts.get(_meaning(line, language))
        count = known.pop(0) if known else None if line[0].jump is not None else 0
        rules += [replace(rule, packets=count) for rule in line]
    return replace(chain, rules=tuple(rules), policy_packets=twin.policy_packets if twin else None)


def _with_new_jumps(ruleset: Ruleset, known: Collection[RulePlace], packets: float) -> Ruleset:
    """``ruleset`` whose new jumps are taken, and returned from, by all ``packets``."""

    def bounded(chain: str, line: Sequence[Rule]) -> Sequence[Rule]:
        blind = any(rule.jump is not None and rule.packets is None for rule in line)
        if not blind or _place(ruleset, chain, _meaning(line, ruleset.language)) in known:
            return line
        return [
            rule if rule.jump is None else replace(rule, packets=round(packets), verdict=None)
            for rule in line
        ]

    chains = {
        name: replace(chain, rules=tuple(rule for line in chain.lines for rule in bounded(name, line)))
        for name, chain in ruleset.chains.items()
    }
    return replace(ruleset, chains=chains)


def _with_missing(ruleset: Ruleset, packets: float) -> Ruleset:
    """``ruleset`` with ``packets`` more that no rule stops."""
    entry = ruleset.forward
    policy_packets = (entry.policy_packets or 0) + max(round(packets), 0)
    return replace(
        ruleset, chains={**ruleset.chains, entry.name: replace(entry, policy_packets=policy_packets)}
    )
