"""Keeps the plan of a run, so that the run is not resumed with another plan."""

from __future__ import annotations

import hashlib
from typing import Final

from weirlab.base.errors import InputError
from weirlab.numbering.routing import PlanNetwork
from weirlab.store import RunWriter

PLAN: Final = "plan"
"""Name under which a run keeps its plan's name, day and digest."""


def keep_plan(writer: RunWriter, network: PlanNetwork) -> None:
    """Record the plan of a run; raises ``InputError`` if the run was begun with another one."""
    says = hashlib.sha256(network.plan.model_dump_json().encode()).hexdigest()
    now = {
        "plan": network.plan.plan,
        "name": network.book.name,
        "day": network.day.isoformat(),
        "sha256": says,
    }
    before = writer.run.get_json(PLAN, dict) if writer.run.has(PLAN) else {}
    if before.get("sha256", says) != says:
        raise InputError(f"{network.book.name} has changed since run {writer.run_id} began: start a new run")
    if (day := before.get("day", now["day"])) != now["day"]:
        raise InputError(
            f"run {writer.run_id} was begun with {network.book.name} as of {day}, "
            f"not as of {now['day']}: start a new run; "
            "a run whose scenario has a date can be resumed on any day"
        )
    writer.put_json(PLAN, now)
