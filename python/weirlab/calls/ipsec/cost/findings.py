"""What the rounds of a run show, and the columns of the study's table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from weirlab.base.errors import WeirError
from weirlab.base.quantities import duration, percent
from weirlab.calls.ipsec.cost.section import EspCostSection
from weirlab.measure.spread import Spread
from weirlab.store import Run

COSTS: Final = "esp_costs"


@dataclass(frozen=True)
class EspCostRow:
    """The processing time of packets in one round."""

    round: int
    """Number of the round, from 0."""
    suite: str
    """Cipher suite of ESP."""
    mode: str
    """`transport` or `tunnel`."""
    way: str
    """What was timed, as in the scenario."""
    packet_ms: float
    """Speech in a packet."""
    packet_bytes: int
    """Length of the IP packet in the clear, with UDP."""
    cost_ns: float
    """Mean processing time of a packet."""


CostCase = tuple[str, str, str, float]
"""Suite, mode, way, packet time in ms."""


@dataclass(frozen=True)
class EspCostFindings:
    """Every round of a run."""

    asked: EspCostSection
    rows: tuple[EspCostRow, ...]

    @cached_property
    def rounds(self) -> Mapping[CostCase, Sequence[float]]:
        """ns per packet, round by round."""
        found: dict[CostCase, list[float]] = {}
        for row in self.rows:
            found.setdefault((row.suite, row.mode, row.way, row.packet_ms), []).append(row.cost_ns)
        return found

    def spread(self, suite: str, mode: str, way: str, packet_ms: float) -> Spread:
        """Median, least and greatest of the rounds."""
        return Spread.of(self.rounds.get((suite, mode, way, packet_ms), ()))

    @property
    def usual_ms(self) -> float:
        """The packet time in the sentence: 20 ms if it was measured, else the shortest."""
        times = self.asked.packet_times_ms
        return 20.0 if 20.0 in times else min(times)

    @property
    def sentence(self) -> str:
        """The suites' cost out and in at the usual packet time."""
        parts = []
        mode = self.asked.modes[0]
        for suite in self.asked.suites:
            out, inward = (self.spread(suite, mode, way, self.usual_ms) for way in ("out", "in"))
            if out.known and inward.known:
                change = inward.median / out.median - 1
                parts.append(
                    f"{suite} {duration(out.median)} out and {duration(inward.median)} in ({percent(change)})"
                )
        if not parts:
            return f"{len(self.rows):,} processing times were measured."
        return f"A packet of {self.usual_ms:g} ms costs in {mode} mode: {'; '.join(parts)}."

    def document(self) -> dict[str, Any]:
        costs = [
            {
                **dict(zip(("suite", "mode", "way", "packet_ms"), case, strict=True)),
                **{f"{name}_ns": value for name, value in vars(Spread.of(rounds)).items()},
            }
            for case, rounds in self.rounds.items()
        ]
        return {"conclusion": self.sentence, "rounds": self.asked.rounds, "costs": costs}

    def problem(self, run: Run) -> WeirError | None:
        """Nothing can spoil it."""
        return None
