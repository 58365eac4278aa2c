"""The choice of a device: devices are profiled where that is missing, and compared by what they carry."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class ChoiceStudy(Study[Any, Any, Any]):
    """A command alone: the runs that it makes are profiles."""

    key = "choice"
    title = "which of several devices carries given calls"
    commands = {"weirlab.devices.choice.command": ("choose",)}
