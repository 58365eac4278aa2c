"""Diagnoses that are kept as documents and read again."""

from __future__ import annotations

import json

import pytest

from weirlab.base.documents import plain
from weirlab.diagnosis import causes, finding
from weirlab.diagnosis.finding import BlindSpot, Diagnosis, DiagnosisFinding, TransferSummary

SUMMARY = TransferSummary(
    data_bytes=10_000_000, seconds=4.0, throughput_bps=20e6, segments=7000, segment_bytes=1430.0,
    retransmitted=3, loss_ratio=0.0004, duplicate_acks=None, sack_blocks=2, rtt_mean_s=0.05, rtt_min_s=0.04,
    window_max_bytes=131_072, window_allows_bps=21e6, capacity_bps=None,
)  # fmt: skip
FINDINGS = (
    DiagnosisFinding(
        causes.RECEIVE_WINDOW, 0.75, 3.0, "high", "75 % of the time the window was full.", ("a", "b")
    ),
    DiagnosisFinding(causes.UNKNOWN, 0.25, 1.0, "low", "25 % cannot be told.", ()),
)
DIAGNOSIS = Diagnosis(
    source="kernel",
    sentence=FINDINGS[0].sentence,
    findings=FINDINGS,
    notes=("SACK is off",),
    blind=(BlindSpot("the send buffer", "it was not sampled"),),
    summary=SUMMARY,
    counters={"application": 0.0, "receiver": 0.7, "send_buffer": 0.0, "network": 0.3},
    counters_wrong=("network: 30 % instead of 0 %; why",),
)


def document() -> dict[str, object]:
    """As JSON keeps it."""
    read = json.loads(json.dumps(plain(DIAGNOSIS.document())))
    assert isinstance(read, dict)
    return read


def test_what_was_kept_is_read_again() -> None:
    assert finding.read(document()) == DIAGNOSIS


def test_what_another_version_told_is_read_as_far_as_it_is_known() -> None:
    told = document()
    summary, findings = dict(told["summary"]), list(told["findings"])  # type: ignore[call-overload]
    del summary["capacity_bps"]
    findings.append({**findings[1], "cause": "cosmic_rays", "who": "network"})
    found = finding.read({**told, "summary": summary | {"later": 1}, "findings": findings})
    assert found.summary == SUMMARY
    assert (found.findings[2].cause.held, found.findings[2].cause.who) == ("cosmic rays", "network")


def test_something_else_is_refused() -> None:
    with pytest.raises(LookupError):
        finding.read({"sentence": "no diagnosis"})
