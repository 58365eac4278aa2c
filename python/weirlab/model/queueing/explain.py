"""The queueing model's numbers as a table and as sentences."""

from __future__ import annotations

import math

import numpy as np

from weirlab.base.quantities import percent
from weirlab.model import wording
from weirlab.model.base import Parameter, ProfileRange
from weirlab.model.queueing.delay import MIN_SCV, DelayCurve
from weirlab.model.queueing.disturbance import DisturbanceLaw
from weirlab.model.queueing.service import ServiceTime


def parameters(
    service: ServiceTime,
    delays: dict[str, DelayCurve],
    queue_packets: float,
    queue_stderr: float,
    host: DisturbanceLaw,
    profiled: ProfileRange,
) -> list[Parameter]:
    """The fitted numbers; those that the data did not support are left out."""
    rules = " in the rule stage" if service.stages == 2 else ""
    # What each rule costs is not known from one position alone.
    alone = profiled.position_min == profiled.position_max > 0
    behind = f"at position {profiled.position_min:g}" if alone else "without rules"
    of_service = (
        ("service_fixed_ns", "fixed_ns", "ns", f"time per packet {behind}{rules}"),
        ("service_per_rule_ns", "per_rule_ns", "ns/rule", "further time per rule before the match"),
        ("service_per_byte_ns", "per_byte_ns", "ns/B", "further time per byte of the frame" + rules),
        ("io_service_ns", "io_ns", "ns", "time per packet in the input/output stage"),
        ("io_per_byte_ns", "io_per_byte_ns", "ns/B", "further input/output time per byte of the frame"),
        ("service_spread_ns", "spread_ns", "ns", "standard deviation of the stages' difference"),
        ("service_late_per_rule_ns", "late_per_rule_ns", "ns/rule", "time per rule beyond the bend"),
        ("bend_position", "bend_position", "rules", "position around which rules begin to cost that"),
    )
    of_delay = (
        ("base_delay_ns", "base_ns", "ns", "mean delay outside the queue and its server"),
        ("base_per_byte_ns", "per_byte_ns", "ns/B", "further mean delay per byte of the frame"),
        ("cold_per_rule_ns", "cold_per_rule_ns", "ns/rule", "further mean delay per rule while not busy"),
        ("wake_ns", "wake_ns", "ns", "mean delay until an idle device has woken up"),
        ("wake_half_pps", "wake_pps", "pps", "load at which half of the wake-up delay is left"),
        ("service_scv", "service_scv", "1", "squared coefficient of variation of service times"),
        ("interruption_ns", "interruption_ns", "ns", "mean wait for interruptions of the CPU at half load"),
    )
    mean = delays["delay_mean_ns"]
    queue = Parameter(
        "queue_packets", queue_packets, queue_stderr, "packets", "places in the queue and in service"
    )
    return [
        *(
            Parameter(name, getattr(service, key), service.stderr[key], unit, meaning)
            for name, key, unit, meaning in of_service
            if key in service.stderr
        ),
        queue,
        *(
            Parameter(name, getattr(mean, key), mean.stderr[key], unit, meaning)
            for name, key, unit, meaning in of_delay
            if key in mean.stderr
        ),
        *(_of_host(host) if host.share > 0 else ()),
    ]


def _of_host(host: DisturbanceLaw) -> tuple[Parameter, ...]:
    told = (
        ("host_share", "share", "1", "share of packets that the host holds up at an idle device"),
        ("host_scale_ns", "scale_ns", "ns", "delay from which their number falls as a power"),
        ("host_tail", "tail", "1", "that power: the smaller, the heavier the tail"),
    )
    return tuple(
        Parameter(name, getattr(host, key), host.stderr.get(key, math.nan), unit, meaning)
        for name, key, unit, meaning in told
    )


def in_words(
    service: ServiceTime,
    delays: dict[str, DelayCurve],
    queue_packets: float,
    queue_stderr: float,
    host: DisturbanceLaw,
    profiled: ProfileRange,
    new_flow_rules: float = 0.0,
) -> list[str]:
    """What the numbers mean, one sentence each; see ``QueueingModel.in_words``."""

    def at(position: float) -> str:
        if new_flow_rules:
            return f"with {percent(position / new_flow_rules)} new flows"
        return f"at position {position:g}"

    frame, near, far = profiled.frame_min_bytes, profiled.position_min, profiled.position_max
    first, last = _service_ns(service, near, frame), _service_ns(service, far, frame)
    said = [
        f"{at(near).capitalize()} a frame of {frame:.0f} B takes {wording.ns(first)}: "
        f"the model's threshold is {wording.pps(1e9 / first)}."
    ]
    if far > near and new_flow_rules and last > first:
        each = wording.ns((last - first) * new_flow_rules / (far - near))
        said.append(
            f"The first packet of a flow and its answer add {each}; {at(far)} {wording.pps(1e9 / last)} pass."
        )
    elif far > near and service.bend_position > 0:
        said.append(
            f"Each rule before the match adds {wording.ns(service.per_rule_ns)} up to about rule "
            f"{service.bend_position:.0f} and {wording.ns(service.late_per_rule_ns)} beyond, as when rules "
            f"no longer fit into a cache; {at(far)} {wording.pps(1e9 / last)} pass."
        )
    elif far > near and not wording.determined(service.per_rule_ns, service.stderr.get("per_rule_ns")):
        said.append(f"What a rule before the match costs is {wording.UNDETERMINED}.")
    elif far > near and service.per_rule_ns > 0:
        each = wording.with_error(service.per_rule_ns, service.stderr.get("per_rule_ns"), "ns")
        said.append(f"Each rule before the match adds {each}; {at(far)} {wording.pps(1e9 / last)} pass.")
    elif far > near:
        what = "matching position" if not new_flow_rules else "share of new flows"
        said.append(f"The {what} makes no difference: {at(far)} a frame takes as long.")
    large = profiled.frame_max_bytes
    if service.per_byte_ns > 0 or service.io_per_byte_ns > 0:
        shares = [
            f"{percent(alone / _service_ns(service, position, large))} {at(position)}"
            for position, alone in {near: first, far: last}.items()
        ]
        rates = " and ".join(shares)
        said.append(
            f"Frames of {large:.0f} B pass at this share of the rate of {frame:.0f} B frames: {rates}."
        )
    if service.stages == 2:
        said.append(_two_stages(service, frame))
    queue = wording.with_error(queue_packets, queue_stderr, "packets")
    if queue == wording.UNDETERMINED:
        said.append(f"How many packets the queue holds is {queue}.")
    else:
        said.append(
            f"The queue holds {queue}: in overload half of all packets wait longer than "
            f"{wording.ns(queue_packets * first)} {at(near)}"
            + (f" and {wording.ns(queue_packets * last)} {at(far)}." if far > near else ".")
        )
    return [*said, *_below(delays["delay_mean_ns"]), *_by_host(host)]


def _by_host(host: DisturbanceLaw) -> list[str]:
    if host.share <= 0 or not wording.determined(host.share, host.stderr.get("share")):
        return []
    idle = np.zeros(())
    one, rare = (float(host.quantile_ns(q, idle)) for q in (0.99, 0.999))
    return [
        f"Now and then the host holds packets up: one in a hundred for more than {wording.ns(one)}, one in a "
        f"thousand for more than {wording.ns(rare)} at an idle device, and more the busier it is."
    ]


def _below(mean: DelayCurve) -> list[str]:
    said = []
    if mean.wake_ns > 0 and wording.determined(mean.wake_ns, mean.stderr.get("wake_ns")):
        said.append(
            f"An idle device takes another {wording.ns(mean.wake_ns)} to wake up; at "
            f"{wording.pps(mean.wake_pps)} half of that is left."
        )
    if mean.interruption_ns > 0:
        said.append(
            "Interruptions of the device's CPU hold packets up: by "
            f"{wording.ns(mean.interruption_ns)} on average at half load, however fast the rules are."
        )
    elif not wording.determined(mean.service_scv, mean.stderr.get("service_scv")):
        said.append(f"How much service times vary is {wording.UNDETERMINED}.")
    elif mean.service_scv <= 2 * MIN_SCV:
        said.append("The device takes equally long for every packet: evenly spaced packets never wait.")
    else:
        said.append(
            f"Below the threshold packets wait as if service times had a squared coefficient of variation of "
            f"{mean.service_scv:.2g} (0: all alike, 1: exponential)."
        )
    return said


def _two_stages(service: ServiceTime, frame: float) -> str:
    fluctuating = ", both fluctuating," if service.spread_ns > 0 else ""
    transfer = service.io_ns + service.io_per_byte_ns * frame
    return (
        f"Two stages in series{fluctuating} explain the thresholds better than one (BIC lower by "
        f"{service.bic_gain:.0f}): input and output take {wording.ns(transfer)} and hide the rules up to "
        f"about position {service.even_position(frame):.0f}."
    )


def _service_ns(service: ServiceTime, position: float, frame: float) -> float:
    value = service.ns(np.array(position), np.array(frame))
    return float(value) if math.isfinite(float(value)) else math.nan
