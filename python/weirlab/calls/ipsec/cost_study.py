"""The study of what a packet costs with ESP: from a scenario to a kept run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Final, Protocol

from weirlab.calls.ipsec.cost import (
    COSTS,
    EspCostFindings,
    EspCostRow,
    EspCostScenario,
    EspCostSection,
    of,
)
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.work import Work
from weirlab.store import Run, RunWriter
from weirlab.store.frames import frame_of
from weirlab.studies.contract import Ground, Outcome, Study, Summary

if TYPE_CHECKING:
    from weirlab.report.story import Story

_KEEP_EVERY: Final = 10
"""Rounds after which those so far are stored."""
_PACKET_S: Final = 2e-6
"""What a packet takes, roughly: published runs have 0.5 to 5 µs."""


class CostTimer(Protocol):
    """What times packets; see ``_engine.EspCosts``."""

    def round(self, *, suite: str, tunnel: bool, way: str, packet_bytes: int) -> float:
        """ns per packet in one round."""


def _round(number: int, what: EspCostSection, timer: CostTimer) -> Iterator[EspCostRow]:
    for suite, mode, (packet_ms, packet_bytes), way in product(
        what.suites, what.modes, what.sizes(), what.ways
    ):
        tunnel = mode == "tunnel"
        timer.round(suite=suite, tunnel=tunnel, way=way, packet_bytes=packet_bytes)
        cost_ns = timer.round(suite=suite, tunnel=tunnel, way=way, packet_bytes=packet_bytes)
        yield EspCostRow(number, suite, mode, way, packet_ms, packet_bytes, cost_ns)


def _engine(what: EspCostSection) -> CostTimer:
    from weirlab._engine import EspCosts

    return EspCosts(packets=what.packets, associations=what.associations)


def stored(run: Run) -> EspCostFindings:
    """What a run shows, finished or not."""
    asked = scenario_of(run, EspCostScenario)
    return EspCostFindings(asked.esp, tuple(run.rows(EspCostRow, COSTS)))


class EspCostStudy(Study[EspCostScenario, Ground[None], EspCostFindings]):
    """Every case in turn; ``weir ipsec cost`` is its command. ``timer`` takes the place of the engine."""

    key = "esp"
    title = "what a packet of speech costs with ESP"

    def __init__(self, timer: CostTimer | None = None) -> None:
        self._timer = timer

    def scenario(self) -> type[EspCostScenario]:
        return EspCostScenario

    def open(self, asked: EspCostScenario, work: Work) -> AbstractContextManager[Ground[None]]:
        return nullcontext(Ground(None, {"lab": "", "dut": "esp", "backend": ""}))

    def measure(
        self, ground: Ground[None], asked: EspCostScenario, writer: RunWriter, work: Work
    ) -> EspCostFindings:
        """Measure the rounds that the run does not have yet; the first of each case only fills caches."""
        what = asked.esp
        rows = list(stored(writer.run).rows)
        begun = 1 + max((row.round for row in rows), default=-1)
        timer = self._timer or _engine(what)
        work.progress.stage(f"{what.rounds} rounds, run {writer.run_id}")
        for number in range(begun, what.rounds):
            work.progress.advance(number, what.rounds, f"round {number + 1}")
            rows += _round(number, what, timer)
            if (number + 1) % _KEEP_EVERY == 0 or number + 1 == what.rounds:
                writer.put_table(COSTS, frame_of(EspCostRow, rows))
        return EspCostFindings(what, tuple(rows))

    def expected_s(self, asked: EspCostScenario) -> float:
        """Every case is timed twice in a round."""
        return sum(count for _, count in asked.trials()) * 2 * asked.esp.packets * _PACKET_S

    def summarize(self, outcome: Outcome[EspCostFindings]) -> Summary:
        return Summary(outcome.found.sentence, of(outcome.found))

    def headlines(self, run: Run) -> Sequence[str]:
        found = stored(run)
        return (found.sentence,) if found.rows else ()

    def page(self, run: Run) -> Story:
        from weirlab.calls.ipsec import cost_page

        return cost_page.page(run, stored(run))


@dataclass
class FormulaTimer:
    """A cost that grows with the packet; the first time of each case takes ten times as long."""

    ends_after: int = 1_000_000
    """Times until the user interrupts."""
    timed: list[tuple[str, bool, str, int]] = field(default_factory=list)

    def round(self, *, suite: str, tunnel: bool, way: str, packet_bytes: int) -> float:
        """See :meth:`weirlab.calls.ipsec.cost_study.CostTimer.round`."""
        if len(self.timed) >= self.ends_after:
            raise KeyboardInterrupt
        fills_caches = len(self.timed) % 2 == 0
        self.timed.append((suite, tunnel, way, packet_bytes))
        cost_ns = (
            100.0 + packet_bytes * (2 if "hmac" in suite else 1) + 30 * tunnel + 50 * way.startswith("in")
        )
        return cost_ns * (10 if fills_caches else 1)
