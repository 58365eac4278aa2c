"""The models' errors in numbers."""

from __future__ import annotations

from collections.abc import Iterable

from weirlab.devices.prediction.tables import errors
from weirlab.model import ErrorRow

__all__ = ["alarms", "errors"]


def alarms(rows: Iterable[ErrorRow]) -> str:
    """A sentence on loss that was predicted where none was measured; empty without held-out trials."""
    told = [
        f"{row.model} {row.false_alarms:,} of {row.n:,}"
        for row in rows
        if row.false_alarms is not None and (row.per, row.extrapolated) == ("trial", False)
        and not row.of_measurement
    ]  # fmt: skip
    return f"Trials without loss for which loss was predicted: {', '.join(told)}." if told else ""
