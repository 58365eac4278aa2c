from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.calls.failover.fakes import FakePair, SwitchBehaviour, SwitchFault
from weirlab.calls.failover.switches.campaign import SwitchConditions, measure
from weirlab.calls.failover.switches.event import SwitchClocks
from weirlab.calls.failover.switches.plan import FailoverPlan, Kind, PairSpec, Timing, plan
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.measure.progress import OnProgress
from weirlab.store import RunWriter, Store
from weirlab.testing import FakeClock
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

CALLS = Calls(classes=(CallClass(parse_codec("g711")),), count=40, rtcp=False, signalling=False)
TIMING = Timing(event_s=1.0, after_s=7.0, affected_s=5.0)
QUICK = PairSpec(Keepalived(advert_s=0.1))


def traffic(calls: Calls = CALLS, duration_s: float = TIMING.duration_s) -> Traffic:
    ways = 2 if calls.directions == "both" else 1
    stream = calls.classes[0].stream
    rate = Rate(calls.count * ways * 1000 / stream.packet_ms)
    return Traffic(
        rate,
        Constant(stream.frame_bytes),
        Flows(calls.count * ways),
        warmup_s=TIMING.warmup_s,
        duration_s=duration_s,
        calls=calls,
    )


CONDITIONS = SwitchConditions(CALLS, traffic(), CALLS.count, TIMING)


def punctual(switches: Sequence[FailoverPlan]) -> list[FailoverPlan]:
    """The same with every event at its nominal time."""
    return [replace(planned, early_s=0.0) for planned in switches]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    with Store(tmp_path / "store").create("failover", {"name": "test"}, {}) as writer:
        yield writer


class Pairs:
    """Opens fake pairs that all go by one clock and take up the mishaps where the last one left them."""

    def __init__(
        self, manner: SwitchBehaviour | None = None, mishaps: Iterable[SwitchFault | None] = ()
    ) -> None:
        self.clock = FakeClock()
        self.opened: list[FakePair] = []
        self._manner = manner
        self._mishaps = iter(mishaps)

    def __call__(self, pair: PairSpec) -> FakePair:
        found = FakePair(pair.protocol, self._manner, self._mishaps, self.clock)
        self.opened.append(found)
        return found

    def now_ns(self) -> int:
        return round(self.clock() * 1e9)


Run = Callable[..., list[SwitchRow]]


@pytest.fixture
def run(writer: RunWriter) -> Run:
    def campaign(
        pairs: Pairs,
        kinds: tuple[Kind, ...] = ("hard",),
        *,
        pair: PairSpec = QUICK,
        repetitions: int = 1,
        conditions: SwitchConditions = CONDITIONS,
        told: OnProgress | None = None,
        switches: tuple[FailoverPlan, ...] | None = None,
    ) -> list[SwitchRow]:
        return measure(
            pairs,
            punctual(plan([pair], kinds, repetitions, seed=1)) if switches is None else switches,
            conditions,
            writer,
            told,
            clocks=SwitchClocks(pairs.now_ns, pairs.clock.advance, pairs.clock.now),
        )

    return campaign
