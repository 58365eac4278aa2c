"""Trials with calls: packets sent in both directions, and what each caller heard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from weirlab.errors import InputError
from weirlab.lab.base import TestBed
from weirlab.measure.trial import run_trial
from weirlab.quality.assess import Buffers, call_table
from weirlab.records import TrialRecord, TrialSpec

ROLE: Final = "calls"


def run_calls(
    bed: TestBed,
    spec: TrialSpec,
    *,
    buffers: Buffers = Buffers(),  # noqa: B008 - a frozen value
    keep_packets: bool = False,
    **how: Any,
) -> list[TrialRecord]:
    """Make the calls of ``spec.traffic`` and tell what was heard in each.

    Parameters
    ----------
    buffers:
        The jitter buffers of the telephones.
    keep_packets:
        Whether the records keep the log of all packets (24 bytes each) in ``result.packets``.
    how:
        As for :func:`weirlab.measure.trial.run_trial`.

    Returns
    -------
    list of TrialRecord
        Every attempt in order; ``calls`` has a row per call and direction.

    Raises
    ------
    InputError
        ``spec`` has no calls in it.
    FailedTrial
        As for :func:`weirlab.measure.trial.run_trial`.
    """
    if spec.traffic.calls is None:
        raise InputError("these trials have no calls in them; weirlab.traffic.calls makes such traffic")
    return run_trial(
        bed, spec, role=ROLE, completed=lambda record: heard(record, buffers, keep_packets), **how
    )


def heard(record: TrialRecord, buffers: Buffers, keep_packets: bool = False) -> TrialRecord:
    """``record`` with the table of its calls, and without the log of its packets unless it is to be kept."""
    result, calls = record.result, record.spec.traffic.calls
    if result.packets is None or calls is None:
        return record
    table = call_table(result.packets, result.flows, calls, buffers)
    kept = result if keep_packets else replace(result, packets=None)
    return replace(record, calls=table, result=kept)
