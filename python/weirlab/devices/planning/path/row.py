"""Devices that share a CPU, and the profile of all of them in a row that the store may hold.

What devices on one CPU cost each other, profiles of the single ones do not tell.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.devices.prediction import modelling
from weirlab.jobs.profiles import KIND
from weirlab.jobs.spoiled import REPETITIONS, disturbance
from weirlab.model import DeviceModels, QueueingModel
from weirlab.model.series import SeriesDevice
from weirlab.records import JOINT
from weirlab.store import RunSummary, Store

_LAB: Final = "netns"
"""The lab that builds devices in a row."""
_WITHOUT_RULES: Final = "forward"
_RULES_HOP: Final = "dut_rules_hop"


@dataclass(frozen=True)
class RowProfile:
    """A profile of devices in a row."""

    names: tuple[str, ...]
    """The devices, as the path calls them."""
    run_id: str
    created: str
    device: SeriesDevice
    """All of them as one."""
    disturbed: str = ""
    """See ``DeviceModels.disturbed``."""

    def document(self) -> dict[str, Any]:
        return {"devices": list(self.names), "run_id": self.run_id, "created": self.created}


@dataclass(frozen=True)
class DeviceRow:
    """Two or more devices on one CPU, in the order of the path, and the models of each by itself."""

    devices: tuple[SeriesDevice, ...]
    models: tuple[DeviceModels, ...]

    def profile(self, store: Store, gap_scv: float) -> RowProfile | None:
        """The newest profile of these devices in a row, on the host of their own ones, with such packets."""
        if (position := self._position) is None:
            return None
        first = self.devices[0]
        for run in self._runs(store):
            opened = store.open(run.run_id)
            model = modelling.models_of(opened).get(QueueingModel.name)
            if not isinstance(model, QueueingModel):
                continue
            if position > 0 and opened.manifest.facts.get(_RULES_HOP) != self._ruled[0] + 1:
                continue
            if model.profiled.covers(first.frame_bytes, position, gap_scv):
                device = SeriesDevice(
                    JOINT.join(self._names), model, first.rate_pps, first.frame_bytes, position, first.cpu
                )
                return RowProfile(self._names, run.run_id, run.created, device, disturbance(opened, KIND))
        return None

    def remedy(self, store: Store, arrivals: str) -> str:
        """The command that leads to such a profile; empty if Weir cannot build these devices in a row."""
        if (position := self._position) is None:
            return ""
        if any(models.facts.get("lab") != _LAB for models in self.models):
            return ""
        if position > 0 and any(name != _WITHOUT_RULES for name in self._duts[: self._ruled[0]]):
            # Rules belong to the first device that can have some.
            return ""
        runs = self._runs(store)
        if runs and not modelling.models_of(store.open(runs[0].run_id)):
            return f"weir fit {runs[0].run_id}"
        words = ["weir", "profile", "--quick", "--arrivals", arrivals, "--repetitions", str(REPETITIONS)]
        words += [word for dut in self._duts for word in ("--dut", dut)]
        rules = sorted({math.floor(position), math.ceil(position)})
        words += ["--rules", ",".join(map(str, rules)), "--frame", str(round(self.devices[0].frame_bytes))]
        return f"{shlex.join(words)} && weir fit last"

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(device.name for device in self.devices)

    @property
    def _duts(self) -> tuple[str, ...]:
        return tuple(str(models.facts.get("dut", models.name)) for models in self.models)

    @property
    def _ruled(self) -> list[int]:
        """Numbers, from 0, of the devices with rules."""
        return [n for n, device in enumerate(self.devices) if device.position > 0]

    @property
    def _position(self) -> float | None:
        """The matching position in the one device that has rules.

        None if several have, or some packets pass only a part of the devices: no profile of a row is so.
        """
        loads = {(device.rate_pps, device.frame_bytes) for device in self.devices}
        if len(loads) > 1 or len(self._ruled) > 1:
            return None
        return max(device.position for device in self.devices)

    def _runs(self, store: Store) -> Sequence[RunSummary]:
        """Profiles of these devices in a row where each was profiled, newest first."""
        hosts = {models.facts.get("host") for models in self.models}
        simulated = {models.simulated for models in self.models}
        return [
            run
            for run in store.runs()
            if run.kind == KIND
            and run.device == JOINT.join(self._duts)
            and {run.host} == hosts
            and {run.simulated} == simulated
            and not (run.problem or run.unusable)
        ]


def rows_of(
    groups: Mapping[str, Sequence[SeriesDevice]], models: Mapping[str, DeviceModels]
) -> dict[str, DeviceRow]:
    """By CPU, the devices of each that several share; ``models`` by the device's name on the path."""
    return {
        cpu: DeviceRow(tuple(group), tuple(models[device.name] for device in group))
        for cpu, group in groups.items()
        if len(group) > 1
    }
