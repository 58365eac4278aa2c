"""A monitored link made of formulas: what it cannot carry is lost where a real one would lose it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from weirlab.base.closing import Closable
from weirlab.links.monitor.plan import RECORDING, MonitorGap, MonitorSettings, RecorderReport, Stages
from weirlab.records import EngineResult, HostSample
from weirlab.testing.results import make_result
from weirlab.traffic.load import offered_pps
from weirlab.traffic.spec import Traffic

MAX_PPS: Final = 2_000_000
"""The rate of a sender that sends as fast as possible."""

_EPOCH_NS: Final = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class LinkCapacity:
    """What a :class:`FakeLink` can carry, in frames per second."""

    link_pps: float = 1_000_000
    copies_ratio: float = 0.95
    """Share of ``link_pps`` that it carries when copies are made."""
    record_pps: Mapping[str, float] = field(
        default_factory=lambda: {
            "tap-ring": 700_000,
            "tap-mirror": 500_000,
            "tcpdump-bridge": 300_000,
            "tcpdump-receiver": 250_000,
        }
    )
    ring_frames: int = 20_000
    """Frames that can wait for a stalled recorder."""


@dataclass(frozen=True)
class TrialFault:
    """What goes wrong in one trial."""

    steal_s: float = 0.0
    """Stolen from the bridge's CPU."""
    vanished: int = 0
    """Number of frames that are in no count."""
    fails: BaseException | None = None
    """Raised instead of the trial."""


class FakeLink(Closable):
    """Replaces :class:`weirlab.links.monitor.bed.LinkLab` in tests."""

    lab = "netns"
    backend = "xdp"

    def __init__(
        self,
        settings: MonitorSettings,
        powers: LinkCapacity = LinkCapacity(),
        mishaps: Iterable[TrialFault | None] = (),
    ) -> None:
        self.settings, self._powers = settings, powers
        self._mishaps: Iterator[TrialFault | None] = iter(mishaps)
        self.stages: Stages | None = None
        self.stalled_ns: tuple[int, int] | None = None
        self.closed = False
        self._wall_s = self._steal_s = 0.0

    @property
    def dut(self) -> str:
        return self.settings.method

    @property
    def facts(self) -> Mapping[str, object]:
        return {"kernel": "6.18", "sender_cpu": 0, "bridge_cpu": 1, "recorder_cpu": 1, "records": "/tmp"}

    def set_rules(self, rules: object) -> None: ...

    def set_cross_traffic(self, on: bool) -> None: ...

    def counters(self) -> dict[str, int]:
        return {}

    def host(self) -> HostSample:
        cpu_s = {"sender": {"steal": 0.0}, "dut": {"steal": self._steal_s}}
        return HostSample(wall_s=self._wall_s, cpu_s=cpu_s)

    def run(self, traffic: Traffic) -> EngineResult:
        mishap = next(self._mishaps, None) or TrialFault()
        if mishap.fails is not None:
            raise mishap.fails
        duration_s, offered = traffic.duration_s, min(offered_pps(traffic), MAX_PPS)
        self._wall_s += duration_s
        self._steal_s += mishap.steal_s
        sent = round(offered * duration_s)
        copies = self.settings.method in RECORDING
        power = self._powers.link_pps * (self._powers.copies_ratio if copies else 1.0)
        entered = min(sent, round(power * duration_s))
        received = entered - mishap.vanished
        self.stages = Stages(sent, sent - entered, entered, received, 0, received)
        if copies:
            self.stages = self._recorded(self.stages, duration_s)
        result = make_result(offered, duration_s=duration_s, backend="xdp")
        return replace(result, received=received, arrived=received, lost=sent - received)

    def close(self) -> None:
        self.closed = True

    def _recorded(self, stages: Stages, duration_s: float) -> Stages:
        settings, method = self.settings, self.settings.method
        at_receiver = method == "tcpdump-receiver"
        passed = stages.received if at_receiver else stages.entered
        logged = min(passed, round(self._powers.record_pps[method] * duration_s))
        gaps: tuple[MonitorGap, ...] = ()
        self.stalled_ns = None
        if (stall := settings.stall) is not None:
            away = round(passed * stall.pause_s / duration_s)
            missing = max(away - self._powers.ring_frames, 0)
            logged = min(logged, passed - missing)
            self.stalled_ns = _EPOCH_NS, _EPOCH_NS + round(stall.pause_s * 1e9)
            if missing and method.startswith("tap-"):
                gaps = (MonitorGap(*self.stalled_ns, missing, "ring"),)
        lost = passed - logged
        if method == "tap-ring":
            recorded = RecorderReport(logged, seen=logged, lost=lost, not_written=0, gaps=gaps)
            return replace(stages, copied=logged, not_copied=lost, recorded=recorded)
        if method == "tap-mirror":
            recorded = RecorderReport(logged, seen=logged, lost=lost, not_written=0, gaps=gaps)
            return replace(stages, mirrored=passed, not_mirrored=0, recorded=recorded)
        recorded = RecorderReport(logged, lost=lost, not_written=0)
        return replace(stages, recorded=recorded, at_receiver=at_receiver)
