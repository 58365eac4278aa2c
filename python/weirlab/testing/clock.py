"""A clock that advances only when a test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Call it for seconds, as ``time.monotonic``; ``now`` gives the same as a date in UTC."""

    def __init__(self, start: datetime = datetime(2026, 11, 21, 7, 25, tzinfo=UTC)) -> None:
        self._start = start
        self.elapsed_s = 0.0

    def __call__(self) -> float:
        return self.elapsed_s

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.elapsed_s)

    def advance(self, seconds: float) -> None:
        self.elapsed_s += seconds
