"""From a run to a bundle, and whether a bundle's model follows from its trials."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from weirlab.base.errors import InputError, ModelError
from weirlab.base.quoting import quoted
from weirlab.devices.prediction import modelling
from weirlab.jobs import machine
from weirlab.jobs.profiles import named
from weirlab.library.bundle import BundleManifest, ProfileBundle, packed
from weirlab.model import DeviceModels, QueueingModel
from weirlab.model.io import to_document
from weirlab.records import Observation
from weirlab.store import Run, Store
from weirlab.store.manifest import host, kernel

_PRIVATE: Final = ("command", "host", "run_path")
"""Facts that say something about the user rather than about the measurement."""


def licence_of(text: str) -> str:
    """The SPDX expression ``text`` as SPDX writes it; raises ``InputError`` for anything else."""
    try:
        # It is there with Altair and Dask; versions before 24.2 know no licences.
        from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
    except ImportError:
        return text
    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        raise InputError(
            f"--licence {quoted(text)}: not an SPDX expression, such as CC0-1.0 or CC-BY-4.0 "
            "(spdx.org/licenses); own terms are called LicenseRef-NAME, and --remark says what they are"
        ) from None


def bundle_of(
    store: Store, source: str, name: str, licence: str, where: str, remark: str = ""
) -> ProfileBundle:
    """The profile ``source`` as a bundle; ``where`` says in words where it was measured.

    Raises
    ------
    InputError
        The name or the licence is none, or it was measured elsewhere and ``where`` is empty.
    ModelError, StoreError
        It has no models, or cannot be read.
    TrialError
        Its device was emulated.
    """
    licence, run = licence_of(licence), named(store, source)
    device = modelling.find_device(store, run.run_id)[0]
    if not where:
        if (run.manifest.host, run.manifest.kernel) != (host(), kernel()):
            raise InputError(
                f"run {run.run_id} was measured on another machine than this: say on which, in words, "
                "e.g. --host '4 x Xeon E-2236, 10 Gbit/s ixgbe'"
            )
        where = machine_in_words()
    observations = run.observations("profile", plain=True)
    calibration = run.get_json("calibration") if run.has("calibration") else None
    unusable = machine.refusal(run)
    terms = _manifest(name, licence, run, where, remark or unusable)
    return of_trials(terms, device, observations, calibration)


def of_trials(
    terms: BundleManifest, device: DeviceModels, trials: Sequence[Observation], calibration: Any = None
) -> ProfileBundle:
    """A bundle of ``device``, fitted to ``trials``; its model file has no other facts than ``terms`` have."""
    kept = replace(device, name=terms.name, facts={**terms.conditions, "created": terms.measured})
    return packed(terms, to_document([kept]), trials, calibration)


def _manifest(name: str, licence: str, run: Run, where: str, remark: str) -> BundleManifest:
    known = run.manifest
    facts = {key: value for key, value in modelling.described(run, {}).facts.items() if key not in _PRIVATE}
    conditions = {**facts, "versions": known.versions}
    try:
        return BundleManifest(name, licence, known.created, where, remark, _public(conditions))
    except ValueError as error:
        raise InputError(f"--name: {error}") from error


def _public(facts: Mapping[str, Any]) -> dict[str, Any]:
    """``facts`` without paths of this machine."""
    return {key: value for key, value in facts.items() if not re.search(r"(^|\s)/\w", str(value))}


def machine_in_words() -> str:
    """This machine: number and kind of its processors, and whether they are virtual."""
    text = Path("/proc/cpuinfo").read_text(errors="replace")
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    virtual = ", virtual machine" if re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE) else ""
    return (
        f"{os.cpu_count()} x {found[1].strip() if found else os.uname().machine}{virtual}, Linux {kernel()}"
    )


def refit_error(bundle: ProfileBundle) -> float:
    """How far the threshold of the model in ``bundle`` is from one fitted to its trials here, as a ratio.

    Raises
    ------
    InputError, ModelError
        The trials or the model cannot be used.
    """
    stored = bundle.device.models.get(QueueingModel.name)
    if not isinstance(stored, QueueingModel):
        raise ModelError(f"bundle {bundle.manifest.name} has no {QueueingModel.name} model")
    trials = bundle.observations()
    fitted = QueueingModel.fit(trials)
    settings = {(each.position, each.frame_bytes) for each in trials}
    positions, frames = (np.array(axis) for axis in zip(*sorted(settings), strict=True))
    found, wanted = (model.predict(1.0, frames, positions).threshold_pps for model in (fitted, stored))
    return float(np.abs(found / wanted - 1).max())
