from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from weirlab.measure.validity import ValidityLimits, judge, stalls
from weirlab.records import EngineResult, HostSample
from weirlab.testing import make_result


def host(wall_s: float = 1.0, softnet_dropped: int = 0, **steal_s: float) -> HostSample:
    return HostSample(
        wall_s, {role: {"steal": value} for role, value in steal_s.items()}, softnet_dropped=softnet_dropped
    )


def with_bins(
    result: EngineResult, bins: slice, received: int | None = None, delay_ns: float | None = None
) -> EngineResult:
    """``result`` with another number of packets received, or another largest delay, in ``bins``."""
    counts, longest = result.series.received.copy(), result.series.delay_max_ns.copy()
    if received is not None:
        counts[bins] = received
    if delay_ns is not None:
        longest[bins] = delay_ns
    left = int(counts.sum())
    series = replace(result.series, received=counts, delay_max_ns=longest)
    return replace(result, series=series, received=left, lost=result.sent - left)


QUIET = host()
CLEAN = make_result(1e5)


def test_a_trial_with_a_full_table_of_connections_is_invalid_and_the_remedy_is_named() -> None:
    (reason,) = judge(CLEAN, QUIET, 1e5, counters={"connections_dropped": 1200})
    assert "1,200 were dropped" in reason
    assert "nf_conntrack_max" in reason


def test_an_undisturbed_trial_is_valid() -> None:
    assert judge(CLEAN, QUIET, 1e5) == ()


def test_loss_and_long_delay_alone_are_results_and_no_reason() -> None:
    assert judge(make_result(1e5, loss_ratio=0.9, delay_mean_ns=3e6), QUIET, 1e5) == ()


@pytest.mark.parametrize(
    ("wall_s", "stolen_s", "valid"),
    [(0.5, 0.01, True), (0.5, 0.02, True), (0.5, 0.03, False), (10.0, 0.10, True), (10.0, 0.11, False)],
)
@pytest.mark.parametrize("role", ["sender", "dut"])
def test_stolen_time_counts_from_one_percent_and_three_ticks_on(
    wall_s: float, stolen_s: float, valid: bool, role: str
) -> None:
    # As differences of /proc/stat come: 123.45 - 123.43 is not quite 0.02.
    reasons = judge(CLEAN, host(wall_s, **{role: 123.43 + stolen_s - 123.43}), 1e5)
    assert (reasons == ()) is valid
    if not valid:
        assert f"{stolen_s * 1e3:.0f} ms stolen from the {role}'s CPU" in reasons[0]


def test_steal_on_another_cpu_does_not_matter() -> None:
    assert judge(CLEAN, host(receiver=0.5), 1e5) == ()


@pytest.mark.parametrize("stolen_s", [0.0, 0.01])
def test_a_single_tick_spoils_a_trial_only_when_losses_cluster(stolen_s: float) -> None:
    cluster = with_bins(CLEAN, slice(40, 42), received=300)
    spread = make_result(1e5, loss_ratio=0.3)
    assert judge(spread, host(dut=stolen_s), 1e5) == ()
    reasons = judge(cluster, host(dut=stolen_s), 1e5)
    assert (reasons == ()) is (stolen_s == 0)
    if reasons:
        assert "2 of 100 bins show a stall" in reasons[0]


def test_a_single_tick_spoils_a_trial_when_a_few_packets_waited_for_milliseconds() -> None:
    late = with_bins(CLEAN, slice(40, 41), delay_ns=8e6)
    assert judge(late, QUIET, 1e5) == ()
    assert "1 of 100 bins" in judge(late, host(dut=0.01), 1e5)[0]


def test_an_idle_cpu_that_wakes_up_is_no_stall() -> None:
    assert stalls(with_bins(CLEAN, slice(40, 41), delay_ns=900_000).series) == 0


def test_what_most_bins_show_is_the_device_itself() -> None:
    assert stalls(make_result(1e5, loss_ratio=0.9, delay_mean_ns=3e6).series) == 0
    assert stalls(with_bins(CLEAN, slice(0, 30), delay_ns=9e6).series) == 0


def test_a_stall_in_deep_overload_is_seen_as_well() -> None:
    overload = make_result(1e5, loss_ratio=0.5, delay_mean_ns=3e5)
    assert stalls(with_bins(overload, slice(10, 12), received=0).series) == 2


def test_bins_without_packets_show_nothing() -> None:
    series = CLEAN.series
    empty = replace(series, sent=np.zeros_like(series.sent), received=np.zeros_like(series.received))
    assert stalls(empty) == 0
    nothing_arrived = make_result(1e5, loss_ratio=1.0)
    assert stalls(nothing_arrived.series) == 0


def test_a_sender_behind_its_schedule_is_late_beyond_one_percent() -> None:
    assert judge(make_result(1e5, slipped_ns=10_000_000), QUIET, 1e5) == ()
    (reason,) = judge(make_result(0.98e5, slipped_ns=20_000_000), QUIET, 1e5)
    assert reason == "sender late: 20.0 ms behind its schedule in 1.00 s (at most 1.0 %)"


@pytest.mark.parametrize(("achieved", "valid"), [(0.991e5, True), (0.98e5, False), (1.02e5, False)])
def test_a_load_off_nominal_by_more_than_one_percent_is_invalid(achieved: float, valid: bool) -> None:
    reasons = judge(make_result(achieved), QUIET, 1e5)
    assert (reasons == ()) is valid
    if not valid:
        assert "off nominal" in reasons[0]


def test_as_fast_as_possible_cannot_be_late() -> None:
    assert judge(make_result(5e6, duration_s=0.1, slipped_ns=10**9), QUIET, math.inf) == ()


def test_few_packets_may_miss_the_window_by_one() -> None:
    assert judge(make_result(9), QUIET, 10) == ()
    assert judge(make_result(5), QUIET, 10) != ()


def test_random_arrivals_may_scatter_as_chance_does() -> None:
    assert judge(make_result(10_300), QUIET, 10_000) != ()
    assert judge(make_result(10_300), QUIET, 10_000, regular=False) == ()
    assert judge(make_result(10_500), QUIET, 10_000, regular=False) != ()


@pytest.mark.parametrize("name", ["out_tx_dropped", "rx_rx_dropped", "rx_rx_errors"])
def test_frames_dropped_behind_the_device_are_false_loss(name: str) -> None:
    lossy = make_result(1e5, loss_ratio=0.01)
    (reason,) = judge(lossy, QUIET, 1e5, counters={name: 7, "in_rx_dropped": 9000})
    assert reason == f"frames dropped at the receiver: {name} 7"


def test_drops_of_the_receivers_socket_and_of_the_backlog_are_false_loss() -> None:
    lossy = replace(make_result(1e5, loss_ratio=0.01), receiver_dropped=3)
    (reason,) = judge(lossy, host(softnet_dropped=4), 1e5)
    assert "receiver_dropped 3, softnet_dropped 4" in reason


def test_drops_in_a_trial_without_loss_were_no_probes() -> None:
    assert judge(CLEAN, host(softnet_dropped=4), 1e5, counters={"out_tx_dropped": 7}) == ()


def test_drops_within_the_device_are_a_result() -> None:
    overload = make_result(1e5, loss_ratio=0.5)
    assert judge(overload, QUIET, 1e5, counters={"in_rx_dropped": 50_000}) == ()


def test_nothing_sent_and_nothing_received_are_told_apart() -> None:
    assert judge(make_result(0), QUIET, 1e5) == ("the sender sent nothing in the recorded window",)
    nothing = make_result(1e5, loss_ratio=1.0)
    assert "nothing arrived at the receiver" in judge(nothing, QUIET, 1e5)
    (changed, *_) = judge(replace(nothing, stray=nothing.sent), QUIET, 1e5)
    assert f"{nothing.sent:,} other frames: the device changes" in changed


def test_flows_that_change_their_receive_queue_make_a_trial_invalid() -> None:
    result = make_result(1e5)
    assert judge(result, QUIET, 1e5) == ()
    (reason,) = judge(replace(result, moved=3), QUIET, 1e5)
    assert reason.startswith("3 packets came in another receive queue")


def test_every_reason_is_given() -> None:
    spoiled = make_result(0.9e5, loss_ratio=0.1, slipped_ns=10**8)
    assert len(judge(spoiled, host(dut=0.1, sender=0.1, softnet_dropped=1), 1e5)) == 4


def test_limits_can_be_widened() -> None:
    wide = ValidityLimits(steal_ratio=0.5, late_ratio=0.5, pacing_ratio=0.5, receiver_drops=10)
    spoiled = make_result(0.9e5, loss_ratio=0.1, slipped_ns=10**8)
    assert judge(spoiled, host(dut=0.1, softnet_dropped=1), 1e5, wide) == ()


@pytest.mark.parametrize(
    ("waited_s", "management_s", "valid"),
    [(0.02, None, False), (0.02, 0.02, True), (0.02, 0.03, True), (0.02, 0.001, False)],
)
def test_waiting_for_the_management_session_is_the_devices_own_business(
    waited_s: float, management_s: float | None, valid: bool
) -> None:
    host = HostSample(wall_s=1.0, cpu_s={}, dut_wait_s=waited_s, management_s=management_s)
    reasons = judge(make_result(1e5), host, 1e5)
    assert (not reasons) == valid
    if management_s and not valid:
        assert reasons[0].startswith("other work had the device's CPU for 19.00 ms")
