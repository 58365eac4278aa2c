"""From the user's terms to the departure schedule that the engine plays."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.traffic import sizes
from weirlab.traffic.flows import describe_headers, min_frame_bytes, new_flows, table, with_new
from weirlab.traffic.load import describe_rate, rate_pps
from weirlab.traffic.places import Places, flow_groups, turns
from weirlab.traffic.plan import (
    MAX_WINDOWS,
    NEXT_FLOW,
    OPENING_ROUNDS,
    Answering,
    DeparturePlan,
    bin_width_ns,
)
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Arrivals, FlowEndpoints, Flows, Rate, Traffic, stretches

PATTERN_ENTRIES: Final = 16384

OPENING_GAP_NS: Final = 50_000
"""Between packets that open flows before the load: any device keeps up with 20,000 packets/s."""

_FRAC: Final = 1 << 16


_MAX_UNITS: Final = (1 << 32) * _FRAC


def compile_plan(
    traffic: Traffic, places: Places = (), endpoints: FlowEndpoints | None = None
) -> DeparturePlan:
    """Turn ``traffic`` into a :class:`DeparturePlan`; raises ``InputError`` for what cannot be sent.

    The pattern is a function of ``traffic`` (its seed included), ``places`` and ``endpoints`` alone.
    ``places`` says which share of the packets matches where, if not all at one position;
    ``endpoints`` are those of the flows, if not the default ones.
    """
    if traffic.calls is not None:
        return _compile_calls(traffic, places, endpoints)
    warmup_ns, duration_ns = _window(traffic)
    sizes.validate(traffic.sizes, min_frame_bytes(traffic.flows), describe_headers(traffic.flows))
    loads = _loads(traffic, warmup_ns, duration_ns)
    paced = not any(rate.unit == "max" for rate, *_ in loads)
    if not paced and len({rate for rate, *_ in loads}) > 1:
        raise InputError(
            "a load step from or to 'max' cannot be paced; give both loads as pps, bit/s or percent"
        )
    check_answers(traffic.flows, places)
    if traffic.flows.answered and traffic.flows.new_share < 1 and not paced:
        raise InputError(
            "--rate max would lose the packets that open flows; give a load in packets/s, or find the "
            "highest that passes: weir search --answered"
        )
    groups = flow_groups(places, traffic.flows.count) if len(places) > 1 else None

    rng = np.random.default_rng(traffic.seed)
    gaps: list[npt.NDArray[np.int64]] = []
    frames: list[npt.NDArray[np.uint16]] = []
    flow: list[npt.NDArray[np.uint32]] = []
    phases: list[tuple[int, int, int]] = []
    recorded_packets, first = 0.0, 0
    for rate, position, start_ns, end_ns in loads:
        pps = rate_pps(rate, traffic.sizes)
        one = isinstance(traffic.sizes, Constant) and (traffic.arrivals == "constant" or not paced)
        one = one and traffic.flows.new_share in (0.0, 1.0)
        share = _shares(places, position)
        if groups is not None:
            flow.append(turns(share, groups, PATTERN_ENTRIES, rng))
        else:
            flow.append(_turns(traffic.flows, 1 if one else PATTERN_ENTRIES))
        n = len(flow[-1])
        frames.append(sizes.draw(traffic.sizes, n, rng))
        gaps.append(_gap_units(rate, pps, n, traffic.arrivals, rng))
        phases.append((end_ns, first, n))
        recorded_packets += pps * max(end_ns - max(start_ns, warmup_ns), 0) / NS_PER_S
        first += n
    if recorded_packets < 1:
        raise InputError(
            f"at {describe_rate(traffic.rate)} no packet would be sent in {traffic.duration_s:g} s; "
            "raise the rate or the duration"
        )
    units = np.concatenate(gaps)
    plan = DeparturePlan(
        gap_ns=(units // _FRAC).astype(np.uint32),
        gap_frac=(units % _FRAC).astype(np.uint16),
        frame_bytes=np.concatenate(frames),
        flow=np.concatenate(flow),
        phases=phases,
        paced=paced,
        warmup_ns=warmup_ns,
        duration_ns=duration_ns,
        bin_ns=(bin_ns := bin_width_ns(traffic)),
        windowed=not traffic.steps and duration_ns <= MAX_WINDOWS * bin_ns,
        flows=table(traffic.flows, places, endpoints),
        l4=traffic.flows.l4,
        ip=traffic.flows.ip,
        nominal_pps=recorded_packets * NS_PER_S / duration_ns,
    )
    return with_answers(plan, traffic.flows, endpoints) if traffic.flows.answered else plan


def check_answers(flows: Flows, places: Places = ()) -> None:
    """Raise ``InputError`` for answers that there cannot be."""
    if not 0 <= flows.new_share <= 1:
        raise InputError(f"--new {flows.new_share:g}: give the share of packets that open flows, up to 100%")
    if flows.new_share and not flows.answered:
        raise InputError("--new goes with --answered: without an answer, a device takes every packet for new")
    if flows.answered and len(places) > 1:
        raise InputError("answered traffic cannot match at several positions; name one position")


def _turns(flows: Flows, n: int) -> npt.NDArray[np.uint32]:
    """The flow of each of ``n`` packets: known ones in turn, and new ones evenly among them."""
    share = np.floor(np.arange(n + 1) * flows.new_share)
    return np.where(np.diff(share) > 0, flows.count, NEXT_FLOW).astype(np.uint32)


def with_answers(plan: DeparturePlan, flows: Flows, endpoints: FlowEndpoints | None) -> DeparturePlan:
    """``plan`` with flows that are answered: they are opened in front of its warm-up."""
    new = new_flows(flows, endpoints) if flows.new_share else None
    opened = 0 if flows.new_share == 1 else OPENING_ROUNDS * flows.count
    opening_ns = opened * OPENING_GAP_NS
    phases = [(end_ns + opening_ns, first, n) for end_ns, first, n in plan.phases]
    if opened:
        phases.insert(0, (opening_ns, len(plan.flow), 1))
        plan = replace(
            plan,
            gap_ns=np.append(plan.gap_ns, np.uint32(OPENING_GAP_NS)),
            gap_frac=np.append(plan.gap_frac, np.uint16(0)),
            frame_bytes=np.append(plan.frame_bytes, plan.frame_bytes[:1]),
            flow=np.append(plan.flow, np.uint32(NEXT_FLOW)),
        )
    return replace(
        plan,
        phases=phases,
        warmup_ns=plan.warmup_ns + opening_ns,
        flows=plan.flows if new is None else with_new(plan.flows, plan.ip),
        answers=Answering(new),
    )


def _compile_calls(traffic: Traffic, places: Places, endpoints: FlowEndpoints | None) -> DeparturePlan:
    # Imported here because that module imports this one.
    from weirlab.traffic.calls.schedule import compile_calls

    if len(places) > 1:
        raise InputError("calls through rules at several positions are not possible; name one position")
    return compile_calls(traffic, endpoints)


def _shares(places: Places, position: int | None) -> list[float]:
    """Share of the packets per place; all of them at ``position`` if a step says so."""
    if position is None:
        return [share for _, share in places]
    positions = [place for place, _ in places]
    if position not in positions:
        known = (
            f"only at {', '.join(map(str, positions))}" if positions else "there is only one matching rule"
        )
        raise InputError(
            f"step to matching position {position}: no rule accepts there ({known}); "
            "list it among the places of the rules, with share 0 if only the step uses it"
        )
    return [float(place == position) for place in positions]


def _window(traffic: Traffic) -> tuple[int, int]:
    if not (math.isfinite(traffic.duration_s) and traffic.duration_s > 0):
        raise InputError(f"duration of {traffic.duration_s:g} s: the recorded time must be above 0 s")
    if not (math.isfinite(traffic.warmup_s) and traffic.warmup_s >= 0):
        raise InputError(f"warm-up of {traffic.warmup_s:g} s: it must be 0 s or longer")
    return round(traffic.warmup_s * NS_PER_S), round(traffic.duration_s * NS_PER_S)


def _loads(traffic: Traffic, warmup_ns: int, duration_ns: int) -> list[tuple[Rate, int | None, int, int]]:
    """Rate, position after a step, start and end in ns of every phase; the warm-up belongs to the first."""
    times_s = [step.at_s for step in traffic.steps]
    for step in traffic.steps:
        if not 0 <= step.at_s < traffic.duration_s:
            raise InputError(
                f"load step at {step.at_s:g} s lies outside the recorded time (0 to {traffic.duration_s:g} s)"
            )
        if step.rate is None and step.position is None:
            raise InputError(f"the step at {step.at_s:g} s changes neither load nor matching position")
    if any(b <= a for a, b in itertools.pairwise(times_s)):
        raise InputError(
            f"load steps must be in ascending order of time, found {', '.join(f'{t:g} s' for t in times_s)}"
        )
    starts = [0, *(warmup_ns + round(at_s * NS_PER_S) for at_s in times_s)]
    ends = [*starts[1:], warmup_ns + duration_ns]
    return [
        (rate, position, start, end)
        for (rate, position), start, end in zip(stretches(traffic), starts, ends, strict=True)
        if end > start
    ]


def _gap_units(
    rate: Rate, pps: float, n: int, arrivals: Arrivals, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """``n`` gaps in units of 2^-16 ns whose mean is that of ``pps`` to within half a unit in the sum."""
    if math.isinf(pps):
        return np.zeros(n, dtype=np.int64)
    mean = NS_PER_S / pps * _FRAC
    if mean < 1:
        raise InputError(
            f"rate '{describe_rate(rate)}' is faster than any clock; use 'max' for as fast as possible"
        )
    if arrivals == "poisson":
        share = rng.exponential(size=n)
        share /= share.mean()
    else:
        share = np.ones(n)
    if mean * float(share.max()) >= _MAX_UNITS:
        longest_s = mean * float(share.max()) / _FRAC / NS_PER_S
        raise InputError(
            f"rate '{describe_rate(rate)}' is too slow: it needs a gap of {longest_s:.3g} s between packets; "
            f"up to {(1 << 32) / NS_PER_S:.2f} s is possible"
        )
    departures: npt.NDArray[np.int64] = np.zeros(n + 1, dtype=np.int64)
    departures[1:] = np.rint(np.cumsum(share * mean))
    return departures[1:] - departures[:-1]
