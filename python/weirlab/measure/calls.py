"""Trials with calls: packets sent in both directions, and what each caller heard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from weirlab.base.errors import InputError
from weirlab.lab.base import TestBed
from weirlab.measure.terms import SINGLE, TrialTerms
from weirlab.measure.trial import NOBODY, Hooks, TrialEntry, run_trial
from weirlab.quality.assess import call_table
from weirlab.quality.jitterbuffer import USUAL, Buffers
from weirlab.records import TrialRecord, TrialSpec

ROLE: Final = "calls"


@dataclass(frozen=True)
class CallAssessment:
    """The telephones, and whether their packets are kept."""

    buffers: Buffers = USUAL
    """The jitter buffers of the telephones."""
    keep_packets: bool = False
    """Whether the records keep the log of all packets (24 bytes each) in ``result.packets``."""


HEARING: Final = CallAssessment()


def run_calls(
    bed: TestBed,
    spec: TrialSpec,
    entry: TrialEntry,
    hearing: CallAssessment = HEARING,
    *,
    terms: TrialTerms = SINGLE,
    hooks: Hooks = NOBODY,
    set_rules: bool = True,
) -> list[TrialRecord]:
    """Make the calls of ``spec.traffic`` and assess what was heard in each.

    The rest is as for :func:`weirlab.measure.trial.run_trial`.

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
        bed,
        spec,
        replace(entry, role=ROLE),
        terms=terms,
        hooks=replace(hooks, completed=lambda record: heard(record, hearing)),
        set_rules=set_rules,
    )


def heard(record: TrialRecord, hearing: CallAssessment = HEARING) -> TrialRecord:
    """``record`` with the table of its calls, and without the log of its packets unless it is to be kept."""
    result, calls = record.result, record.spec.traffic.calls
    if result.packets is None or calls is None:
        return record
    table = call_table(result.packets, result.flows, calls, hearing.buffers)
    kept = result if hearing.keep_packets else replace(result, packets=None)
    return replace(record, calls=table, result=kept)
