"""``weir plan path.yaml``: what flows meet on a path of devices in series, as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

from weirlab.base.errors import InputError
from weirlab.base.tables import Table
from weirlab.cli.output import Session
from weirlab.cli.quantities import count, duration, percent, rate, significant
from weirlab.cli.results import gates
from weirlab.devices.planning.path.outcome import PathOutcome, disturbed_in_words, plan_path
from weirlab.devices.planning.path.sections import ENDS, read_path
from weirlab.model.series import BAND_LEVEL

_DELAYS = ("delay_mean_ns", "delay_p50_ns", "delay_p90_ns", "delay_p99_ns", "delay_p999_ns")


def tables(outcome: PathOutcome) -> Iterator[Table]:
    """Flows, and devices."""
    yield Table(
        "Flows end to end",
        ("Flow", "Load", "Frame", "Mean", "p50", "p90", "p99", "p99.9", "Loss"),
        [
            (
                flow.name,
                rate(flow.rate_pps),
                f"{flow.frame_bytes:.0f} B",
                *(duration(flow.prediction.values[name]) for name in _DELAYS),
                percent(flow.prediction.values["loss_ratio"]),
            )
            for flow in outcome.flows
        ],
    )
    bounds = [
        (
            flow.name,
            title,
            duration(flow.prediction.values[name]),
            f"{duration(flow.prediction.low[name])} to {duration(flow.prediction.high[name])}",
        )
        for flow in outcome.flows
        for title, name in (("p50", "delay_p50_ns"), ("p99", "delay_p99_ns"))
        if name in flow.prediction.low
    ]
    if bounds:
        yield Table("Bounds", ("Flow", "Delay", "Predicted", f"{BAND_LEVEL} % of trials"), bounds)
    yield Table(
        "Devices, each by itself at its load",
        ("Device", "Load", "Frame", "Threshold", "Busy", "Room", "p50", "p99"),
        [
            (
                device.name + (" (binds)" if device.name == outcome.binding else ""),
                rate(device.rate_pps),
                f"{device.frame_bytes:.0f} B",
                rate(device.threshold_pps),
                percent(device.utilisation),
                f"x {significant(device.headroom, 3)}",
                duration(device.delays["delay_p50_ns"]),
                duration(device.delays["delay_p99_ns"]),
            )
            for device in outcome.devices
        ],
    )


def conclusion(outcome: PathOutcome) -> str:
    """The answer in a sentence."""
    flow = max(outcome.flows, key=lambda flow: flow.prediction.values["delay_p99_ns"]).prediction
    delay = duration(flow.values["delay_p99_ns"])
    if (most := flow.high.get("delay_p99_ns")) is not None:
        delay += f", at most {duration(most)} in {BAND_LEVEL} % of trials"
    flows = f"{count(len(outcome.flows))} flows" if len(outcome.flows) > 1 else "the flow"
    binds = f"{outcome.binding} binds"
    if outcome.headroom < 1:
        return (
            f"{outcome.path}: too much for it: {binds}, and carries {percent(outcome.headroom)} of the load."
        )
    low, high = (significant(factor, 3) for factor in (outcome.least_headroom, outcome.headroom))
    grow = f"may grow by a factor of {high if low == high else f'{low} to {high}'} until packets are lost"
    if outcome.least_headroom < 1:
        return (
            f"{outcome.path}: cannot tell whether it carries the load, which {grow}; {binds}. "
            "Measure the chain."
        )
    return f"{outcome.path}: {flows} {grow}; {binds}. p99 delay end to end {delay}."


def warnings(outcome: PathOutcome) -> Iterator[str]:
    """What to know before believing the numbers."""
    for row in outcome.in_row:
        yield (
            f"{', '.join(row.names)}: predicted from the profile of all of them in a row, run {row.run_id}; "
            "their own profiles only say which of them binds"
        )
    if outcome.whole_profiles:
        yield (
            "every profile includes the delay of the test bed, so delays are upper limits; with profiles of "
            "one forwarding device and of two (key 'bed') it counts once"
        )
    elif outcome.least_headroom < outcome.headroom:
        yield (
            "devices that share a CPU take more of it together than 'bed' says, as they displace each other "
            "from its caches: bounds reach from there to the sum of whole profiles"
        )
    for command in outcome.to_profile:
        yield f"a profile of the devices in a row tells what they take together: {command}"
    for reason in outcome.extrapolated:
        yield f"extrapolated: {reason}"
    for name, why in outcome.unusable.items():
        yield f"the profile of {name} does not count: {why}"
    for name, why in outcome.disturbed.items():
        yield disturbed_in_words(name, why)


def path_of(sources: Sequence[str], others: Mapping[str, object]) -> Path | None:
    """The file that describes a path, if that is what the plan is about.

    Raises ``InputError`` if one of the ``others``, values of options or groups of them, is given as well.
    """
    if not any(source.endswith(ENDS) for source in sources):
        return None
    if len(sources) > 1:
        raise InputError("a path is planned by itself: give one file, with the models in it")
    if names := [name for name, value in others.items() if _is_given(value)]:
        raise InputError(f"{', '.join(names)}: for a path this is in its file {sources[0]}")
    return Path(sources[0])


def answer_path(session: Session, path: Path, require: Sequence[str], *, extrapolate: bool) -> None:
    """Plan the path and print the answer."""
    outcome = plan_path(session.store, read_path(path), path.parent, require, extrapolate=extrapolate)
    for warning in warnings(outcome):
        session.say(warning)
    shown = tables(outcome)
    gates.finish(session, outcome.document(), conclusion(outcome), shown, outcome.judged)


def _is_given(value: object) -> bool:
    """Whether an option, or one of a group, has another value than by default."""
    if not is_dataclass(value):
        return bool(value)
    return any(
        _is_given(found) if is_dataclass(found := getattr(value, field.name)) else found != field.default
        for field in fields(value)
    )
