"""Calls as the engine's departure schedule."""

from __future__ import annotations

import numpy as np

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls.outline import MAX_GAP_NS
from weirlab.traffic.calls.schedule import schedule
from weirlab.traffic.plan import MAX_WINDOWS, DeparturePlan, bin_width_ns
from weirlab.traffic.spec import FlowEndpoints, Traffic


def compile_calls(traffic: Traffic, endpoints: FlowEndpoints | None = None) -> DeparturePlan:
    """The calls of ``traffic``, with every packet as an entry that is played once; between ``endpoints``
    if given, with the sender's side as the source.

    Departures are whole ns, each rounded separately, so that rounding errors do not add up.

    Raises
    ------
    InputError
        The calls cannot be sent (see :func:`weirlab.traffic.calls.schedule.schedule`), there are load
        steps, or a pause between packets is longer than the engine can wait.
    """
    if traffic.calls is None:
        raise InputError("there are no calls in this traffic")
    if traffic.steps:
        raise InputError("load steps with calls are not possible; run a trial per number of calls")
    bin_ns = bin_width_ns(traffic)
    calls = schedule(traffic.calls, traffic.duration_s, traffic.warmup_s, endpoints)
    total_ns = calls.warmup_ns + calls.duration_ns
    gap_ns = np.diff(calls.due_ns, append=total_ns)
    longest_ns = int(gap_ns.max())
    if longest_ns > MAX_GAP_NS:
        raise InputError(
            f"nobody speaks for {longest_ns / NS_PER_S:.3g} s; up to {MAX_GAP_NS / NS_PER_S:.2f} s is "
            "possible; make more calls, or let them talk all the time"
        )
    return DeparturePlan(
        gap_ns=gap_ns.astype(np.uint32),
        gap_frac=np.zeros(len(gap_ns), dtype=np.uint16),
        frame_bytes=calls.frame_bytes,
        flow=calls.flow,
        phases=[(total_ns, 0, len(gap_ns))],
        paced=True,
        warmup_ns=calls.warmup_ns,
        duration_ns=calls.duration_ns,
        bin_ns=bin_ns,
        windowed=calls.duration_ns <= MAX_WINDOWS * bin_ns,
        flows=calls.addresses,
        l4="udp",
        ip=calls.ip,
        nominal_pps=calls.recorded * NS_PER_S / calls.duration_ns,
        media=calls.media,
    )
