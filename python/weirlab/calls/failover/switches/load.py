"""How many calls the pair carries without loss, before anything happens to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from weirlab.base.errors import TrialError
from weirlab.calls.failover.switches.plan import OpenPair, PairBed, PairSpec
from weirlab.calls.failover.switches.validity import PAIR_LIMITS
from weirlab.measure.terms import TrialTerms
from weirlab.measure.trial import Hooks, TrialEntry, run_trial
from weirlab.measure.validity import ValidityLimits
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.store import RunWriter
from weirlab.traffic.load import offered_pps
from weirlab.traffic.spec import Traffic

FIRST_INDEX: Final = 100_000
"""Trials of this search have indices from here on, those of switches begin at 0."""

TRIALS: Final = 3
"""A number of calls is carried if most of this many valid trials lose nothing."""

MARGIN: Final = 0.1
"""The load stays this share below the most that was carried: right at the limit, a pair loses packets in some
trials, and a switch whose trial loses packets before the event must be repeated."""

USUAL_SHARE: Final = 0.6
"""Of what all pairs carry, the share that is made if the user names no number of calls: a search of seconds
says little about trials that last ten times as long, and an attempt whose pair loses packets before the event
does not count."""

_WIDTH: Final = 0.02
_FEWEST: Final = 10


@dataclass(frozen=True)
class CallDemand:
    """The number of calls that is wanted, and how traffic is made of calls."""

    calls: int
    traffic_of: Callable[[int], Traffic]
    share: float | None = None
    """The share of what the pairs carry that is made; None: what is wanted, or `MARGIN` below that."""

    def offered_pps(self, calls: int) -> float:
        """Packets per second of ``calls`` calls."""
        return offered_pps(self.traffic_of(calls))


@dataclass(frozen=True)
class CommonLoad:
    """The load under which the pairs are switched."""

    wanted_calls: int
    calls: int
    """What was wanted if all pairs carry that without loss, else a little less than they carry."""
    offered_pps: float
    searched: bool = True
    limited_by: str = ""
    """The pair that carries no more; empty if all carry what was wanted."""
    why: str = ""
    """Why more calls were not carried."""
    by_host: bool = False
    """Nothing was lost with more calls either: the host spoiled those trials, and what the pair carries
    is not known."""
    carried: int | None = None
    """The most calls that were carried without loss, if fewer are made."""
    share: float | None = None
    """The share of them that is made, if the user named no number."""

    @property
    def reduced(self) -> bool:
        return self.calls < self.wanted_calls

    def to_json(self) -> dict[str, Any]:
        """With ``reduced``, which readers need not work out."""
        return {**vars(self), "reduced": self.reduced}


def find_load(
    open_pair: OpenPair,
    pairs: Sequence[PairSpec],
    wanted: CallDemand,
    writer: RunWriter,
    tell: Callable[[str], object],
    *,
    max_attempts: int = 3,
    limits: ValidityLimits = PAIR_LIMITS,
) -> CommonLoad:
    """The calls ``wanted`` if all ``pairs`` carry them without loss, else less than the most they carry.

    Raises
    ------
    TrialError
        A pair loses packets of even the fewest calls.
    """
    # A pair that loses nothing although other work has its CPU carries the load all the same.
    kept = replace(limits, wait_ratio=math.inf, overload_loss=0.0, overload_wait_ratio=limits.wait_ratio)
    search = _CallSearch(writer, wanted, tell, TrialTerms(kept, max_attempts))
    calls, limited_by, why, by_host = wanted.calls, "", "", False
    for pair in pairs:
        with open_pair(pair) as lab:
            lab.pair.settle()
            carried = search.most(PairBed(lab), pair, calls)
        if carried < calls:
            calls, limited_by, why, by_host = carried, pair.text, search.why, search.by_host
    if calls == wanted.calls and wanted.share is None:
        return CommonLoad(calls, calls, wanted.offered_pps(calls))
    below = max(int((1 - MARGIN if wanted.share is None else wanted.share) * calls), 1)
    return CommonLoad(
        wanted.calls if wanted.share is None or by_host else below,
        below,
        wanted.offered_pps(below),
        limited_by=limited_by,
        why=why,
        by_host=by_host,
        carried=calls,
        share=None if by_host else wanted.share,
    )


class _CallSearch:
    def __init__(
        self,
        writer: RunWriter,
        wanted: CallDemand,
        tell: Callable[[str], object],
        terms: TrialTerms,
    ) -> None:
        self._writer = writer
        self._traffic_of = wanted.traffic_of
        self._tell = tell
        self._terms = terms
        self.why = ""
        """Why the last number of calls was not carried."""
        self.by_host = False
        """Whether that was the host alone, without a lost packet."""
        self._index = max([FIRST_INDEX - 1, *writer.attempts]) + 1

    def most(self, bed: PairBed, pair: PairSpec, wanted: int) -> int:
        """The most calls up to ``wanted``, within 2 %."""
        fewest = min(_FEWEST, wanted)
        low, high = fewest, wanted
        if self._carries(bed, pair, wanted):
            return wanted
        if fewest == wanted or not self._carries(bed, pair, fewest):
            raise TrialError(
                f"{pair.text} does not carry as few as {fewest} calls, undisturbed ({self.why}): "
                "other work on this machine or the test bed is at fault (weir doctor); the trials are kept "
                f"in run {self._writer.run_id}; --no-find-load (find_load: false) leaves this search out"
            )
        while high - low > max(_WIDTH * high, 1):
            middle = (low + high) // 2
            if self._carries(bed, pair, middle):
                low = middle
            else:
                high = middle
        return low

    def _carries(self, bed: PairBed, pair: PairSpec, calls: int) -> bool:
        clean, refused = 0, list[TrialRecord]()
        while clean <= TRIALS // 2 and len(refused) <= TRIALS // 2:
            record = self._trial(bed, pair, calls)
            if record.valid and record.result.lost == 0:
                clean += 1
            else:
                refused.append(record)
        if clean > len(refused):
            return True
        self.by_host = all(record.result.lost == 0 for record in refused)
        worst = max(refused, key=lambda record: record.result.lost)
        lost = worst.result.lost
        self.why = f"{lost:,} packet{'s' * (lost != 1)} lost" if worst.valid else "; ".join(worst.invalid)
        return False

    def _trial(self, bed: PairBed, pair: PairSpec, calls: int) -> TrialRecord:
        """One trial; invalid if the host spoiled all attempts, or the sender cannot make that many calls."""
        self._tell(f"{pair.text}: does it carry {calls:,} calls?")
        spec = TrialSpec(
            self._traffic_of(calls), RuleSetup(stateful=True), label=f"load: {pair.text}, {calls} calls"
        )
        index, self._index = self._index, self._index + 1
        return run_trial(
            bed,
            spec,
            TrialEntry(self._writer.run_id, index, "search"),
            terms=self._terms,
            hooks=Hooks(on_record=self._writer.add, completed=_without_packets),
            set_rules=False,
        )[-1]


def _without_packets(record: TrialRecord) -> TrialRecord:
    return replace(
        record,
        result=replace(record.result, packets=None),
        host=replace(record.host, handover_ns=None, handover_change=1.0),
    )
