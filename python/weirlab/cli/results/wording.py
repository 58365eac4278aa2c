"""Phrases at the end of the output of several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weirlab.measure.verdict import MachineVerdict


def of_device(simulated: bool, said: str) -> str:
    """``said``, marked as simulated if the device is, so that it is not taken for a measurement."""
    return f"Simulated, not measured: {said}" if simulated else said


def of_run(unusable: str, said: str) -> str:
    """``said``, after the reason why the run that it rests on does not count; empty if it does."""
    return f"From a run that does not count ({unusable}): {said}" if unusable else said


def machine(verdict: MachineVerdict | None) -> str:
    """The verdict on the machine as a sentence; empty for a simulated device."""
    return "" if verdict is None else verdict.sentence
