"""The answer for a path: every flow end to end, every device, and the one that binds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weirlab.base.errors import InputError, ModelError
from weirlab.base.quoting import quoted
from weirlab.devices.planning.path.row import RowProfile, rows_of
from weirlab.devices.planning.path.sections import PathDescription, PathDevice
from weirlab.devices.planning.requiring import TOO_CLOSE, VERDICTS
from weirlab.devices.prediction import modelling
from weirlab.jobs.models import is_file
from weirlab.model import DeviceModels, Model
from weirlab.model.base import refusal
from weirlab.model.planning.judge import ROOM, decision
from weirlab.model.planning.requirements import LIMITED, limit_of
from weirlab.model.series import (
    SeriesBed,
    SeriesDevice,
    SeriesPrediction,
    SeriesStage,
    binding,
    by_cpu,
    in_series,
    stages,
    widened,
)
from weirlab.requirements import Demand, DemandCase, DemandJudgement, Verdict, judge, parse
from weirlab.store import Store
from weirlab.traffic.spec import GAP_SCV


@dataclass(frozen=True)
class PathFlowOutcome:
    """What a flow meets."""

    name: str
    rate_pps: float
    frame_bytes: float
    devices: tuple[str, ...]
    prediction: SeriesPrediction


@dataclass(frozen=True)
class PathDeviceOutcome:
    """A device under the load of all flows."""

    name: str
    rate_pps: float
    frame_bytes: float
    threshold_pps: float
    """By itself."""
    utilisation: float
    """Of its CPU, by all devices that share it."""
    delays: Mapping[str, float]
    """By itself at this load, the test bed's own part included."""

    @property
    def headroom(self) -> float:
        """By what factor all flows may grow until it loses packets."""
        return 1.0 / self.utilisation


@dataclass(frozen=True)
class PathOutcome:
    """The answer."""

    path: str
    flows: tuple[PathFlowOutcome, ...]
    devices: tuple[PathDeviceOutcome, ...]
    binding: str
    """The device that limits the load."""
    judged: tuple[DemandJudgement, ...]
    extrapolated: tuple[str, ...]
    unusable: Mapping[str, str]
    """By device: why its profile does not count."""
    disturbed: Mapping[str, str]
    """By device: how few attempts of its profile were valid, if the host disturbed it."""
    whole_profiles: bool
    """Whether the test bed's part counts once per device, for want of ``bed``."""
    least_headroom: float
    """:attr:`headroom`, if the devices have nothing of their profiles in common."""
    in_row: tuple[RowProfile, ...]
    """Profiles of devices on one CPU in a row, which take the place of their own ones."""
    to_profile: tuple[str, ...]
    """Commands that lead to such profiles where there is none."""

    @property
    def headroom(self) -> float:
        """By what factor all flows may grow until a device loses packets."""
        return min(device.headroom for device in self.devices)

    def document(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "binding": self.binding,
            "headroom": self.headroom,
            "least_headroom": self.least_headroom,
            "flows": [
                {
                    "name": flow.name,
                    "rate_pps": flow.rate_pps,
                    "frame_bytes": flow.frame_bytes,
                    "devices": list(flow.devices),
                    "predicted": flow.prediction.values,
                    "low": flow.prediction.low,
                    "high": flow.prediction.high,
                }
                for flow in self.flows
            ],
            "devices": [
                {
                    "name": device.name,
                    "rate_pps": device.rate_pps,
                    "frame_bytes": device.frame_bytes,
                    "threshold_pps": device.threshold_pps,
                    "utilisation": device.utilisation,
                    "headroom": device.headroom,
                    "predicted": dict(device.delays),
                }
                for device in self.devices
            ],
            "whole_profiles": self.whole_profiles,
            "in_row": [row.document() for row in self.in_row],
            "to_profile": list(self.to_profile),
            "extrapolated": list(self.extrapolated),
            "unusable": dict(self.unusable),
            "disturbed": dict(self.disturbed),
        }


def plan_path(
    store: Store,
    asked: PathDescription,
    folder: Path,
    require: Sequence[str] = (),
    *,
    extrapolate: bool = False,
) -> PathOutcome:
    """What the flows of ``asked`` meet; model files are named from ``folder``.

    Where the store has a profile of the devices of a CPU in a row, that counts instead of their own.

    Raises
    ------
    InputError
        A requirement cannot be read, or a device carries no flow.
    ModelError
        A model is missing, or would have to extrapolate.
    """
    demands = tuple(parse(text, tuple(LIMITED)) for text in (*asked.require, *require))
    profiled = {device.name: _one(store, device.model, device.device, folder) for device in asked.devices}
    loaded = {device.name: _loaded(asked, device, profiled[device.name]) for device in asked.devices}
    bed = None
    if asked.bed is not None:
        one, two = (_queueing(_one(store, source, None, folder)) for source in (asked.bed.one, asked.bed.two))
        bed = SeriesBed(one, two)
    gap_scv = GAP_SCV[asked.arrivals]
    devices = [*loaded.values()]
    rows = rows_of(by_cpu(devices), profiled)
    looked_up = {cpu: row.profile(store, gap_scv) for cpu, row in rows.items()}
    in_row = {cpu: profile for cpu, profile in looked_up.items() if profile is not None}
    together = {cpu: profile.device for cpu, profile in in_row.items()}
    whole = stages(devices, gap_scv, bed, together)
    above = stages(devices, gap_scv, None, together)
    why = tuple(
        dict.fromkeys(
            f"{device.name}: {reason}"
            for device in (*devices, *together.values())
            for reason in device.model.predict(
                device.rate_pps, device.frame_bytes, device.position, gap_scv
            ).why
        )
    )
    busiest = binding(whole)
    overloaded = max(stage.utilisation for stage in whole) >= 1.0
    if why and not extrapolate and not overloaded:
        raise refusal("plan", why)
    passed = [[device.name for device in asked.passed(flow)] for flow in asked.flows]
    flows = []
    for flow, names in zip(asked.flows, passed, strict=True):
        found = _of_flow(whole, names)
        if bed is not None:
            found = widened(found, _of_flow(above, names))
        flows.append(PathFlowOutcome(flow.name, *flow.load, tuple(names), found))

    def at(factor: float) -> list[SeriesStage]:
        """The stages if all flows grow by ``factor``."""
        grown = [replace(device, rate_pps=factor * device.rate_pps) for device in devices]
        rows = {cpu: replace(row, rate_pps=factor * row.rate_pps) for cpu, row in together.items()}
        return stages(grown, gap_scv, bed, rows)

    lighter, heavier = (at(1 / ROOM), at(ROOM)) if demands else (whole, whole)
    near = [
        (_of_flow(lighter, names), flow.prediction, _of_flow(heavier, names))
        for flow, names in zip(flows, passed, strict=True)
    ]
    disturbed = {name: models.disturbed for name, models in profiled.items()}
    disturbed |= {name: row.disturbed for row in in_row.values() for name in row.names}
    disturbed = {name: why for name, why in disturbed.items() if why}
    doubts = [
        "; ".join(
            disturbed_in_words(device.name, disturbed[device.name])
            for stage in _passed(whole, names)
            for device in stage.devices
            if device.name in disturbed
        )
        for names in passed
    ]
    remedies = (row.remedy(store, asked.arrivals) for cpu, row in rows.items() if cpu not in in_row)
    return PathOutcome(
        asked.path,
        tuple(flows),
        tuple(_device(device, whole, gap_scv) for device in devices),
        busiest.name,
        tuple(judged(demand, near, [flow.name for flow in flows], doubts) for demand in demands),
        why,
        {name: models.unusable for name, models in profiled.items() if models.unusable},
        disturbed,
        asked.bed is None and len(devices) - sum(len(row.names) - 1 for row in in_row.values()) > 1,
        1.0 / max(stage.utilisation for stage in above),
        tuple(in_row.values()),
        tuple(filter(None, remedies)),
    )


def _of_flow(whole: Sequence[SeriesStage], passed: Sequence[str]) -> SeriesPrediction:
    return in_series(_passed(whole, passed))


def _passed(whole: Sequence[SeriesStage], passed: Sequence[str]) -> list[SeriesStage]:
    """A flow passes all devices of a stage, or waits for their CPU all the same."""
    return [stage for stage in whole if any(device.name in passed for device in stage.devices)]


def _device(device: SeriesDevice, whole: Sequence[SeriesStage], gap_scv: float) -> PathDeviceOutcome:
    stage = next(stage for stage in whole if device in stage.devices)
    alone = device.model.predict(device.rate_pps, device.frame_bytes, device.position, gap_scv)
    return PathDeviceOutcome(
        device.name,
        device.rate_pps,
        device.frame_bytes,
        1e9 / device.service_ns,
        stage.utilisation,
        {name: float(getattr(alone, name)) for name in LIMITED.values()},
    )


def _loaded(asked: PathDescription, device: PathDevice, models: DeviceModels) -> SeriesDevice:
    loads = [flow.load for flow in asked.flows if device in asked.passed(flow)]
    rate = sum(pps for pps, _ in loads)
    if not rate:
        raise InputError(f"no flow passes the device {quoted(device.name)}: leave it out")
    frame = sum(pps * size for pps, size in loads) / rate
    return SeriesDevice(device.name, _queueing(models), rate, frame, device.rules, device.cpu)


def _queueing(models: DeviceModels) -> Model:
    if (model := models.models.get("queueing")) is None:
        raise ModelError(f"{models.name} has no queueing model: weir fit makes one")
    return model


def _one(store: Store, source: str, name: str | None, folder: Path) -> DeviceModels:
    if is_file(source) or (folder / source).is_file():
        source = str(folder / source)
    found = modelling.devices(store, source)
    chosen = [models for models in found if name is None or models.name == name]
    if len(chosen) != 1:
        names = ", ".join(models.name for models in found)
        raise ModelError(f"{source} has the devices {names}: name one of them with the key 'device'")
    return chosen[0]


def judged(
    demand: Demand, flows: Sequence[Sequence[SeriesPrediction]], names: Sequence[str], doubts: Sequence[str]
) -> DemandJudgement:
    """``flows``: what each meets at lighter loads, the given ones, and heavier ones, by :data:`ROOM`.

    ``doubts``: by flow, which profiles behind it the host disturbed; empty if none.
    """
    quantity, limit = LIMITED[demand.quantity], limit_of(demand)
    cases: list[DemandCase] = []
    verdicts: list[Verdict] = []
    for name, near, doubt in zip(names, flows, doubts, strict=True):
        found = near[1]
        if quantity not in found.values:
            cases.append(DemandCase.unknown(f"a path has no {demand.quantity.title}", name))
            verdicts.append("undecided")
            continue
        value = found.values[quantity]
        low, high = found.low.get(quantity, value), found.high.get(quantity, value)
        values = [each.values[quantity] for each in near]
        verdict = VERDICTS[decision(limit, values, low, high, disturbed=bool(doubt))]
        note = TOO_CLOSE if verdict == "not met" and value <= limit.at_most else ""
        cases.append(DemandCase(value, low, high, name, note, doubt or "the models' errors are too large"))
        verdicts.append(verdict)
    return judge(demand, cases, verdicts)


def disturbed_in_words(name: str, why: str) -> str:
    return f"the profile of {name} was disturbed ({why})"
