"""Scenarios that ask what a monitor records of a link and what it costs the link: key ``monitor``, and the
trials and settings of links that it requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from weirlab.links.monitor.plan import (
    BARE,
    CUT_BYTES,
    METHODS,
    RECORDING,
    Method,
    MonitorPlan,
    MonitorSettings,
    MonitorTrialShape,
    Stall,
    frame_bytes,
    plan,
)
from weirlab.scenario.conflicts import Conflict
from weirlab.scenario.model import Root, Section
from weirlab.scenario.values import Attempts, NotEmpty, RateText, Repetitions, Seconds, no_repeats
from weirlab.traffic.schedule import compile_plan

PAYLOADS: Final = (10, 100, 500, 700, 1000, 1400)
"""From less than the least frame has to almost the largest."""

MAX_PAYLOAD_BYTES: Final = 1472
"""In an Ethernet frame of 1514 bytes."""

Payload = Annotated[int, Field(strict=True, ge=1, le=MAX_PAYLOAD_BYTES)]
Payloads = Annotated[tuple[Payload, ...], NotEmpty, AfterValidator(no_repeats)]
Methods = Annotated[tuple[Method, ...], NotEmpty, AfterValidator(no_repeats)]
Frame = Annotated[int, Field(strict=True, ge=60, le=1514)]
Pps = Annotated[float, Field(gt=0, le=2e7, allow_inf_nan=False)]
Bytes = Annotated[int, Field(strict=True, ge=1 << 16, le=1 << 32)]


class StallSection(Section):
    """Trials in which the recorder is stopped for a while (SIGSTOP)."""

    methods: Methods = ("tap-bare", "tap-ring", "tap-mirror", "plain-bridge", "tcpdump-bridge")
    """Methods that record, and for comparison the bridges alone."""
    payload: Payload = 10
    rate: RateText = "200kpps"
    before_s: Seconds = 0.5
    """From the beginning to the stop, in s."""
    pause_s: Seconds = 2.0
    """How long the recorder is stopped, in s."""
    after_s: Seconds = 1.0
    """From the end of the pause to the last frame, in s."""
    repetitions: Repetitions = 3
    ring_bytes: Bytes = 8 << 20
    """Size of the ring between bridge and recorder; too small for the pause, so that there is a gap."""


class SearchSection(Section):
    """The greatest rate at which every frame is forwarded and recorded in most trials."""

    methods: Methods = ("tap-ring", "tcpdump-bridge")
    frames: Annotated[tuple[Frame, ...], NotEmpty, AfterValidator(no_repeats)] = (60, 1514)
    """Frame sizes in bytes, without FCS."""
    min_pps: Pps = 20e3
    max_pps: Pps = 2e6
    precision: Annotated[float, Field(gt=0, le=0.5, allow_inf_nan=False)] = 0.05
    """The search ends when the least rate with loss is at most this share above the rate without loss."""
    trial_s: Seconds = 1.0
    repetitions: Repetitions = 3
    """Trials per rate; most of them must be without loss."""


class CopyCostSection(Section):
    """What copying costs the link: the rate forwarded in overload, with copies and without."""

    methods: Methods = ("tap-ring", "tap-mirror", "tcpdump-bridge")
    payloads: Payloads = (10, 1400)
    repetitions: Repetitions = 7
    """Trials per method and payload; methods take turns."""
    trial_s: Seconds = 0.3
    ring_bytes: Bytes = 512 << 20
    """Size of the ring between bridge and recorder; large enough for all copies, since frames that are not
    copied cost nothing."""
    whole: bool = True
    """Also measure the taps when they always copy whole frames, if frames have more than 128 bytes.
    Otherwise a tap copies only that much of them, or leaves them out of the mirror, while its CPU has no time
    left."""


class Monitor(Section):
    """What is measured: every method with every payload and load, and the extras below."""

    methods: Methods = METHODS
    """``tap-bare`` and ``plain-bridge``: the two bridges without a recorder. ``tap-ring``: the tap's ring,
    recorded on the same host. ``tap-mirror``: its copies, recorded by a logger. ``tcpdump-bridge`` and
    ``tcpdump-receiver``: a bridge of the kernel, with tcpdump -w on it or where the link ends."""
    payloads: Payloads = PAYLOADS
    """Bytes of UDP payload. Frames have at least 60 bytes (64 with FCS), so 10 and 18 make the same frame."""
    loads: Annotated[tuple[RateText, ...], NotEmpty, AfterValidator(no_repeats)] = ("max", "200kpps")
    """``max``: as fast as the sender can."""
    runs: Repetitions = 10
    trial_s: Seconds = 0.4
    """Length of a trial, all of which is recorded, in s."""
    records: Literal["disk", "memory"] = "disk"
    """Where records are written: the folder of temporary files, or /dev/shm."""
    keep: Path | None = None
    """Folder that keeps the records; left out: they are removed as soon as they are counted."""
    snap_bytes: Annotated[int, Field(strict=True, ge=64, le=262_144)] = 262_144
    """Bytes of each frame that are recorded."""
    ring_bytes: Bytes = 64 << 20
    """Size of the ring between bridge and recorder, shared equally among the machine's CPUs, and of the
    logger's ring."""
    tcpdump_buffer_kib: Annotated[int, Field(strict=True, ge=1, le=1 << 22)] | None = None
    """tcpdump's -B; left out: its own choice (2 MiB)."""
    stall: StallSection | None = StallSection()
    """Trials with a stalled recorder; ``null``: none."""
    search: SearchSection | None = SearchSection()
    copy_cost: CopyCostSection | None = CopyCostSection()
    max_attempts: Attempts = 3
    """Maximum attempts per trial; a trial that the host spoils is repeated."""


class LinkSection(Section):
    """Where the link is: always network namespaces."""

    backend: Literal["auto", "xdp", "af_packet"] = "auto"
    """How packets are sent and received."""
    recorder: Literal["bound", "free"] = "bound"
    """``bound``: the recorder has a CPU that neither sends nor forwards; if there is none, it shares the
    bridge's CPU, where the bridge's threads have priority. ``free``: it runs wherever the scheduler puts
    it."""


class MonitorScenario(Root, title="Weir scenario: link monitor"):
    """A scenario about a link monitor."""

    KEY = "monitor"

    lab: LinkSection = LinkSection()
    monitor: Monitor

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        """See :meth:`Root.trials`; those of a search follow from each other and are few."""
        what = self.monitor
        yield ("monitor",), len(what.methods) * len(what.payloads) * len(what.loads) * what.runs
        if (stall := what.stall) is not None:
            yield ("monitor", "stall"), len(stall.methods) * stall.repetitions
        if (copy := what.copy_cost) is not None:
            # Each method beside the bare bridge, and the taps once more with copies whole.
            yield ("monitor", "copy_cost"), 3 * len(copy.methods) * len(copy.payloads) * copy.repetitions

    def conflicts(self) -> Iterator[Conflict]:
        what = self.monitor
        if what.stall is not None:
            if what.stall.rate == "max":
                yield (
                    ("monitor", "stall", "rate"),
                    "at 'max' frames are lost without a stall, too: give a rate that the link carries",
                )
            if not set(what.stall.methods) & set(RECORDING):
                yield ("monitor", "stall", "methods"), f"none of them records: add {_some(RECORDING)}"
        if what.search is not None:
            if what.search.max_pps <= what.search.min_pps:
                yield (("monitor", "search", "max_pps"), f"must be above 'min_pps' ({what.search.min_pps:g})")
            for i, method in enumerate(what.search.methods):
                if method not in RECORDING:
                    yield (
                        ("monitor", "search", "methods", i),
                        f"{method!r} records nothing: choose from {_some(RECORDING)}",
                    )
        if what.copy_cost is not None:
            for i, method in enumerate(what.copy_cost.methods):
                if method not in BARE:
                    yield (
                        ("monitor", "copy_cost", "methods", i),
                        f"{method!r} copies nothing: choose from {_some(RECORDING)}",
                    )


def _some(methods: tuple[str, ...]) -> str:
    return ", ".join(map(repr, methods))


MEMORY: Final = Path("/dev/shm")
"""A folder whose files are in memory."""


def shapes_of(what: Monitor) -> tuple[MonitorTrialShape, ...]:
    """The planned parts; searches are not planned, because each rate follows from the last."""
    parts = [
        MonitorTrialShape(
            "validation", what.methods, what.payloads, what.loads, what.runs, what.trial_s, what.ring_bytes
        )
    ]
    if (copy := what.copy_cost) is not None:
        parts.append(
            MonitorTrialShape(
                "copy", _with_bare(copy.methods), copy.payloads, ("max",), copy.repetitions, copy.trial_s,
                copy.ring_bytes,
            )
        )  # fmt: skip
        taps = tuple(method for method in copy.methods if method.startswith("tap-"))
        # What fits into a cut copy is copied whole in any case.
        large = tuple(payload for payload in copy.payloads if frame_bytes(payload) > CUT_BYTES)
        if copy.whole and taps and large:
            parts.append(
                MonitorTrialShape(
                    "whole", _with_bare(taps), large, ("max",), copy.repetitions, copy.trial_s,
                    copy.ring_bytes,
                )
            )  # fmt: skip
    if (stall := what.stall) is not None:
        parts.append(
            MonitorTrialShape(
                "stall",
                stall.methods,
                (stall.payload,),
                (stall.rate,),
                stall.repetitions,
                stall.before_s + stall.pause_s + stall.after_s,
                stall.ring_bytes,
                Stall(stall.before_s, stall.pause_s),
            )
        )
    return tuple(parts)


def common_settings(scenario: MonitorScenario) -> MonitorSettings:
    """What all links of a run have in common."""
    what = scenario.monitor
    folder = what.keep or (MEMORY if what.records == "memory" else None)
    return MonitorSettings(
        method=what.methods[0],
        backend=scenario.lab.backend,
        recorder=scenario.lab.recorder,
        folder=folder,
        keep=what.keep is not None,
        snap_bytes=what.snap_bytes,
        ring_bytes=what.ring_bytes,
        tcpdump_buffer_kib=what.tcpdump_buffer_kib,
    )


def _with_bare(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """Each method, followed by the bridge that it is compared with."""
    return tuple(dict.fromkeys(which for method in methods for which in (method, BARE[method])))


def methods_of(what: Monitor) -> tuple[Method, ...]:
    """Every method that some part needs."""
    wanted = [method for shape in shapes_of(what) for method in shape.methods]
    return tuple(dict.fromkeys([*wanted, *(what.search.methods if what.search else ())]))


def checked(scenario: MonitorScenario) -> tuple[MonitorPlan, ...]:
    """The plan; raises, before anything is built, if its traffic cannot be sent."""
    trials = plan(shapes_of(scenario.monitor))
    for planned in {(one.payload_bytes, one.load, one.duration_s): one for one in trials}.values():
        compile_plan(planned.traffic())
    return trials
