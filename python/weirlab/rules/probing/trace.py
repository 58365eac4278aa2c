"""What happened to a packet at each rule, as the kernel reports it, and whether that is what was read."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.rules import matching
from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.matching import Match
from weirlab.rules.probing.probe import Probe


class Cover:
    """The rules of ``chain`` as sets: bit ``i`` stands for the case ``chain.rules[i]``.

    The set for a value of a field is found once, because probes share values.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self._starts = [0]
        """By rule: the bit of its first case; and the end."""
        self._exact = 0
        """Cases of rules that match all packets that they cover."""
        for line in chain.lines:
            start = self._starts[-1]
            if not any(rule.conditions or rule.unclear for rule in line):
                self._exact |= ((1 << len(line)) - 1) << start
            self._starts.append(start + len(line))
        self._all = (1 << self._starts[-1]) - 1
        self._sets: dict[tuple[str, Any], int] = {}

    def covering(self, probe: Probe, state: str | None) -> int:
        """The cases that cover ``probe``; ``state`` is that of its connection, None if nobody asks."""
        found = self._all
        for name, value in self._values(probe, state):
            known = self._sets.get((name, value))
            if known is None:
                known = self._sets[name, value] = self._set(name, value)
            found &= known
        return found

    def cases(self, number: int, covering: int) -> list[Rule]:
        """The cases of a rule, counted from 1, that cover a packet."""
        start = self._starts[number - 1]
        line = self.chain.lines[number - 1]
        return [rule for i, rule in enumerate(line) if covering >> (start + i) & 1]

    def tried(self, covering: int) -> int:
        """Those of the covering cases that match without a doubt."""
        return covering & self._exact

    def numbers(self, cases: int) -> list[int]:
        """The rules of which some case is in a set."""
        pairs = itertools.pairwise(self._starts)
        return [i for i, (start, end) in enumerate(pairs, 1) if cases >> start & ((1 << (end - start)) - 1)]

    def is_exact(self, number: int) -> bool:
        """Whether a rule matches all packets that it covers."""
        return bool(self._exact >> self._starts[number - 1] & 1)

    def certain(self, covering: int, after: int, before: int | None) -> int | None:
        """The first rule that certainly matches, between two others (0 and None: from the first, to the
        last)."""
        end = self._starts[-1 if before is None else before - 1]
        found = covering & self._exact & ((1 << end) - 1) & -(1 << self._starts[after])
        if not found:
            return None
        return bisect.bisect_right(self._starts, (found & -found).bit_length() - 1)

    def _set(self, name: str, value: Any) -> int:
        return sum(1 << i for i, rule in enumerate(self.chain.rules) if _holds(rule.match, name, value))

    @staticmethod
    def _values(probe: Probe, state: str | None) -> list[tuple[str, Any]]:
        body = probe.transport
        flags = body[13] if len(body) > 13 else 0
        return [
            ("source", probe.source),
            ("destination", probe.destination),
            ("protocol", probe.protocol),
            # What rules compare is at these places whatever the protocol.
            ("source_port", int.from_bytes(body[0:2], "big")),
            ("destination_port", int.from_bytes(body[2:4], "big")),
            ("icmp_type", body[0]),
            ("tcp_flags", flags),
            ("states", state),
            ("inward", probe.inward),
            ("outward", probe.outward),
        ]


def _holds(match: Match, name: str, value: Any) -> bool:
    if name == "states":
        return value is None or value in match.states
    if name in ("inward", "outward"):
        return matching.named(getattr(match, name), value)
    return matching.covers(getattr(match, name), value)


_TERMINAL: Final = frozenset({"accept", "drop", "queue", "stolen"})


Place = tuple[str, str, int]
"""Table with its family, chain, and number of a rule."""


@dataclass(frozen=True)
class TraceStep:
    """A rule that matched, the end of a chain, or the policy of a base chain (rule 0)."""

    table: str
    """With its family: ``inet filter``."""
    chain: str
    number: int
    """The rule's place in the order as written, from 1; 0 at the end of a chain."""
    verdict: str
    """``continue``, ``accept``, ``drop``, ``queue``, ``return``, ``jump CHAIN``, ``goto CHAIN``."""
    mark: int = 0
    """The packet's mark after that."""

    @property
    def place(self) -> Place:
        return self.table, self.chain, self.number


class ChainReading:
    """One base chain as it was read, to be compared with what the kernel does."""

    def __init__(self, ruleset: Ruleset, unaltered: Container[Place]) -> None:
        self.ruleset = ruleset
        self._unaltered = unaltered
        """Rules that leave a packet as it is, in all chains."""
        self.table = traced_table(ruleset)
        self._covers = {name: Cover(chain) for name, chain in ruleset.chains.items()}
        self._alterations: dict[str, list[int]] = {}
        """By chain: rules that may change a packet."""
        self._tried = dict.fromkeys(ruleset.chains, 0)

    def note(self, probe: Probe, state: str | None) -> None:
        """Note which rules ``probe`` tries: those that it matches, even if another decides before."""
        for name, cover in self._covers.items():
            self._tried[name] |= cover.tried(cover.covering(probe, state))

    def tried(self) -> list[tuple[str, int]]:
        """Chain and number of the rules that probes have tried."""
        return [
            (name, number)
            for name, cases in self._tried.items()
            for number in self._covers[name].numbers(cases)
        ]

    def contradiction(self, probe: Probe, state: str | None, steps: Sequence[TraceStep]) -> str:
        """What the kernel does with ``probe`` that was read otherwise; empty if nothing.

        ``steps`` is the whole trace of the packet in the present order.
        """
        own = [step for step in steps if step.table == self.table]
        entry = self.ruleset.entry
        start = next((i for i, step in enumerate(own) if step.chain == entry), None)
        if start is None:
            return ""
        frames = [(entry, 0)]
        for step in steps[: steps.index(own[start])]:
            if step.number and step.place not in self._unaltered:
                return ""
        for step in own[start:]:
            while step.chain != frames[-1][0]:
                if self._may_alter(frames[-1], None):
                    return ""
                if (missed := self._missed(frames[-1], None, probe, state)) or len(frames) == 1:
                    return missed
                frames.pop()
            chain, at = frames[-1]
            if self._may_alter((chain, at), step.number or None):
                return ""
            if missed := self._missed((chain, at), step.number or None, probe, state):
                return missed
            if step.number == 0:
                if step.verdict in _TERMINAL:
                    return ""
                continue
            if step.number <= at:
                return f"{chain} rule {step.number} came after rule {at}"
            if wrong := self._wrong(step, probe, state):
                return wrong
            if step.place not in self._unaltered:
                # What it is now is not known.
                return ""
            frames[-1] = (chain, step.number)
            word, _, target = step.verdict.partition(" ")
            if word in _TERMINAL:
                return ""
            if word == "goto":
                frames.pop()
            if target:
                frames.append((target, 0))
            elif word == "return":
                frames.pop()
            if not frames:
                return ""
        return ""

    def _may_alter(self, frame: tuple[str, int], upto: int | None) -> bool:
        """Whether a rule between two places of a chain may change a packet, even one that it does not match
        in the end; ``upto`` is not included."""
        name, at = frame
        known = self._alterations.get(name)
        if known is None:
            lines = self.ruleset.chains[name].lines
            known = [number for number, line in enumerate(lines, 1) if any(rule.alters for rule in line)]
            self._alterations[name] = known
        return any(at < number < (upto or math.inf) for number in known)

    def _missed(self, frame: tuple[str, int], upto: int | None, probe: Probe, state: str | None) -> str:
        """A rule between two places of a chain that should have matched; ``upto`` is not included."""
        name, at = frame
        cover = self._covers[name]
        number = cover.certain(cover.covering(probe, state), at, upto)
        return "" if number is None else f"{name} rule {number} does not match a packet that it should match"

    def _wrong(self, step: TraceStep, probe: Probe, state: str | None) -> str:
        """What is wrong with a rule that matched."""
        cover = self._covers[step.chain]
        cases = cover.cases(step.number, cover.covering(probe, state))
        if not cases:
            return f"{step.chain} rule {step.number} matches a packet that it should not match"
        expected = {_verdict(rule.verdict, rule.jump) for rule in cases}
        if cover.is_exact(step.number) and not any(_agree(each, step.verdict) for each in expected):
            return f"{step.chain} rule {step.number} decides otherwise than expected: {step.verdict}"
        return ""


def traced_table(ruleset: Ruleset) -> str:
    """The name of a ruleset's table in a trace; tables of iptables have no family in theirs."""
    if ruleset.language == "nft":
        return ruleset.table
    return f"{'ip' if ruleset.families == (4,) else 'ip6'} {ruleset.table}"


def _verdict(verdict: str | None, jump: str | None) -> str:
    if jump is not None:
        return f"{'goto' if verdict is not None else 'jump'} {jump}"
    return "continue" if verdict is None else verdict.split(" ")[0].lower()


def _agree(read: str, traced: str) -> bool:
    if read in ("reject", "queue", "nfqueue"):
        # A rejected packet is dropped, or the target of iptables has taken it.
        return traced in ("drop", "stolen", "queue", "accept" if read != "reject" else "drop")
    return read == traced
