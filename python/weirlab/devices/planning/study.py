"""Planning: what fitted devices can carry, and better orders for rulesets."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from weirlab.base import files
from weirlab.base.errors import InputError, LabError, ModelError
from weirlab.base.quantities import words
from weirlab.base.quoting import quoted
from weirlab.base.units import NS_PER_S
from weirlab.devices.planning import requiring as required_plans
from weirlab.devices.planning.changes import ChangeCost, compare_rulesets
from weirlab.devices.planning.outcome import (
    TRIALS_S,
    FreedGain,
    PlanOutcome,
    PlanRequest,
    RulesetGain,
    RulesetOutcome,
)
from weirlab.devices.prediction import modelling
from weirlab.lab.dut.rulesets.source import RulesetFiles, RulesetSource
from weirlab.lab.equivalence.proof import EquivalenceProof, proven_advice
from weirlab.model import DeviceModels, Model, QueueingModel
from weirlab.model.backlog import Backlog, backlog
from weirlab.model.base import Predictor, Reason, refusal
from weirlab.model.planning.judge import Judge, OperatingPoints
from weirlab.model.planning.planner import (
    Find,
    OfferedLoad,
    PlanAnswer,
    PlanForecast,
    PlanningQuestion,
    answer,
    outlook,
)
from weirlab.model.planning.requirements import NOTHING_LOST, Requirement, limits
from weirlab.model.servers import SeveralServers
from weirlab.model.tunnelled import tunnelled
from weirlab.records import stand_in
from weirlab.rules import Advice, RulesetChange
from weirlab.store import Store
from weirlab.traffic.calls.mix import VoiceMix
from weirlab.traffic.sizes import mean_bytes
from weirlab.traffic.spec import GAP_SCV

DIFFS: Final = (".diff", ".patch")
"""Ends of the name of a file for the reordered rules that gets what changes instead of all of them."""


@dataclass(frozen=True)
class PlanDevice:
    """A device, or rules with a tunnel behind them."""

    name: str
    model: Predictor
    simulated: bool
    profiled: tuple[DeviceModels, ...]
    """The devices that were profiled: one, or the rules and the tunnel."""

    @property
    def unusable(self) -> str:
        """Why a profile behind it does not count; empty if all do."""
        found = {one.name: one.unusable for one in self.profiled if one.unusable}
        alone = len(self.profiled) == 1
        return "; ".join(why if alone else f"{name}, {why}" for name, why in found.items())

    @property
    def disturbed(self) -> str:
        """Which profiles behind it the host disturbed; empty if none."""
        found = [one for one in self.profiled if one.disturbed]
        return "; ".join(f"the profile of {one.name} was disturbed ({one.disturbed})" for one in found)


def plan(store: Store, request: PlanRequest) -> PlanOutcome:
    """PlanAnswer ``request`` with every device in its sources.

    Raises
    ------
    InputError
        Too much or too little is given, or the ruleset cannot be read.
    ModelError
        A source has no models, or every device would have to extrapolate.
    """
    advice, source, proof, unproven = None, None, EquivalenceProof(), None
    change = None
    if request.ruleset is not None and request.before is not None:
        if request.reordered is not None:
            raise InputError("--before compares rules and looks for no order: leave --reordered out")
        change = compare_rulesets(request.before, request.ruleset, request.include, request.margin)
    elif request.ruleset is not None:
        source = RulesetSource(request.ruleset, files.HOST_FILES, RulesetFiles(request.include))
        if request.reordered is not None and request.reordered.resolve() == request.ruleset.resolve():
            raise InputError(f"--reordered would overwrite {request.ruleset}; give another file")
        if request.reordered is not None:
            files.check_output(request.reordered, "--reordered")
        advice, proof = proven_advice(source, str(request.ruleset))
        if request.reordered is not None and proof.failure:
            raise LabError(f"--reordered writes no order that is not proven: {proof.failure}")
        if proof.failure:
            advice, unproven = advice.without_order(), advice.after.mean_position
        advice = replace(advice, notes=(*advice.notes, *source.left_out))
    elif request.before is not None:
        raise InputError("--before is compared with the rules of --ruleset: give --ruleset as well")
    elif request.include:
        raise InputError("--include names folders for --ruleset: give --ruleset as well")
    elif request.reordered is not None:
        raise InputError("--reordered writes the rules of --ruleset: give --ruleset as well")
    devices = _asked(store, request)
    if not devices:
        if request.ruleset is None:
            raise InputError("nothing to plan with: give model files or runs, or --ruleset FILE")
        required_plans.check_without_models(request.demands, request.requirements)
        if advice is None or source is None:
            return PlanOutcome(None, (), (), demands=request.demands, change=change)
        _write_reordered(source, advice, request)
        outcome = RulesetOutcome(request.ruleset, advice, proof, unproven, (), request.reordered)
        return PlanOutcome(None, (), (), outcome, demands=request.demands)
    walk = change.change.known if change is not None else advice.before if advice is not None else None
    found = walk.mean_position if walk is not None else None
    question, requirements = _question(request, found)
    answers = tuple(answer(one.name, one.model, question, disturbed=bool(one.disturbed)) for one in devices)
    if answers and all(one.refused for one in answers):
        alone = len(answers) == 1
        raise refusal(
            "plan",
            [why if alone else _named(one.device, why) for one in answers for why in one.refused],
            modelling.profile_of(store, devices[0].profiled[0]) if len(devices[0].profiled) == alone else (),
        )
    if change is not None:
        change = replace(change, costs=_costs(devices, question, change.change))
    ruled = None
    if advice is not None and source is not None and request.ruleset is not None:
        _write_reordered(source, advice, request)
        gains = tuple(_gain(device, question, advice) for device in devices)
        ruled = RulesetOutcome(request.ruleset, advice, proof, unproven, gains, request.reordered)
    simulated = tuple(device.name for device in devices if device.simulated)
    return PlanOutcome(
        question,
        requirements,
        answers,
        ruled,
        request.stream,
        request.directions,
        simulated,
        request.calls,
        request.demands,
        change,
        _deep_queues(devices, answers),
        _stand_ins(devices),
        _more_trials(store, devices, answers),
        {device.name: device.unusable for device in devices if device.unusable},
        {device.name: device.disturbed for device in devices if device.disturbed},
    )


def _deep_queues(devices: Sequence[PlanDevice], answers: Sequence[PlanAnswer]) -> dict[str, Backlog]:
    """Backlogs, by device, so deep that the load without loss depends on the length of a trial."""
    found = {}
    for device, one in zip(devices, answers, strict=True):
        if one.outlook is not None:
            held = backlog(device.model, one.outlook.position, one.outlook.frame_bytes)
            if held is not None and held.is_deep(TRIALS_S[0]):
                found[device.name] = held
    return found


def _stand_ins(devices: Sequence[PlanDevice]) -> dict[str, str]:
    """By device, the part of a kernel that a program in user space stands in for."""
    parts = {
        device.name: [stand_in(str(one.facts.get("dut", one.name))) for one in device.profiled]
        for device in devices
    }
    return {name: words([*filter(None, found)]) for name, found in parts.items() if any(found)}


def _more_trials(
    store: Store, devices: Sequence[PlanDevice], answers: Sequence[PlanAnswer]
) -> dict[str, list[str]]:
    """By device that is undecided, how to profile it, and what it is made of, again with more trials."""
    return {
        device.name: list(
            dict.fromkeys(modelling.more_trials_of(store, one) for one in device.profiled if one.disturbed)
            or dict.fromkeys(modelling.more_trials_of(store, one) for one in device.profiled)
        )
        for device, one in zip(devices, answers, strict=True)
        if one.verdict == "undecided"
    }


def _named(device: str, reason: str) -> Reason:
    return Reason(f"{device}: {reason}", reason.remedy if isinstance(reason, Reason) else "")


def _asked(store: Store, request: PlanRequest) -> list[PlanDevice]:
    """Every device; with tunnels, every device with every tunnel behind it."""
    devices = _devices(store, request)
    if not request.tunnels:
        return [
            PlanDevice(device.name, _spread(_model(device, request), request), device.simulated, (device,))
            for device in devices
        ]
    if not devices:
        raise InputError(
            "--tunnel is placed behind rules: give their model as well: weir plan RULES --tunnel MODEL"
        )
    tunnels = _loaded(store, request.tunnels)
    _require_distinct(tunnels)
    return [
        PlanDevice(
            f"{device.name} + {tunnel.name}",
            _spread(tunnelled(_queueing(device, request), _queueing(tunnel, request), request.cpus), request),
            device.simulated or tunnel.simulated,
            (device, tunnel),
        )
        for device in devices
        for tunnel in tunnels
    ]


def _spread(model: Predictor, request: PlanRequest) -> Predictor:
    """``model`` on each of the CPUs."""
    return SeveralServers(model, request.shares) if len(request.shares) > 1 else model


def _queueing(device: DeviceModels, request: PlanRequest) -> QueueingModel:
    model = _model(device, request)
    if not isinstance(model, QueueingModel):
        raise InputError(f"a tunnel behind rules needs the model {QueueingModel.name}: leave --using out")
    return model


def _loaded(store: Store, sources: Sequence[str | DeviceModels]) -> list[DeviceModels]:
    found = (
        [source] if isinstance(source, DeviceModels) else modelling.devices(store, source)
        for source in sources
    )
    return [device for devices in found for device in devices]


def _devices(store: Store, request: PlanRequest) -> list[DeviceModels]:
    devices = _loaded(store, request.sources)
    if request.device is not None:
        chosen = [device for device in devices if device.name == request.device]
        if not chosen:
            raise ModelError(
                f"no device {quoted(request.device)} in {', '.join(map(str, request.sources))}; there is "
                f"{', '.join(device.name for device in devices)}"
            )
        devices = chosen
    _require_distinct(devices)
    return devices


def _require_distinct(devices: Sequence[DeviceModels]) -> None:
    names = [device.name for device in devices]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ModelError(
            f"several devices are called {', '.join(twice)}; put them into one file under different names: "
            "weir fit RUN RUN --out FILE --name A --name B"
        )


def _model(device: DeviceModels, request: PlanRequest) -> Model:
    if device.new_flow_rules:
        raise InputError(
            f"the profile of {device.name} went through shares of new flows, and a plan is about rules: "
            "profile the rules at one share, e.g. weir profile --answered --new 10% --rules 0,100,1000"
        )
    if request.model not in device.models:
        raise InputError(
            f"device '{device.name}' has no model {quoted(request.model)}; it has {', '.join(device.models)}"
        )
    return device.models[request.model]


def _question(request: PlanRequest, found: float | None) -> tuple[PlanningQuestion, tuple[Requirement, ...]]:
    """The question in the model's terms; ``found`` is the mean position of the given ruleset."""
    stream = request.stream
    if request.calls is not None and stream is None:
        raise InputError("--calls needs the codec, e.g. --codec g711")
    if stream is not None and request.sizes is not None:
        raise InputError("a codec has its own frame size; leave --frame and --sizes out")
    if request.calls is not None and request.rate is not None:
        raise InputError("--calls and --rate exclude each other: give one of them")
    position = request.position
    load = _load(request)
    find = request.find or _sought(load, position if position is not None else found, stream)
    required_plans.check(request.demands, find, calls=stream is not None, ruleset=request.ruleset is not None)
    if position is None and find != "rules":
        position = found
    frame = None
    if stream is not None:
        if find == "frame":
            raise InputError("a codec has its own frame size; with --find frame give --rate, not --codec")
        frame = float(stream.frame_bytes)
    elif find != "frame":
        frame = mean_bytes(request.sizes) if request.sizes is not None else 64.0
    elif request.sizes is not None:
        raise InputError("--find frame looks for the frame size; leave --frame and --sizes out")
    requirements = request.requirements
    if all(limit.quantity != "loss_ratio" for limit in limits(requirements)):
        # A full queue bounds the delay however much is lost, so a limit on delay alone says little.
        requirements = (*requirements, NOTHING_LOST)
    # The packets of many independent calls come like those of a Poisson process (Palm, Khintchine).
    arrivals = request.arrivals or ("poisson" if stream is not None else "constant")
    question = PlanningQuestion(
        find=find,
        limits=limits(requirements),
        load=load,
        frame_bytes=frame,
        position=position,
        certainty=request.certainty,
        gap_scv=GAP_SCV[arrivals],
        extrapolate=request.extrapolate,
        call_pps=stream.calls_pps(1, request.directions) if stream is not None else None,
    )
    return question, requirements


def _load(request: PlanRequest) -> OfferedLoad | None:
    if request.calls is not None and request.stream is not None:
        return OfferedLoad(request.stream.calls_pps(request.calls, request.directions))
    rate = request.rate
    if rate is None:
        return None
    if rate.unit == "max":
        raise InputError("a plan needs a load in numbers, not 'max'; e.g. --rate 300kpps, or --find rate")
    if rate.unit == "pps":
        return OfferedLoad(rate.value)
    return OfferedLoad(rate.value if rate.unit == "bps" else rate.value / 100 * rate.line_bps, "bps")


def _sought(load: OfferedLoad | None, position: float | None, stream: VoiceMix | None) -> Find:
    """What to find if the user does not say: the quantity that is missing."""
    if load is None and position is not None:
        return "rate" if stream is None else "calls"
    if load is not None and position is None:
        return "rules"
    if load is not None:
        return "device"
    raise InputError("give a load (--rate, or --calls with --codec) or rules (--rules, --ruleset), or --find")


def _costs(
    devices: Sequence[PlanDevice], question: PlanningQuestion, change: RulesetChange
) -> tuple[ChangeCost, ...]:
    """What each device carries before and after ``change``; nothing if no packet was counted."""
    frame = question.frame_bytes if question.frame_bytes is not None else 64.0
    places = np.array([change.before.mean_position, change.known.mean_position])
    if not np.isfinite(places).all():
        return ()
    found = []
    for device in devices:
        before, after = device.model.threshold_pps(places, frame)
        half = device.model.predict(np.array([before, after]) / 2, frame, places, question.gap_scv)
        found.append(ChangeCost(device.name, float(before), float(after), bool(half.extrapolated.any())))
    return tuple(found)


def _gain(device: PlanDevice, question: PlanningQuestion, advice: Advice) -> RulesetGain:
    model = device.model
    frame = question.frame_bytes if question.frame_bytes is not None else 64.0
    places = (advice.before.mean_position, advice.after.mean_position)
    before, after = (float(model.threshold_pps(place, frame)) for place in places)
    spread = model.predict(before, frame, places[1]).spread.get("threshold_pps", 0.0)
    error = math.expm1(2 * float(spread))
    judge = Judge(model, question.limits, question.certainty, question.gap_scv, extrapolate=True)
    load = question.load
    rate = float(load.pps(np.array([frame]))[0]) if load is not None else before / 2
    looks: Sequence[PlanForecast] = [outlook(judge, OperatingPoints(rate, frame, place)) for place in places]
    why = tuple(dict.fromkeys(reason for look in looks for reason in look.why_extrapolated))
    told = looks if load is not None else (None, None)
    freed, best = [], float(model.threshold_pps(advice.best_mean_position, frame))
    for one in advice.kept:
        if one.freed_mean_position is not None and one.freed_mean_position < advice.best_mean_position:
            then = float(model.threshold_pps(one.freed_mean_position, frame))
            freed.append(FreedGain(one.text, NS_PER_S / best - NS_PER_S / then, then, then / best - 1))
    return RulesetGain(device.name, before, after, told[0], told[1], why, tuple(freed), error)


def _write_reordered(source: RulesetSource, advice: Advice, request: PlanRequest) -> None:
    """Write the rules in the better order if requested; done last, so that a failed plan writes nothing."""
    if request.reordered is None:
        return
    present, new = source.reordered(advice.chains)
    if request.reordered.suffix in DIFFS:
        names = (str(request.ruleset), f"{request.ruleset} in the new order")
        lines = (present.splitlines(keepends=True), new.splitlines(keepends=True))
        new = "".join(difflib.unified_diff(*lines, *names))
    files.write_bytes(request.reordered, new.encode())
