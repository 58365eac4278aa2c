"""Phrases that several commands end with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from weirlab.measure.verdict import Verdict


MORE_TRIALS: Final = (
    "Profile again with more repetitions (weir profile --repetitions 10) on a quieter machine"
)


"""What to do about a profile that scatters too much."""


def of_device(simulated: bool, said: str) -> str:
    """``said``, which does not name the device; of a simulated one nobody may take it for a measurement."""
    return f"Simulated, not measured: {said}" if simulated else said


def machine(verdict: Verdict | None) -> str:
    """What the machine was good for; empty for a simulated device."""
    return "" if verdict is None else verdict.sentence
