"""Fitted models as JSON files, and the registry of models.

A file contains devices, each with a name, facts about how it was measured and its models by
kind. Files of version 1 have the models of one device without a name, which is named after the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from weirlab.base import files
from weirlab.base.documents import plain, typed
from weirlab.base.errors import InputError, ModelError
from weirlab.base.files import HOST_FILES, Inputs
from weirlab.base.limits import MOST_INPUT_BYTES
from weirlab.base.quoting import quoted
from weirlab.model.base import Model
from weirlab.model.intervals import cross_validation
from weirlab.model.intervals.calibration import HostDrift
from weirlab.model.lohmiller import LohmillerModel
from weirlab.model.piecewise import PiecewiseModel
from weirlab.model.queueing import QueueingModel
from weirlab.records import SIMULATION, Observation, emulation_in_words

FORMAT: Final = "weir-model"
VERSION: Final = 2
READABLE: Final = (1, VERSION)

KINDS: Final[dict[str, type[QueueingModel] | type[PiecewiseModel] | type[LohmillerModel]]] = {
    QueueingModel.name: QueueingModel,
    PiecewiseModel.name: PiecewiseModel,
    LohmillerModel.name: LohmillerModel,
}
"""Every model by its name; a new one is added here."""


def fit_all(
    observations: Iterable[Observation],
    *,
    calibrate: bool = True,
    later: HostDrift | None = None,
    told: Callable[[int, int, str], object] | None = None,
) -> dict[str, Model]:
    """Fit every model to the same trials; raises ``ModelError`` if one lacks data.

    Unless ``calibrate`` is False, which is several times quicker, their predictions have
    intervals (:func:`weirlab.model.intervals.cross_validation.calibrate`): for the same
    hour, or with ``later`` for others. ``told`` is called before each model with the number fitted so far,
    the number of models, and its name; and once more at the end.
    """
    rows = list(observations)
    models: dict[str, Model] = {}
    for name, kind in KINDS.items():
        if told is not None:
            told(len(models), len(KINDS), name)
        model = kind.fit(rows)
        if calibrate:
            model = model.with_calibration(
                replace(cross_validation.calibrate(kind, rows, model), later=later)
            )
        models[name] = model
    if told is not None:
        told(len(models), len(KINDS), "")
    return models


@dataclass(frozen=True)
class DeviceModels:
    """A device under test with its models."""

    name: str
    models: Mapping[str, Model]
    """By kind, the names in :data:`KINDS`."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """How it was measured: run, lab, kernel, versions of tools; plain JSON values."""

    @property
    def new_flow_rules(self) -> float:
        """See ``Run.new_flow_rules``: if not 0, positions are shares of new flows times these rules."""
        return float(self.facts.get("new_flow_rules", 0.0))

    @property
    def unusable(self) -> str:
        """Why the profile does not count that the models were fitted to; empty if it does."""
        return emulation_in_words(self.facts) or str(self.facts.get("unusable") or "")

    @property
    def disturbed(self) -> str:
        """How few attempts of the profile were valid; empty if the host did not disturb it."""
        return str(self.facts.get("disturbed") or "")

    @property
    def simulated(self) -> bool:
        """Whether it was a simulated device, whatever its name."""
        return self.facts.get("lab") == SIMULATION


def to_document(devices: Iterable[DeviceModels]) -> dict[str, Any]:
    """What :func:`save_devices` writes: plain JSON values, NaN and infinities as null."""
    listed = [{"name": device.name, "facts": device.facts, "models": device.models} for device in devices]
    return dict(plain({"format": FORMAT, "version": VERSION, "devices": listed}))


def from_document(data: Any, where: str, name: str = "device") -> list[DeviceModels]:
    """The inverse of :func:`to_document`.

    ``where`` names the source in messages; ``name`` is given to the device in a document of version 1.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f"{where} is not a model file: 'format' must be '{FORMAT}'; weir fit writes one")
    version = data.get("version")
    if version not in READABLE:
        raise ModelError(
            f"{where} has version {version!r} of the model format, but this Weir reads "
            f"{' and '.join(map(str, READABLE))}; fit again with weir fit"
        )
    if version == 1:
        return [DeviceModels(name, _models(data.get("models"), where))]
    entries = data.get("devices")
    if not isinstance(entries, list) or not entries:
        raise ModelError(f"{where} holds no devices; fit again with weir fit")
    devices = [_device(entry, where) for entry in entries]
    require_distinct([device.name for device in devices], where)
    return devices


def require_distinct(names: Sequence[str], where: str) -> None:
    """Raise ``ModelError`` if a name occurs twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ModelError(f"{where} has several devices called {', '.join(twice)}; each needs its own name")


def save_devices(devices: Iterable[DeviceModels], path: Path) -> None:
    """Write devices to ``path`` in one step; raises as :func:`weirlab.base.files.write`."""
    listed = list(devices)
    require_distinct([device.name for device in listed], str(path))
    text = json.dumps(to_document(listed), indent=1, allow_nan=False) + "\n"
    files.write_bytes(path, text.encode())


def load_devices(path: Path, inputs: Inputs = HOST_FILES) -> list[DeviceModels]:
    """Read what :func:`save_devices` wrote.

    Raises
    ------
    InputError
        It is not a model file.
    ModelError
        It is damaged, or of another version.
    """
    try:
        data = json.loads(inputs.read_text(path, "a model file", MOST_INPUT_BYTES))
    except InputError as error:
        raise InputError(f"{error}; weir fit writes one") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a model file ({error}); weir fit writes one") from error
    return from_document(data, str(path), _stem(path))


def pick(devices: Sequence[DeviceModels], name: str | None, where: str) -> DeviceModels:
    """The device called ``name``, or the only one.

    Raises
    ------
    ModelError
        There is no device of that name, or there are several and no name; the message lists all.
    """
    choices = ", ".join(device.name for device in devices)
    if name is None:
        if len(devices) == 1:
            return devices[0]
        raise ModelError(f"{where} holds {len(devices)} devices; choose one with --device: {choices}")
    found = next((device for device in devices if device.name == name), None)
    if found is None:
        raise ModelError(f"{where} holds no device {quoted(name)}; there is {choices}")
    return found


def save(models: Mapping[str, Model], path: Path) -> None:
    """Write the models of one device, which is named after the file."""
    save_devices([DeviceModels(_stem(path), models)], path)


def load(path: Path) -> dict[str, Model]:
    """Read the models of the file's only device; raises ``ModelError`` if it holds several."""
    return dict(pick(load_devices(path), None, str(path)).models)


def _stem(path: Path) -> str:
    return path.name.removesuffix(".json").removesuffix(".model") or path.name


def _device(entry: Any, where: str) -> DeviceModels:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
        raise ModelError(f"{where} holds a device without a name; fit again with weir fit")
    name, facts = entry["name"], entry.get("facts", {})
    if not isinstance(facts, dict):
        raise ModelError(f"{where}: the facts of device {quoted(name)} are damaged; fit again with weir fit")
    return DeviceModels(name, _models(entry.get("models"), f"{where}: device {quoted(name)}"), facts)


def _models(entries: Any, where: str) -> dict[str, Model]:
    if not isinstance(entries, dict) or not entries:
        raise ModelError(f"{where} holds no models; fit again with weir fit")
    models: dict[str, Model] = {}
    for name, fields in entries.items():
        if name not in KINDS:
            raise ModelError(f"{where} holds a model {quoted(name)}; known are {', '.join(KINDS)}")
        try:
            models[name] = typed(KINDS[name], _numbers(fields))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"{where}: model {quoted(name)} is incomplete, damaged or of another version of Weir "
                f"({error!r}); fit again with weir fit"
            ) from error
    return models


def _numbers(value: Any, key: str = "") -> Any:
    """Nulls become NaN again, except in the one field where null has a meaning."""
    if isinstance(value, dict):
        return {k: _numbers(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return math.nan if value is None and key != "q" else value
