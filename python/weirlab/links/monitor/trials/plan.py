"""Which trials, in which order: every run goes through all methods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from weirlab.links.monitor.bed.base import BARE, Method, MonitorSettings, Stall
from weirlab.traffic.load import offered_pps, parse_rate
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Traffic

Part = Literal["validation", "copy", "whole", "stall", "search"]

LAB_S: Final = 0.8
"""What it takes to build a link."""
OVERHEAD_S: Final = 0.3
"""What a trial takes besides its traffic."""

_SPOKEN: Final[dict[Part, str]] = {
    "validation": "",
    "copy": "copy cost, ",
    "whole": "cost of whole copies, ",
    "stall": "stall, ",
    "search": "search, ",
}

CUT_BYTES: Final = 128
"""To so many bytes the tap cuts copies when the link needs the CPU; of longer frames the mirror gets none."""

_ETHERNET: Final = 14
_HEADERS: Final = _ETHERNET + 20 + 8
_FCS: Final = 4
LEAST_FRAME_BYTES: Final = 60


def frame_bytes(payload_bytes: int) -> int:
    """Bytes of an Ethernet frame, without FCS, with so much UDP payload over IPv4."""
    return max(payload_bytes + _HEADERS, LEAST_FRAME_BYTES)


def payload_bytes(frame: int) -> int:
    """Most UDP payload in a frame of this many bytes, without FCS."""
    return frame - _HEADERS


@dataclass(frozen=True)
class MonitorTrialShape:
    """What the trials of a part have in common."""

    part: Part
    methods: tuple[Method, ...]
    payloads: tuple[int, ...]
    loads: tuple[str, ...]
    runs: int
    duration_s: float
    ring_bytes: int
    stall: Stall | None = None


@dataclass(frozen=True)
class MonitorPlan:
    """One trial. Those in a row with the same ``lab`` share a link."""

    index: int
    part: Part
    method: Method
    payload_bytes: int
    load: str
    run: int
    duration_s: float
    ring_bytes: int
    stall: Stall | None = None
    frame: int | None = None
    """Bytes without FCS, if those are given instead of the payload."""

    @property
    def lab(self) -> tuple[Part, Method, int]:
        """Which link: every run has its own links."""
        return self.part, self.method, self.run

    @property
    def frame_bytes(self) -> int:
        """Without FCS."""
        return self.frame or frame_bytes(self.payload_bytes)

    @property
    def text(self) -> str:
        """For people."""
        size = f"{self.frame_bytes} B frames" if self.frame else f"payload {self.payload_bytes} B"
        # Searched rates are any number.
        load = f"{offered_pps(self.traffic()) / 1e3:,.1f} kpps" if self.part == "search" else self.load
        return f"{_SPOKEN[self.part]}{self.method}, {size}, {load}, run {self.run}"

    def traffic(self) -> Traffic:
        """What is sent; every frame of it counts, so nothing is sent before."""
        return Traffic(
            parse_rate(self.load), Constant(self.frame_bytes + _FCS), warmup_s=0.0, duration_s=self.duration_s
        )

    def settings(self, common: MonitorSettings) -> MonitorSettings:
        """The link that it needs."""
        from dataclasses import replace

        stall = self.stall if self.method in BARE else None
        return replace(
            common,
            method=self.method,
            ring_bytes=self.ring_bytes,
            link_first=self.part != "whole",
            stall=stall,
        )


def plan(shapes: Sequence[MonitorTrialShape]) -> tuple[MonitorPlan, ...]:
    """The trials of all shapes; in each run the methods begin with another one."""
    found: list[MonitorPlan] = []
    for shape in shapes:
        for run in range(1, shape.runs + 1):
            turn = (run - 1) % len(shape.methods)
            for method in (*shape.methods[turn:], *shape.methods[:turn]):
                for payload in shape.payloads:
                    for load in shape.loads:
                        found.append(
                            MonitorPlan(
                                len(found), shape.part, method, payload, load, run, shape.duration_s,
                                shape.ring_bytes, shape.stall,
                            )
                        )  # fmt: skip
    return tuple(found)


def estimate_s(trials: Iterable[MonitorPlan]) -> float:
    """Expected wall time in s when none has to be repeated."""
    trials = list(trials)
    labs = len({planned.lab for planned in trials})
    return labs * LAB_S + sum(planned.duration_s + OVERHEAD_S for planned in trials)
