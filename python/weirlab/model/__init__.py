"""Models of a device under test: fitted to a profile, asked about settings not measured.

Pure but for the model file in :mod:`weirlab.model.io`.
"""

from __future__ import annotations

from weirlab.model.base import Model, Parameter, Prediction
from weirlab.model.io import Device, fit_all, load, load_devices, save, save_devices
from weirlab.model.piecewise import Piecewise
from weirlab.model.queueing import Queueing
from weirlab.model.score import ErrorRow, compare

__all__ = [
    "Device",
    "ErrorRow",
    "Model",
    "Parameter",
    "Piecewise",
    "Prediction",
    "Queueing",
    "compare",
    "fit_all",
    "load",
    "load_devices",
    "save",
    "save_devices",
]
