"""What a scenario about capacity requests, as sweep, search and profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from weirlab.calls.capacity.section import CapacityScenario
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal, Search
from weirlab.calls.capacity.trials.setting import CallTraffic
from weirlab.calls.capacity.trials.sweep import CallSweep, around
from weirlab.scenario import QUICK, ProfileSection, Scenario
from weirlab.scenario.model import TrafficShape
from weirlab.traffic.sizes import mean_bytes

WITHOUT_LOSS: Final = "without loss"

_TYPICAL_CALLS: Final = 3000
"""With the flows of this many calls, a device that looks flows up is as slow as with any more."""


def goals_of(scenario: CapacityScenario) -> tuple[CallGoal, ...]:
    """The goals of the search, which are also predicted if nothing is searched."""
    what = scenario.capacity.search
    lossless = CallGoal(WITHOUT_LOSS, what.loss_ratio if what else 0.0)
    if what is None or what.mos is None:
        return (lossless,)
    name = f"with MOS {what.mos:.3g} for {what.good_share * 100:g} % of them"
    return lossless, CallGoal(name, round(1 - what.good_share, 9), what.mos)


def to_sweep(scenario: CapacityScenario, counts: Mapping[int, tuple[int, ...]]) -> CallSweep:
    """The sweep of ``scenario`` over ``counts`` calls by position, in the terms of ``weirlab.measure``."""
    what = scenario.capacity.sweep
    assert what is not None
    return CallSweep(counts, what.repetitions, what.trial_s, what.warmup_s, scenario.capacity.seed)


def fixed_counts(scenario: CapacityScenario) -> dict[int, tuple[int, ...]]:
    """By position the numbers of calls that the file asks for; empty where they come from the search."""
    what, wanted = scenario.capacity.sweep, scenario.capacity
    return {} if what is None or not what.fixed else dict.fromkeys(wanted.positions, tuple(what.fixed))


def found_counts(scenario: CapacityScenario, carried: Sequence[CallCapacity]) -> dict[int, tuple[int, ...]]:
    """By position the numbers of calls around what was found there."""
    what = scenario.capacity.sweep
    assert what is not None
    positions = scenario.capacity.positions
    return {n: around([one for one in carried if one.position == n], what.around) for n in positions}


def to_search(scenario: CapacityScenario) -> Search:
    """The search of ``scenario`` in the terms of ``weirlab.measure``."""
    what = scenario.capacity.search
    assert what is not None
    return Search(
        goals_of(scenario),
        what.trial_s,
        what.warmup_s,
        what.trials,
        what.bad_share,
        what.width,
        what.min_calls,
        what.max_calls,
    )


def profile_of(scenario: CapacityScenario) -> Scenario:
    """The profile that the prediction is made from, as a scenario of its own."""
    wanted = scenario.capacity
    assert wanted.predict is not None
    return Scenario(
        name=scenario.name,
        lab=scenario.lab,
        dut=scenario.dut,
        traffic=TrafficShape(ip=scenario.calls.ip, flows=_flows(scenario)),
        profile=wanted.predict.profile or _quick(scenario),
        report=None,
    )


def _flows(scenario: CapacityScenario) -> int:
    """As many flows as calls have voice streams: a device is slower at looking up many than one."""
    wanted = scenario.capacity
    assert wanted.predict is not None
    if wanted.predict.flows is not None:
        return wanted.predict.flows
    most = wanted.sweep.last if wanted.sweep and wanted.sweep.last else _TYPICAL_CALLS
    return most * CallTraffic(scenario.calls.calls(1)).streams


def _quick(scenario: CapacityScenario) -> ProfileSection:
    """The calls' frame size at the positions asked for and some around them."""
    positions = {0, *scenario.capacity.positions}
    if top := max(positions):
        positions |= {top // 2, top + top // 2}
    setting = CallTraffic(scenario.calls.calls(1000))
    frame = round(mean_bytes(setting.spec(0, 1000, trial_s=1.0, warmup_s=0.0).traffic.sizes))
    return ProfileSection(**{**QUICK, "positions": tuple(sorted(positions)), "sizes": (str(frame),)})
