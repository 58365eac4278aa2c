"""The plan of a run, so that nobody goes on with another one."""

from __future__ import annotations

import hashlib
from typing import Final

from weirlab.errors import InputError
from weirlab.store import RunWriter
from weirlab.studies.voice.routing import Network

PLAN: Final = "plan"
"""Name under which a run keeps what its plan is called, its day, and what it says."""


def keep_plan(writer: RunWriter, network: Network) -> None:
    """Keep which plan a run is about; raises ``InputError`` where it was begun with another one."""
    says = hashlib.sha256(network.plan.model_dump_json().encode()).hexdigest()
    now = {
        "plan": network.plan.plan,
        "name": network.book.name,
        "day": network.day.isoformat(),
        "sha256": says,
    }
    before = writer.run.get_json(PLAN, dict) if writer.run.has(PLAN) else {}
    if before.get("sha256", says) != says:
        raise InputError(
            f"{network.book.name} has changed since run {writer.run_id} was begun: start a new run"
        )
    if (day := before.get("day", now["day"])) != now["day"]:
        raise InputError(
            f"run {writer.run_id} was begun with {network.book.name} as of {day}, "
            f"and not as of {now['day']}: start a new run; "
            "with a date in the scenario it can be resumed on any day"
        )
    writer.put_json(PLAN, now)
