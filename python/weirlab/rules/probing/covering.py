"""Which rules of a chain cover a packet, by what was read of them."""

from __future__ import annotations

import bisect
import itertools
from typing import Any

from weirlab.rules import matching
from weirlab.rules.chains import Chain, Rule
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
