"""Runs before a change compared with runs after it."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class ComparisonStudy(Study[Any, Any, Any]):
    """Commands alone: nothing is sent, and no run is made."""

    key = "comparison"
    title = "two runs compared, with the scatter from run to run"
    commands = {"weirlab.devices.comparison.command": ("compare",)}
