"""The device's own counters beside what was sent and received."""

from __future__ import annotations

from dataclasses import replace

from weirlab.calls.capacity.trials.boxes import OTHERS_FRAMES, count
from weirlab.records import BinSpan
from weirlab.testing import make_result

COUNTERS = {
    "in_rx_packets": 600,
    "in_rx_dropped": 0,
    "out_tx_packets": 600,
    "out_rx_packets": 600,
    "out_rx_dropped": 0,
    "in_tx_packets": 600,
}
RESULT = make_result(1000, warmup_s=0.2)


def test_both_directions_and_the_warm_up_are_in_the_devices_counters() -> None:
    found = count(RESULT, COUNTERS)
    assert found is not None
    assert (found.sent, found.entered, found.left) == (1200, 1200, 1200)
    assert found.agree
    assert found.disagreement == ""


def test_what_a_queue_had_no_room_for_reached_the_device_too() -> None:
    lossy = make_result(1000, warmup_s=0.2, loss_ratio=0.1)
    counters = {**COUNTERS, "in_rx_packets": 500, "in_rx_dropped": 100, "out_tx_packets": 500}
    found = count(lossy, counters)
    assert found is not None
    assert found.agree


def test_frames_that_never_reached_the_device_are_told() -> None:
    found = count(RESULT, {**COUNTERS, "in_rx_packets": 400, "out_tx_packets": 400})
    assert found is not None
    assert found.entered_difference == -200
    assert not found.agree
    assert found.disagreement == "1,200 frames were sent and 1,000 reached the device"


def test_frames_that_arrived_without_having_left_are_told() -> None:
    found = count(RESULT, {**COUNTERS, "in_tx_packets": 0, "out_tx_packets": 600})
    assert found is not None
    assert found.left_difference == -400
    assert found.disagreement == "600 left the device and 1,000 to 1,200 arrived"


def test_frames_that_left_and_never_arrived_are_told() -> None:
    found = count(make_result(1000, warmup_s=0.2, loss_ratio=0.5), COUNTERS)
    assert found is not None
    assert found.left_difference == 500
    assert "1,200 left the device and 500 to 700 arrived" in found.disagreement


def test_what_the_host_disturbed_passed_the_device_as_well() -> None:
    rest = replace(RESULT, sent=900, received=900, left_out=(BinSpan(0, 100_000_000, "stolen"),))
    assert count(rest, COUNTERS) == count(RESULT, COUNTERS)


def test_a_neighbours_announcements_are_no_disagreement() -> None:
    found = count(RESULT, {**COUNTERS, "in_rx_packets": 600 + OTHERS_FRAMES})
    assert found is not None
    assert found.agree


def test_counters_of_the_recorded_part_alone_are_compared_with_that() -> None:
    counters = {name: 500 if value else 0 for name, value in COUNTERS.items()}
    found = count(RESULT, counters, whole=False)
    assert found is not None
    assert found.agree
    assert found.received == found.received_most


def test_a_device_without_such_counters_is_not_compared() -> None:
    assert count(RESULT, {"in_rx_packets": 5}) is None
