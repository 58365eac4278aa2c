"""Proves that a new order of rules treats every packet as the present one does.

Both orders are loaded, each in a namespace of its own, and packets at the boundaries of every match are
traced through them (:mod:`weirlab.rules.probing`). Each packet must meet the same rules with an effect, in
the same order, with the same marks, and end with the same verdict; and what the kernel does in the present
order must be what was read of the rules, on which the new order rests.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.lab.dut.rulesets.listing import LOAD
from weirlab.lab.dut.rulesets.source import RulesetSource
from weirlab.lab.equivalence.bed import FilterBed
from weirlab.lab.equivalence.counters import difference, rule_counts
from weirlab.lab.linux.syscalls import way_out
from weirlab.rules import Advice, ChainAdvice, Ruleset, advise
from weirlab.rules.advice import RuleKey
from weirlab.rules.chains import ChainKey, Rule
from weirlab.rules.iptables.saved import by_family
from weirlab.rules.nft.listing import statements_of
from weirlab.rules.nft.statements import ENDS_TRACE
from weirlab.rules.nft.written import interfaces
from weirlab.rules.ordering import plain_verdict
from weirlab.rules.packets import Family
from weirlab.rules.probing.boundaries import Probes, names_of
from weirlab.rules.probing.probe import Probe
from weirlab.rules.probing.trace import ChainReading, Place, TraceStep, traced_table

MOST_PAIRS: Final = 3000
"""Most pairs of exchanged rules between which packets are tried."""
MOST_MIXED: Final = 1000
TIME_S: Final = 5.0
"""After this time, only what the rules' own boundaries demand is tried."""
ROUNDS: Final = 4
_COUNTED: Final = frozenset({"packets", "bytes", "used"})
_REJECTIONS: Final = {
    (kind, str(code)): name
    for name, codes in (
        ("no route", {"icmpx": 0, "icmp": 0, "icmpv6": 0}),
        ("port unreachable", {"icmpx": 1, "icmp": 3, "icmpv6": 4}),
        ("host unreachable", {"icmpx": 2, "icmp": 1, "icmpv6": 3}),
        ("prohibited", {"icmpx": 3, "icmp": 13, "icmpv6": 1}),
    )
    for kind, code in codes.items()
}
"""What ``icmpx`` means for each IP version (``nft_reject.c``); nft lists one or the other."""
BLOCK: Final = 500
"""Packets that are put into the order of their routes together."""


@dataclass(frozen=True)
class EquivalenceProof:
    """What packets showed about two orders."""

    packets: int = 0
    rules_met: frozenset[RuleKey] = frozenset()
    undetermined: int = 0
    """Packets about which a rule that depends on earlier packets or on time decided otherwise."""
    failure: str = ""
    """Why the orders are not proven to mean the same; empty if they are."""


def proven_advice(source: RulesetSource, where: str) -> tuple[Advice, EquivalenceProof]:
    """The best order that packets prove; the second value says how, or why there is none.

    Rules that no packet meets keep their place. If nothing is proven, the advice is the unproven one.

    Raises ``InputError`` as :func:`weirlab.rules.advise`.
    """
    path = source.path_of_packets(elements=False)
    stay: set[RuleKey] = set()
    for _ in range(ROUNDS):
        advice = advise(path, where, stay)
        if not advice.chains:
            return advice, EquivalenceProof()
        proof = prove(source, advice)
        unmet = {_key(chain, move.place) for chain in advice.chains for move in chain.moves} - proof.rules_met
        if proof.failure or not unmet:
            return advice, proof
        stay |= unmet
    return advice, replace(proof, failure="no test packet met some of the rules to move")


def prove(source: RulesetSource, advice: Advice) -> EquivalenceProof:
    """Compare the present order with the advised one."""
    found = EquivalenceProof()
    for load in _loads(source, advice):
        try:
            part = _compare(load)
        except OSError as error:
            return EquivalenceProof(failure=f"{error.strerror or error}; {way_out(error)}")
        except (InputError, LabError, MissingCapability) as error:
            return EquivalenceProof(failure=str(error))
        found = EquivalenceProof(
            found.packets + part.packets,
            found.rules_met | part.rules_met,
            found.undetermined + part.undetermined,
            found.failure or part.failure,
        )
    return found


@dataclass(frozen=True)
class _Load:
    """Two orders of the rules that one command loads."""

    command: Sequence[str]
    before: str
    after: str
    chains: Sequence[ChainAdvice]
    path: Sequence[Ruleset]
    """All base chains that packets enter."""
    interfaces: Sequence[str]
    expected: Mapping[ChainKey, list[list[Any]]] | None
    """The statements of every rule, by table and chain; None if nft does not describe them."""

    @property
    def rulesets(self) -> list[Ruleset]:
        return list({id(chain.ruleset): chain.ruleset for chain in self.chains}.values())

    @property
    def orders(self) -> dict[ChainKey, Sequence[int]]:
        return {(traced_table(chain.ruleset), chain.chain): chain.order for chain in self.chains}


def _loads(source: RulesetSource, advice: Advice) -> Iterator[_Load]:
    path = source.path_of_packets(elements=False)
    if source.format != "iptables-save":
        expected = statements_of(source.listing.json)
        texts = source.reordered(advice.chains)
        yield _Load(LOAD, *texts, advice.chains, path, interfaces(source.text), expected)
        return
    families: dict[Family, list[ChainAdvice]] = {}
    for chain in advice.chains:
        families.setdefault(chain.ruleset.families[0], []).append(chain)
    before, after = source.reordered(advice.chains)
    for family, chains in families.items():
        command = [f"{'iptables' if family == 4 else 'ip6tables'}-nft-restore"]
        texts = by_family(before)[family], by_family(after)[family]
        own = [each for each in path if family in each.families]
        yield _Load(command, *texts, chains, own, (), None)


def _compare(load: _Load) -> EquivalenceProof:
    if not load.after:
        raise InputError("nft cannot load this listing")
    rules = [rule for ruleset in load.rulesets for chain in ruleset.chains.values() for rule in chain.rules]
    if any(ENDS_TRACE in rule.effects for rule in rules):
        raise InputError("these rules end the kernel's trace of packets (meta nftrace set 0)")
    if hidden := next((rule for rule in rules if rule.alters_by_chance), None):
        raise InputError(f"what '{hidden.text}' does to packets depends on chance, and no trace shows it")
    stateful = any(word in load.before for word in ("ct ", "conntrack", "--state", "notrack", "CT "))
    names = list(dict.fromkeys([*names_of(load.rulesets), *load.interfaces]))
    probes = _probes(load, names, stateful)
    marks = sorted({probe.mark for part in probes for probe in part})
    with ExitStack() as opened:
        before, after = (
            opened.enter_context(closing(FilterBed(load.command, text, names, marks, stateful, orders)))
            for text, orders in ((load.before, {}), (load.after, load.orders))
        )
        if failure := _other_rules(load, before, after):
            return EquivalenceProof(failure=failure)
        with _one_cpu():
            return _Comparison(load, before, after).run(*probes)


@contextmanager
def _one_cpu() -> Iterator[None]:
    """Keep the calling thread on one CPU, which rules may compare."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usual)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


def _probes(load: _Load, names: Sequence[str], stateful: bool) -> tuple[list[Probe], list[Probe]]:
    """Packets for every rule; and further ones for pairs that change places, and mixtures."""
    chance = random.Random(3)
    first: list[Probe] = []
    more: list[Probe] = []
    for ruleset in load.rulesets:
        probes = Probes(ruleset, names, stateful)
        first += probes.at_rules()
        for chain in load.chains:
            if chain.ruleset is ruleset:
                more += probes.between(chain.chain, _exchanged(chain.order, chance))
        more += itertools.islice(probes.anywhere(), MOST_MIXED)
    chance.shuffle(more)
    kept = dict.fromkeys(first)
    others = [probe for probe in dict.fromkeys(more) if probe not in kept]
    blocks = [others[at : at + BLOCK] for at in range(0, len(others), BLOCK)]
    # A change of the route takes longer than a packet.
    return _by_route(kept), [probe for block in blocks for probe in _by_route(block)]


def _by_route(probes: Iterable[Probe]) -> list[Probe]:
    return sorted(probes, key=lambda probe: probe.outward)


def _exchanged(order: Sequence[int], chance: random.Random) -> list[tuple[int, int]]:
    """Pairs of rules, by their numbers, that come in the other order."""
    pairs = [
        (second + 1, first + 1)
        for at, first in enumerate(order)
        for second in order[at + 1 :]
        if second < first
    ]
    return chance.sample(pairs, MOST_PAIRS) if len(pairs) > MOST_PAIRS else pairs


def _other_rules(load: _Load, before: FilterBed, after: FilterBed) -> str:
    """How the loaded rules differ from those that were read, apart from their order; empty if they do not."""
    loaded, new = (
        {key: [_bare(rule) for rule in rules] for key, rules in bed.chains().items()}
        for bed in (before, after)
    )
    if load.expected is not None and {k: [_bare(r) for r in v] for k, v in load.expected.items()} != loaded:
        return "these rules are not those that were read"
    for chain in load.chains:
        key = traced_table(chain.ruleset), chain.chain
        if len(loaded.get(key, ())) != len(chain.order):
            return f"chain {chain.name} does not have as many rules as in the file"
        loaded[key] = [loaded[key][place] for place in chain.order]
    return "" if loaded == new else "the tool reads its own listing of these rules otherwise"


def _bare(value: Any) -> Any:
    """Statements without what they have counted, and in one of the forms in which nft lists them."""
    match value:
        case {"counter": dict(inside)} | {"quota": dict(inside)} | {"last": dict(inside)}:
            return {next(iter(value)): {name: inside[name] for name in inside if name not in _COUNTED}}
        case {"reject": {"type": kind, "expr": code}} if (str(kind), str(code)) in _REJECTIONS:
            return {"reject": _REJECTIONS[str(kind), str(code)]}
        case {"set": list(elements)}:
            return {"set": sorted((_bare(element) for element in elements), key=json.dumps)}
        case dict():
            return {name: _bare(each) for name, each in value.items()}
        case list():
            return [_bare(each) for each in value]
    return value


@dataclass
class _Comparison:
    load: _Load
    before: FilterBed
    after: FilterBed
    plain: dict[Place, str] = field(default_factory=dict)
    """The verdicts of rules that do nothing else."""
    unclear: set[Place] = field(default_factory=set)
    walked: set[ChainKey] = field(default_factory=set)
    """The chains that forwarded packets can enter."""
    keys: dict[Place, RuleKey] = field(default_factory=dict)
    unaltered: set[Place] = field(default_factory=set)
    """Rules that leave a packet as it is."""

    def __post_init__(self) -> None:
        for ruleset in self.load.path:
            table = traced_table(ruleset)
            self._note_walked(ruleset)
            for name, chain in ruleset.chains.items():
                self.unaltered |= {
                    (table, name, line[0].number)
                    for line in chain.lines
                    if not any(rule.alters for rule in line)
                }
                self.unclear |= {
                    (table, name, line[0].number) for line in chain.lines if any(r.unclear for r in line)
                }
        for ruleset in self.load.rulesets:
            for name, chain in ruleset.chains.items():
                for line in chain.lines:
                    place = traced_table(ruleset), name, line[0].number
                    self.keys[place] = _rule_key(ruleset, name, line)
                    if (verdict := plain_verdict(line)) is not None:
                        self.plain[place] = verdict

    def _note_walked(self, ruleset: Ruleset) -> None:
        """Note the base chain, and those to which its rules lead."""
        open_ = [ruleset.entry]
        while open_:
            name = open_.pop()
            key = traced_table(ruleset), name
            if key not in self.walked and name in ruleset.chains:
                self.walked.add(key)
                open_ += [rule.jump for rule in ruleset.chains[name].rules if rule.jump is not None]

    def run(self, first: Sequence[Probe], more: Sequence[Probe]) -> EquivalenceProof:
        """Send all of ``first``, and of ``more`` what the time allows."""
        readings = [ChainReading(ruleset, self.unaltered) for ruleset in self.load.rulesets]
        met: set[RuleKey] = set()
        undetermined = sent = 0
        end_s = time.monotonic() + TIME_S
        for probe in itertools.chain(first, more):
            if sent > len(first) and time.monotonic() > end_s:
                break
            sent += 1
            state, now = self.before.send(probe)
            _, then = self.after.send(probe)
            at = self._first_difference(now, then)
            if at is not None and any(
                steps[at].place in self.unclear for steps in (now, then) if at < len(steps)
            ):
                undetermined += 1
                continue
            if at is not None:
                words = f"{probe}: {_words(now)}; in the new order: {_words(then)}"
                return EquivalenceProof(sent, failure=f"a test packet was treated differently ({words})")
            for reading in readings:
                if wrong := reading.contradiction(probe, state, now):
                    return EquivalenceProof(
                        sent, failure=f"the kernel contradicts what was read: {wrong} ({probe})"
                    )
                reading.note(probe, state)
            met |= {self.keys[place] for step in (*now, *then) if (place := step.place) in self.keys}
        for reading in readings:
            met |= {self.keys[reading.table, *place] for place in reading.tried()}
        failure = "" if undetermined else self._counters()
        return EquivalenceProof(sent, frozenset(met), undetermined, failure)

    def _first_difference(self, now: Sequence[TraceStep], then: Sequence[TraceStep]) -> int | None:
        if now == then:
            return None
        pairs = itertools.zip_longest(map(self._essence, now), map(self._essence, then))
        return next((i for i, (one, other) in enumerate(pairs) if one != other), None)

    def _essence(self, step: TraceStep) -> tuple[Any, ...]:
        """What of a step must be the same: of a rule that only decides, its verdict."""
        plain = self.plain.get(step.place)
        if plain is not None:
            return step.table, step.chain, plain, step.mark
        return step.table, step.chain, step.number, step.verdict, step.mark

    def _counters(self) -> str:
        """Which counters differ."""
        before, after = (
            rule_counts(bed, orders, self.walked, self.plain, self.unclear)
            for bed, orders in ((self.before, {}), (self.after, self.load.orders))
        )
        return difference(before, after)


def _words(steps: Sequence[TraceStep]) -> str:
    shown = (
        f"{step.chain} {f'rule {step.number}' if step.number else 'end'} {step.verdict}"
        for step in steps
        if step.number or step.verdict != "continue"
    )
    return ", ".join(shown) or "nothing"


def _key(chain: ChainAdvice, place: int) -> RuleKey:
    return _rule_key(chain.ruleset, chain.chain, chain.lines[place - 1])


def _rule_key(ruleset: Ruleset, chain: str, line: Sequence[Rule]) -> RuleKey:
    return ruleset.families, ruleset.table, chain, line[0].number
