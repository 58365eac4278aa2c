"""Reads a diagnosis back from its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from weirlab.diagnosis.both import evidence
from weirlab.diagnosis.causes import CAUSES, Cause
from weirlab.diagnosis.finding import BlindSpot, Diagnosis, DiagnosisFinding, TransferSummary

_CAUSES: Final = {cause.key: cause for cause in CAUSES}


def read(document: Mapping[str, Any]) -> Diagnosis:
    """The inverse of :meth:`Diagnosis.document`; it also reads documents of earlier versions.

    Raises
    ------
    LookupError, TypeError
        The document is not a diagnosis.
    """
    told, between = document["summary"], document.get("between")
    return Diagnosis(
        source=document["source"],
        sentence=document["sentence"],
        findings=tuple(_finding(each) for each in document["findings"]),
        notes=tuple(document["notes"]),
        blind=tuple(BlindSpot(each["what"], each["why"]) for each in document["cannot_be_told"]),
        # What an earlier version did not report is not known.
        summary=TransferSummary(**{field.name: told.get(field.name) for field in fields(TransferSummary)}),
        counters=document["kernel_counters"],
        counters_wrong=tuple(document["kernel_counters_wrong"]),
        between=None if between is None else evidence.read(between),
    )


def _finding(told: Mapping[str, Any]) -> DiagnosisFinding:
    key = told["cause"]
    return DiagnosisFinding(
        # A cause that only a later version knows is named by its key.
        cause=_CAUSES.get(key) or Cause(key, told["who"], key.replace("_", " ")),
        share=told["share"],
        seconds=told["seconds"],
        confidence=told["confidence"],
        sentence=told["sentence"],
        evidence=tuple(told["evidence"]),
    )
