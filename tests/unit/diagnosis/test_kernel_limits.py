"""Samples of a kernel whose limit is easily mistaken for loss, or for other traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.diagnosis import kernel
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Diagnosis

from .made import MSS, RTT_S, Floats, samples
from .test_kernel import HALF, behind_queue, found

COUNT = 2 * HALF + 1
PERIOD_S = 0.005


def delivered(rate: Floats | float) -> dict[str, object]:
    """``rate``: as a multiple of 100 segments per round trip."""
    acked = np.cumsum(np.broadcast_to(rate, COUNT) * 100 * MSS / RTT_S * PERIOD_S)
    return {"bytes_acked": acked, "bytes_sent": acked + 100 * MSS}


@pytest.mark.parametrize(
    ("rate", "cause"), [(0.9, "loss"), (0.7, "loss"), (0.6, "unknown"), (0.3, "unknown")]
)
def test_a_congestion_window_that_allows_far_more_than_gets_through_is_not_the_limit(
    rate: float, cause: str
) -> None:
    diagnosis = found(total_retrans=3, **delivered(rate))
    assert diagnosis.main.key == cause
    assert diagnosis.share(cause) > 0.9


SAWTOOTH = np.where(np.arange(COUNT) % 10 < 1, 150, 100) * MSS


@pytest.mark.parametrize(
    ("rate", "window", "cause", "confidence"),
    [
        (0.95, SAWTOOTH, "receive_window", "high"),
        (0.6, SAWTOOTH, "receive_window", "medium"),
        (0.4, 100 * MSS, "receive_window", "medium"),
        (0.4, SAWTOOTH, "application_read", "medium"),
    ],
)
def test_a_window_that_fell_and_allows_far_more_than_gets_through_opens_when_the_receiver_reads(
    rate: float, window: object, cause: str, confidence: str
) -> None:
    (first, *_) = found(snd_wnd_bytes=window, **delivered(rate)).findings
    assert (first.cause.key, first.confidence) == (cause, confidence)


@pytest.mark.parametrize(("lowest", "cause"), [(20, "application_read"), (160, "bottleneck")])
def test_round_trips_that_are_long_while_unread_data_closes_the_window_are_no_queue(
    lowest: int, cause: str
) -> None:
    window = np.where(np.arange(COUNT) % 20 < 10, 160, lowest) * MSS
    held = {**behind_queue(80_000, window / MSS), "snd_cwnd": 200, "snd_wnd_bytes": window}
    (first, *_) = found(**held).findings
    assert first.cause.key == cause


@pytest.mark.parametrize(("answers", "cause"), [(0, "send_buffer"), (1, "application_write")])
def test_a_send_buffer_that_blocks_just_fill_is_not_the_limit_if_each_waits_for_an_answer(
    answers: int, cause: str
) -> None:
    # 30 segments every 10 samples, of which the first ones are acknowledged after 8.
    at, acked = np.arange(COUNT) // 10 * 30, np.minimum(np.arange(COUNT) % 10 // 8, 1) * 10
    flight = 30 - acked
    blocks = {
        "notsent_bytes": 0,
        "unacked": flight,
        "wqueue_bytes": flight * MSS,
        "bytes_sent": (at + 30) * MSS,
        "skmem_wmem_queued_bytes": flight * 1.2 * MSS,
        "skmem_sndbuf_bytes": 30 * MSS,
        "bytes_acked": (at + acked) * MSS + 1,
        "bytes_received": answers * (np.arange(COUNT) // 10),
    }
    assert found(**blocks).main.key == cause


def test_few_segments_in_flight_show_nothing_against_loss() -> None:
    few = {"unacked": 10, "snd_cwnd": 10, "wqueue_bytes": 210 * MSS}
    assert found(total_retrans=3, **few, **delivered(0.05)).main.key == "loss"


STRAY = np.arange(COUNT)
IN_FLIGHT = np.where(STRAY % 90 == 40, 120, np.where(STRAY % 90 == 70, 330, 220))
"""Samples that were taken while ACKs came in a bunch."""


@pytest.mark.parametrize("lost", [3, np.where(STRAY < HALF, 3, 5)])
def test_single_samples_do_not_turn_a_full_line_into_loss(lost: object) -> None:
    diagnosis = found(total_retrans=lost, **behind_queue(110_000, IN_FLIGHT))
    assert diagnosis.main.key == "bottleneck"
    assert diagnosis.share("bottleneck") > 0.9
    assert diagnosis.share("loss") == 0


@pytest.mark.parametrize(("rtt_us", "cause"), [(110_000, "bottleneck"), (52_000, "loss")])
@pytest.mark.parametrize("state", [3, np.where(STRAY < COUNT - 15, 3, 0)])
def test_a_recovery_in_which_a_full_line_delivers_as_much_is_no_loss(
    rtt_us: int, cause: str, state: object
) -> None:
    # What SACK has reported counts as in flight.
    diagnosis = found(total_retrans=3, ca_state=state, **behind_queue(rtt_us, 400))
    assert (diagnosis.main.key, diagnosis.findings[0].confidence) == (cause, "medium")


def test_nobody_takes_what_a_path_that_stands_still_leaves_unused() -> None:
    moves = (STRAY * PERIOD_S) % 1.0 < 0.55
    columns = behind_queue(110_000, 220) | delivered(np.where(moves, 1.0, 0.0))
    assert found(**columns).share("foreign") < 0.1


def test_round_trips_that_are_long_without_much_in_flight_are_no_full_line() -> None:
    columns = behind_queue(110_000, IN_FLIGHT // 4)
    assert found(total_retrans=3, **columns).share("bottleneck") == 0


def busy(cycle_s: float, busy_s: float) -> np.ndarray:
    return (STRAY * PERIOD_S) % cycle_s < busy_s


@pytest.mark.parametrize("pause_s", [0.1, 0.2, 0.35])
@pytest.mark.parametrize(
    ("cause", "in_flight", "rate", "column", "then"),
    [
        ("application_write", 5, 0.05, "notsent_bytes", 200 * MSS),
        ("application_read", 0, 0.0, "snd_wnd_bytes", 1_000 * MSS),
    ],
)
def test_nobody_takes_what_pauses_and_closed_windows_leave_unused(
    pause_s: float, cause: str, in_flight: int, rate: float, column: str, then: int
) -> None:
    sends = busy(0.5 + pause_s, 0.5)
    columns = behind_queue(90_000, np.where(sends, 180, in_flight)) | delivered(np.where(sends, 1.0, rate))
    diagnosis = found(**{**columns, column: np.where(sends, then, 0)})
    assert diagnosis.share("foreign") == 0
    assert diagnosis.share(cause) == pytest.approx(1 - sends.mean(), abs=0.05)


@pytest.mark.parametrize(("rtt_us", "apart"), [(150_000, True), (52_000, False)])
def test_round_trips_that_rise_whatever_is_in_flight_are_perhaps_those_of_the_way_back(
    rtt_us: float, apart: bool
) -> None:
    # Between 20 and 100 segments are in flight.
    diagnosis = found(**behind_queue(rtt_us, np.where(STRAY % 40 < 20, 20, 100)))
    assert diagnosis.main.key == "unknown"
    assert diagnosis.share("bottleneck") + diagnosis.share("foreign") == 0
    assert ("ACKs waited in a queue on their way back" in [each.what for each in diagnosis.blind]) is apart


def captured(**columns: object) -> Diagnosis:
    """As a capture at the sender shows it."""
    read = kernel.read(*samples(**columns))
    assert read is not None
    diagnosis = diagnose(replace(read[0], source="sender"), read[1])
    assert diagnosis is not None
    return diagnosis


@pytest.mark.parametrize(("rate", "cause"), [(0.9, "loss"), (0.2, "unknown")])
def test_a_recovery_with_far_more_in_flight_than_gets_through_is_not_the_limit(
    rate: float, cause: str
) -> None:
    diagnosis = captured(total_retrans=3, ca_state=3, **delivered(rate))
    assert diagnosis.main.key == cause


@pytest.mark.parametrize(("longest_s", "share"), [(0.08, 1.0), (0.3, 0.0)])
def test_data_in_flight_whose_acks_stay_away_is_no_application_that_pauses(
    longest_s: float, share: float
) -> None:
    # 20 segments are in flight all the time; ACKs come in bunches.
    bunch = round(longest_s / PERIOD_S)
    acked = (np.arange(COUNT) // bunch) * 20 * MSS
    sent = {
        "bytes_acked": acked,
        "bytes_sent": acked + 20 * MSS,
        "notsent_bytes": 0,
        "wqueue_bytes": 20 * MSS,
    }
    diagnosis = captured(**sent, unacked=20)
    assert diagnosis.share("application_write") == pytest.approx(share, abs=0.01)
