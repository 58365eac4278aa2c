"""Models of a device under test: fitted to a profile, they predict settings that were not measured.

Pure except for the model file in :mod:`weirlab.model.io`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weirlab.model.base import Model, Prediction
    from weirlab.model.io import DeviceModels, fit_all, load, load_devices, save, save_devices
    from weirlab.model.lohmiller import LohmillerModel
    from weirlab.model.piecewise import PiecewiseModel
    from weirlab.model.queueing import QueueingModel
    from weirlab.model.score import ErrorRow, compare
else:
    _PLACES = {
        "base": ("Model", "Prediction"),
        "io": ("DeviceModels", "fit_all", "load", "load_devices", "save", "save_devices"),
        "lohmiller": ("LohmillerModel",),
        "piecewise": ("PiecewiseModel",),
        "queueing": ("QueueingModel",),
        "score": ("ErrorRow", "compare"),
    }

    def __getattr__(name: str) -> Any:
        """Import a name from its module on first use: most commands need few, and all take long."""
        for module, names in _PLACES.items():
            if name in names:
                return getattr(import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "DeviceModels", "ErrorRow", "LohmillerModel", "Model", "PiecewiseModel", "Prediction", "QueueingModel",
    "compare", "fit_all", "load", "load_devices", "save", "save_devices",
]  # fmt: skip
