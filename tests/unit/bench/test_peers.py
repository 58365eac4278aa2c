"""The benchmark of the generators, whatever becomes of the others."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import pytest

import peers
import senders
from cable import Window
from senders import Case, Sample
from weirlab.lab.namespaces import PlainPair

WEIR = Case("weir", None, 64, "flow, number, time")
OTHER = Case("other", None, 64, "nothing", ("false",))
PACED = Case("other", 1000, 64, "nothing", ("false",))


def window(pps: int) -> Window:
    return Window(seconds=1.0, arrived=pps, overflowed=0, steal_ratio=0.0)


def failed(case: Case, repeat: int = 0) -> Sample:
    return Sample(*case.key, repeat, None, {}, "stopped too early: Flushing TX_RING failed")


@pytest.fixture
def cable(monkeypatch: pytest.MonkeyPatch) -> PlainPair:
    """Nothing is counted on it; sending is all that happens."""

    def measure(bed: PlainPair, send: Any) -> Window:
        send()
        return window(1)

    monkeypatch.setattr(senders, "measure", measure)
    return cast(PlainPair, nullcontext())


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("sh", "-c", "echo Flushing TX_RING failed >&2; exit 255"), "Flushing TX_RING failed"),
        (("sh", "-c", "exit 3"), "exit code 3"),
        (("no-such-generator",), "no-such-generator"),
    ],
)
def test_a_sender_that_fails_is_a_sample_with_its_reason(
    cable: PlainPair, command: tuple[str, ...], reason: str
) -> None:
    sample = senders.sample(cable, Case("other", None, 64, "nothing", command), 0)
    assert sample.window is None
    assert reason in sample.failure


def test_a_server_that_does_not_start_fails_its_sender_only(cable: PlainPair) -> None:
    case = Case("other", None, 64, "nothing", ("true",), server=("true",))
    assert "does not start" in senders.sample(cable, case, 0).failure


def test_a_failed_sender_has_a_row_and_the_others_their_ratios() -> None:
    samples = [Sample(*WEIR.key, 0, window(3_000_000), {}), failed(OTHER), failed(PACED)]
    full_speed, paced = peers.tables([WEIR, OTHER, PACED], samples)
    assert full_speed == [
        ("weir", "64", "flow, number, time", "3.00", "3.00-3.00", "100.00%", "1.0 x"),
        ("other", "64", "nothing", "failed", "", "", ""),
    ]
    assert paced == [("other", "1,000", "failed", "", "")]


def test_a_sender_that_fails_once_is_measured_by_its_other_repeats() -> None:
    samples = [
        Sample(*WEIR.key, 0, window(3_000_000), {}),
        failed(OTHER),
        Sample(*OTHER.key, 1, window(1_000_000), {}),
    ]
    full_speed, _ = peers.tables([WEIR, OTHER], samples)
    assert full_speed[1] == ("other (1 of 2)", "64", "nothing", "1.00", "1.00-1.00", "100.00%", "3.0 x")


def test_the_summary_tells_every_failure_once() -> None:
    about = {"date": "", "command": "", "repeats": 2, "versions": {}, "facts": {}}
    samples = [failed(OTHER), failed(OTHER, 1), failed(PACED)]
    text = peers.summary([OTHER, PACED], samples, about).markdown()
    assert text.count("Flushing TX_RING failed") == 2
    assert "- Failed: other, full speed: stopped" in text
    assert "- Failed: other, 1,000 pps: stopped" in text
