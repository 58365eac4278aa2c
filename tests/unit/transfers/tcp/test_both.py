"""Two sources of the same connection, beside each other."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import pytest

from weirlab.base.quantities import NOTHING
from weirlab.diagnosis import causes
from weirlab.diagnosis.causes import Cause, Source
from weirlab.diagnosis.finding import BlindSpot, Diagnosis, DiagnosisFinding, TransferSummary
from weirlab.transfers.tcp.show import facts
from weirlab.transfers.tcp.study.columns import AgreementRow, CrossingRow
from weirlab.transfers.tcp.study.kept import TransferRecord

ALIKE = AgreementRow("t", 0, "Segments sent again", "segments", "sender", 3.0, 3.0, True, "")
APART = AgreementRow("t", 0, "Least round trip", "us", "sender", 10_500.0, 9_000.0, False, "it is slow")
CROSSED = CrossingRow(
    trial_id="t", connection=0, sent_bytes=10_000, again_bytes=1_000, arrived_bytes=9_000, twice_bytes=0,
    lost_bytes=None, there_packets=9, there_min_us=1_000.0, there_mean_us=2_000.0, there_max_us=5_000.0,
    back_packets=0, back_min_us=math.nan, back_mean_us=math.nan, back_max_us=math.nan,
)  # fmt: skip


def test_without_captures_there_is_nothing_to_compare() -> None:
    assert list(facts.agreement((), many=False)) == list(facts.crossings(())) == []


def test_values_of_both_sources_have_their_unit_and_what_explains_a_difference() -> None:
    (table,) = facts.agreement((ALIKE, APART), many=False)
    assert list(table.rows[0]) == ["Segments sent again", "3", "3", "sender", "yes", ""]
    assert list(table.rows[1]) == ["Least round trip", "10.5 ms", "9.00 ms", "sender", "no", "it is slow"]
    (many,) = facts.agreement((APART,), many=True)
    assert (many.columns[0], many.rows[0][0]) == ("#", "0")


def test_what_is_not_known_of_a_crossing_is_left_open() -> None:
    (table,) = facts.crossings((CROSSED,))
    (row,) = table.rows
    assert dict(zip(table.columns, row, strict=True)) == {
        "#": "0", "Captures": "sender to receiver", "Sent": "10.0 kB", "Sent again": "1.00 kB",
        "Lost": NOTHING, "Arrived": "9.00 kB",
        "Twice": "0 B", "Data took": "1.00 ms / 2.00 ms / 5.00 ms", "ACKs took": NOTHING,
    }  # fmt: skip


def seen(source: Source, cause: Cause, *blind: str) -> Diagnosis:
    finding = DiagnosisFinding(cause, 1.0, 1.0, "high", "It was so.", ())
    unseen = tuple(BlindSpot(what, "it looks alike") for what in blind)
    summary = TransferSummary(1, 1.0, 8.0, 1, 1.0, 0, 0.0, None, None, None, None, None, None, None)
    return Diagnosis(source, finding.sentence, (finding,), (), unseen, summary)


@pytest.mark.parametrize(
    ("kernel", "both", "best"),
    [
        (causes.LOSS, causes.RECEIVER_DROPS, "both"),
        (causes.UNKNOWN, causes.FOREIGN, "both"),
        (causes.BOTTLENECK, causes.UNKNOWN, "kernel"),
        (causes.APPLICATION_WRITE, causes.BOTTLENECK, "kernel"),
    ],
)
def test_the_kernel_knows_the_ends_best_and_both_captures_the_path(
    kernel: Cause, both: Cause, best: str
) -> None:
    by_source = {"kernel": seen("kernel", kernel, "a", "b"), "both": seen("both", both, "b", "c")}
    kept = SimpleNamespace(diagnoses={0: by_source, 1: {"kernel": seen("kernel", kernel, "a")}})
    found = TransferRecord.best.func(cast("TransferRecord", kept))
    assert found[0].source == best
    # What one of the two tells is told.
    assert [each.what for each in found[0].blind] == ["b"]
    assert [each.what for each in found[1].blind] == ["a"]
