"""Ways to monitor a link, which trials, in which order, and what is counted on the way of frames. Pure.

Every run goes through all methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, get_args

from weirlab.records import EngineResult
from weirlab.traffic.load import offered_pps, parse_rate
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Traffic

Method = Literal["tap-bare", "plain-bridge", "tap-ring", "tap-mirror", "tcpdump-bridge", "tcpdump-receiver"]

METHODS: Final[tuple[Method, ...]] = get_args(Method)

BARE: Final[dict[Method, Method]] = {
    "tap-ring": "tap-bare",
    "tap-mirror": "tap-bare",
    "tcpdump-bridge": "plain-bridge",
    "tcpdump-receiver": "plain-bridge",
}
"""The same bridge when nobody records, by each method that does."""

RECORDING: Final = tuple(BARE)

WORDS: Final[dict[str, str]] = {
    "tap-bare": "the tap without copies",
    "plain-bridge": "the kernel's bridge",
    "tap-ring": "the tap with a ring",
    "tap-mirror": "the tap with a mirror",
    "tcpdump-bridge": "tcpdump on the bridge",
    "tcpdump-receiver": "tcpdump at the receiver",
}
"""Methods in sentences."""

RING_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Stall:
    """The recorder stands still (SIGSTOP) from ``at_s`` after the trial began, for ``pause_s``."""

    at_s: float
    pause_s: float


@dataclass(frozen=True)
class MonitorSettings:
    """How a link is monitored."""

    method: Method
    backend: Literal["auto", "xdp", "af_packet"] = "auto"
    folder: Path | None = None
    """Where records go; None for the system's folder of temporary files."""
    keep: bool = False
    """Leave the records there after counting."""
    snap_bytes: int = 262_144
    ring_bytes: int = RING_BYTES
    link_first: bool = True
    """While the bridge's CPU has no time left, the tap cuts copies to their first bytes, and leaves longer
    frames out of the mirror."""
    tcpdump_buffer_kib: int | None = None
    """None: tcpdump's own choice."""
    recorder: Literal["bound", "free"] = "bound"
    """To a CPU, see :func:`weirlab.links.monitor.bed.lab.spare_cpu`, or wherever the scheduler puts it."""
    stall: Stall | None = None


@dataclass(frozen=True)
class MonitorGap:
    """Frames that are missing from a record; times in ns since 1970."""

    from_ns: int
    to_ns: int
    frames: int
    stage: str
    """``ring`` or ``disk``."""


@dataclass(frozen=True)
class RecorderReport:
    """What a recorder says of itself; None where it does not tell.

    ``logged`` is counted in its files afterwards.
    """

    logged: int
    seen: int | None = None
    """Frames that it was given."""
    lost: int | None = None
    """Frames that never came to it, as it was told."""
    not_written: int | None = None
    gaps: tuple[MonitorGap, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Stages:
    """What became of the frames of one trial; None where there is no such stage.

    Every number has a counter of its own. The link: ``sent = not_entered + entered``, ``entered =
    forwarded + not_forwarded``; nobody counts what is lost behind the bridge, so that it is what remains
    of ``forwarded`` less ``received``. The record, from where it is taken: ``entered = copied +
    not_copied`` into the tap's ring, ``= mirrored + not_mirrored`` by its mirror; at the receiver it
    begins with ``received``.
    """

    sent: int
    """By the sender's own count."""
    not_entered: int
    """Refused by the bridge's interface, because the ring in front of it was full."""
    entered: int
    forwarded: int
    """Given to the cable to the receiver, by the count of the bridge's interface there."""
    not_forwarded: int
    """Refused by that interface: by the tap's count, or by the interface's own on a bridge of the kernel."""
    received: int
    """At the far end."""
    copied: int | None = None
    """Put into the tap's ring."""
    not_copied: int | None = None
    cut: int | None = None
    """Of which the tap copied the first bytes only, as the link needed the CPU."""
    mirrored: int | None = None
    """Copies sent to the logger."""
    not_mirrored: int | None = None
    """For want of room in the mirror's ring or on its interface."""
    recorded: RecorderReport | None = None
    """None where nobody recorded."""
    at_receiver: bool = False
    """The record is taken there."""


class MonitorRecorder(Protocol):
    """Somebody who records from when it is made until :meth:`end`."""

    @property
    def pid(self) -> int:
        """The process that records; this one's own where it is a thread."""

    def end(self) -> RecorderReport:
        """Write what is there, stop, and count what was written."""

    def close(self) -> None:
        """Stop in any case; may be called twice."""


def stages_of(counted: Mapping[str, int], result: EngineResult, method: str) -> Stages:
    """The way of a trial's frames from differences of counters over time; nobody's record yet."""
    sent = result.sent + result.sent_warmup
    at_receiver = method == "tcpdump-receiver"
    # The engine's receiver tells its probes from anything else; as in `sent`, all of them count.
    received = counted["rx_rx_packets"] if at_receiver else result.arrived
    if not method.startswith("tap-"):
        return Stages(
            sent, counted["tx_tx_dropped"], counted["in_rx_packets"], counted["out_tx_packets"],
            counted["out_tx_dropped"], received, at_receiver=at_receiver,
        )  # fmt: skip
    # A tap has one ring for a recorder and another one for the mirror.
    copies, mirrors = method == "tap-ring", method == "tap-mirror"
    return Stages(
        sent=sent,
        not_entered=counted["tx_tx_dropped"],
        entered=counted["tap_received"],
        # Not the tap's own count: it does not have one in generic mode, but takes the difference.
        forwarded=counted["out_tx_packets"],
        not_forwarded=counted["tap_not_forwarded"],
        received=received,
        copied=counted["tap_copied"] if copies else None,
        not_copied=counted["tap_not_copied"] if copies else None,
        cut=counted["tap_cut"],
        mirrored=counted.get("mirror_sent") if mirrors else None,
        not_mirrored=counted.get("mirror_not_sent") if mirrors else None,
    )


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
