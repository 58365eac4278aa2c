"""What the receiver's kernel shows: its application, its buffer, or neither."""

from __future__ import annotations

import numpy as np
import pytest

from weirlab.diagnosis import receiving

RTT_S, PERIOD_S, ROWS = 0.04, 0.01, 500


def samples(rate: float, unread: float, window: float, late: float = 0.0) -> dict[str, np.ndarray]:
    """Five seconds at ``rate`` bytes per second; ``late``: the share of segments out of order."""
    received = np.arange(ROWS) * rate * PERIOD_S
    constant = {
        "rqueue_bytes": unread,
        "rcv_wnd_bytes": window,
        "rcv_mss_bytes": 1448,
        "min_rtt_us": RTT_S * 1e6,
    }
    return {
        **{name: np.full(ROWS, value) for name, value in constant.items()},
        "bytes_received": received,
        "data_segs_in": received / 1448,
        "rcv_ooopack": received / 1448 * late,
    }


TIMES = np.arange(ROWS) * PERIOD_S * 1e9


@pytest.mark.parametrize(
    ("rate", "unread", "window", "cause"),
    [
        (100_000, 60_000, 0, "application_read"),
        (1_600_000, 0, 64_000, "receive_window"),
        (300_000, 0, 64_000, "unknown"),
        # A window that the kernel adapts to the rate is twice what arrives in a round trip.
        (800_000, 0, 64_000, "unknown"),
    ],
)
def test_a_slow_reader_a_small_buffer_and_neither_are_told_apart(
    rate: float, unread: float, window: float, cause: str
) -> None:
    (main, *others) = receiving.findings(TIMES, samples(rate, unread, window))
    assert (main.cause.key, round(main.share, 2), others) == (cause, 1.0, [])


def test_what_a_slow_reader_read_is_what_arrived_less_what_stayed_unread() -> None:
    # It reads 1 MB once a second; meanwhile what arrives fills the window and then stops.
    row = np.arange(ROWS)
    arrived = (row // 100 + np.minimum((row % 100) / 25, 1.0)) * 1e6
    told = {
        **samples(1.0, 0, 0),
        "bytes_received": 3e6 + arrived,
        "rqueue_bytes": 3e6 + arrived - row // 100 * 1e6,
    }
    (main, *_) = receiving.findings(TIMES, told)
    assert main.cause.key == "application_read"
    assert main.sentence.endswith("it read 6.41 Mbit/s.")


def test_segments_out_of_order_point_to_the_network() -> None:
    (main,) = receiving.findings(TIMES, samples(300_000, 0, 640_000, late=0.02))
    assert "out of order" in main.sentence
    (main,) = receiving.findings(TIMES, samples(300_000, 0, 640_000))
    assert "out of order" not in main.sentence


def test_where_nothing_arrives_there_is_nothing_to_say() -> None:
    assert receiving.findings(TIMES, samples(0, 0, 64_000)) == ()


def test_without_a_round_trip_no_window_is_called_small() -> None:
    unknown = samples(1_600_000, 0, 64_000) | {"min_rtt_us": np.full(ROWS, np.nan)}
    (main,) = receiving.findings(TIMES, unknown)
    assert main.cause.key == "unknown"


def test_a_kernel_that_does_not_report_its_window_leaves_the_cause_open() -> None:
    (main,) = receiving.findings(TIMES, samples(1_600_000, 60_000, np.nan))
    assert (main.cause.key, main.confidence) == ("unknown", "low")


def test_the_time_before_the_handshake_is_over_says_nothing() -> None:
    told = {name: np.where(np.arange(ROWS) < 50, np.nan, each) for name, each in samples(1e5, 6e4, 0).items()}
    (main, *others) = receiving.findings(TIMES, told)
    assert (main.cause.key, others) == ("application_read", [])


@pytest.mark.parametrize(("least", "share"), [(15_000, 0.98), (0, 0.4)])
def test_a_reader_that_always_finds_data_is_slow_while_its_reads_open_the_window(
    least: float, share: float
) -> None:
    # Unread data fills the window in 0.2 s; a read then takes most of it, or all.
    unread = least + (80_000 - least) * (np.arange(ROWS) % 20) / 20
    told = {**samples(1e5, 0, 0), "rqueue_bytes": unread, "rcv_wnd_bytes": np.maximum(80_000 - unread, 0)}
    (main, *_) = sorted(receiving.findings(TIMES, told), key=lambda each: each.cause.key)
    assert (main.cause.key, main.share) == ("application_read", pytest.approx(share, abs=0.07))
