"""A fake lab whose engines set up a limited number of calls per second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weirlab.numbering.fakes import FakeLab
from weirlab.numbering.lab.loading import OTHERS, CallLoad, LoadResult
from weirlab.numbering.lab.recorder import Frame
from weirlab.numbering.routing import PlanNetwork


class FakeLoadLab(FakeLab):
    """A fake :class:`weirlab.numbering.lab.VoiceLab` for load tests.

    Parameters
    ----------
    capacity_per_s:
        Above this rate, half of the calls fail.
    caller_per_s:
        SIPp begins no more calls than that.
    slow_from_per_s:
        From this rate on, set-ups take a second.
    others:
        CPU time of other work over the time of a trial.
    """

    def __init__(
        self,
        network: PlanNetwork,
        folder: Path,
        capacity_per_s: float = 640,
        caller_per_s: float = 5000,
        slow_from_per_s: float = 1e9,
        others: float | None = None,
    ) -> None:
        super().__init__(network, folder)
        self._capacity, self._fastest = capacity_per_s, caller_per_s
        self._slow_from, self._others = slow_from_per_s, others
        self.rates: list[int] = []

    def load(self, offered: CallLoad) -> LoadResult:
        rate_per_s, seconds = offered.rate_per_s, offered.seconds
        caller, callee, edges_ms = offered.caller, offered.callee, offered.edges_ms
        self.rates.append(rate_per_s)
        calls = round(min(rate_per_s, self._fastest) * seconds)
        failed = calls // 2 if rate_per_s > self._capacity else 0
        setup_ms = 1000 if rate_per_s >= self._slow_from else 5
        frames: list[Frame] = []
        if offered.speaking:
            frames = [*self._speech(caller, callee, {}, 0), *self._speech(callee, caller, {}, 0)]
        text = statistics(calls, failed, {setup_ms: calls - failed}, edges_ms, seconds)
        return LoadResult(text, frames, self._work(rate_per_s))

    def _work(self, rate_per_s: float) -> Mapping[str, float]:
        own = {**{daemon.name: rate_per_s / 2000 for daemon in self.daemons}, "sipp": rate_per_s / 3000}
        return own if self._others is None else {**own, OTHERS: self._others}


def statistics(
    calls: int, failed: int, setups: Mapping[int, int], edges_ms: list[int], seconds: float
) -> str:
    """SIPp's statistics: a row at the end of the trial."""
    classes = [setups.get(edge, 0) for edge in edges_ms]
    row = {
        "StartTime": "2026-11-23\t00:00:00.000000\t1795392000.000000",
        "CurrentTime": f"2026-11-23\t00:00:00.000000\t{1795392000 + seconds:.6f}",
        "OutgoingCall(C)": calls,
        "FailedCall(C)": failed,
        "Retransmissions(C)": failed,
        **{f"ResponseTimeRepartition1_<{edge}": count for edge, count in zip(edges_ms, classes, strict=True)},
        f"ResponseTimeRepartition1_>={edges_ms[-1]}": 0,
    }
    return f"{';'.join(row)};\n{';'.join(map(str, row.values()))};\n"
