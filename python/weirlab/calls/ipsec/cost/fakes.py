"""A timer of formulas, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class FormulaTimer:
    """A cost that grows with the packet; the first time of each case takes ten times as long."""

    ends_after: int = 1_000_000
    """Times until the user interrupts."""
    timed: list[tuple[str, bool, str, int]] = field(default_factory=list)

    def round(self, *, suite: str, tunnel: bool, way: str, packet_bytes: int) -> float:
        """See :meth:`weirlab.calls.ipsec.cost.study.CostTimer.round`."""
        if len(self.timed) >= self.ends_after:
            raise KeyboardInterrupt
        fills_caches = len(self.timed) % 2 == 0
        self.timed.append((suite, tunnel, way, packet_bytes))
        cost_ns = (
            100.0 + packet_bytes * (2 if "hmac" in suite else 1) + 30 * tunnel + 50 * way.startswith("in")
        )
        return cost_ns * (10 if fills_caches else 1)
