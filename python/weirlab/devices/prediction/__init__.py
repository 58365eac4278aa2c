"""Models: fitted to profiles, used for predictions, and verified."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class PredictionStudy(Study[Any, Any, Any]):
    """Commands alone: nothing is sent, and no run is made."""

    key = "prediction"
    title = "models fitted to profiles, their predictions and verification"
    commands = {
        "weirlab.devices.prediction.command": ("fit", "predict", "verify"),
        "weirlab.devices.prediction.transients_command": ("transients",),
    }
