"""Planning: what fitted devices can carry, and better orders for rulesets."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class PlanningStudy(Study[Any, Any, Any]):
    """Commands alone: nothing is sent, and no run is made."""

    key = "planning"
    title = "which device carries what is required"
    commands = {"weirlab.devices.planning.command": ("plan",)}
