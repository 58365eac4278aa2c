"""When each cause was the limit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from weirlab.diagnosis import causes, kernel
from weirlab.diagnosis.diagnosing import MOST, diagnose, intervals

from .made import samples


def timeline(lasts_s: Any) -> Any:
    return cast(Any, SimpleNamespace(lasts_s=np.asarray(lasts_s, dtype=float)))


def test_pieces_with_the_same_cause_are_one_interval() -> None:
    parts = {causes.LOSS: np.array([1.0, 0.6, 0.4, 0.0])}
    found = intervals(timeline([1.0, 2.0, 3.0, 4.0]), parts)
    assert [(each.cause.key, each.start_s, each.end_s) for each in found] == [
        ("loss", 0.0, 3.0),
        ("unknown", 3.0, 10.0),
    ]


def test_causes_that_alternate_too_often_are_put_into_bins_of_equal_time() -> None:
    number = 10 * MOST
    loss = np.tile([1.0, 1.0, 1.0, 0.0], number // 4)
    loss[: number // 2] = 1 - loss[: number // 2]
    found = intervals(timeline(np.ones(number)), {causes.LOSS: loss})
    assert len(found) <= MOST
    assert [found[0].cause, found[-1].cause] == [causes.UNKNOWN, causes.LOSS]
    assert found[0].end_s == pytest.approx(number / 2, rel=0.01)


def test_the_intervals_of_a_diagnosis_add_up_to_its_shares() -> None:
    at = np.arange(401) * 0.005
    full = np.where((at > 0.5) & (at < 1.5), 100_000, 1_000_000)
    read = kernel.read(*samples(snd_wnd_bytes=full))
    assert read is not None
    found = diagnose(*read)
    assert found is not None
    # A window that falls was filled by data that nobody read.
    (held,) = [each for each in found.intervals if each.cause is causes.APPLICATION_READ]
    assert (held.start_s, held.end_s) == (pytest.approx(0.5, abs=0.06), pytest.approx(1.5, abs=0.06))
    for finding in found.findings:
        total = sum(each.end_s - each.start_s for each in found.intervals if each.cause is finding.cause)
        assert total / found.intervals[-1].end_s == pytest.approx(finding.share, abs=0.01)
