"""What a scenario about a link monitor requests, as trials and as settings of links."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weirlab.links.monitor.bed.base import BARE, Method, MonitorSettings, Stall
from weirlab.links.monitor.section import Monitor, MonitorScenario
from weirlab.links.monitor.trials.plan import CUT_BYTES, MonitorPlan, MonitorTrialShape, frame_bytes, plan
from weirlab.traffic.schedule import compile_plan

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
