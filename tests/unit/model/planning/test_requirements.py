from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.model.planning.requirements import (
    NO_LOSS,
    QuantityLimit,
    Requirement,
    for_calls,
    for_class,
    limits,
    parse_limit,
)


@pytest.mark.parametrize(
    ("text", "quantity", "at_most"),
    [
        ("p99<1ms", "delay_p99_ns", 1e6),
        ("p99.9 <= 2 ms", "delay_p999_ns", 2e6),
        ("mean<80us", "delay_mean_ns", 8e4),
        ("Median<80µs", "delay_p50_ns", 8e4),
        ("jitter<500ns", "jitter_ns", 500),
        ("loss<0.1%", "loss_ratio", 1e-3),
        ("loss<=0.02", "loss_ratio", 0.02),
        ("loss=0", "loss_ratio", NO_LOSS),
    ],
)
def test_limits_are_read(text: str, quantity: str, at_most: float) -> None:
    limit = parse_limit(text)
    assert limit.quantity == quantity
    assert limit.at_most == pytest.approx(at_most)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("p98<1ms", "accepted are"),
        ("delay>1ms", "accepted are"),
        ("", "accepted are"),
        ("p99<1", "needs a unit of time"),
        ("p99<1%", "needs a unit of time"),
        ("p99<0ms", "above 0"),
        ("loss<1ms", "ratio or a percentage"),
        ("loss<100%", "demands nothing"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parse_limit(text)


def test_a_cyclic_class_gives_the_device_half_of_its_cycle_and_no_loss() -> None:
    found = {limit.quantity: limit.at_most for limit in for_class("cyclic", 4.0).limits}
    assert found == {"delay_p999_ns": 2e6, "loss_ratio": NO_LOSS}


def test_the_share_of_the_cycle_can_be_chosen() -> None:
    assert for_class("isochronous", 1.0, share=0.1).limits[0].at_most == pytest.approx(1e5)


def test_acyclic_traffic_has_no_bound_of_delay() -> None:
    assert [limit.quantity for limit in for_class("acyclic").limits] == ["loss_ratio"]


@pytest.mark.parametrize(
    ("name", "cycle", "share", "complaint"),
    [
        ("cyclic", None, 0.5, "needs its cycle"),
        ("cyclic", 1.9, 0.5, "2 to 20 ms"),
        ("cyclic", 20.1, 0.5, "2 to 20 ms"),
        ("isochronous", 2.0, 0.5, "below 2 ms"),
        ("acyclic", 4.0, 0.5, "no cycle"),
        ("cyclic", 4.0, 0.0, "above 0"),
        ("cyclic", 4.0, 1.5, "at most 1"),
    ],
)
def test_a_cycle_of_another_class_is_refused(name: str, cycle: float, share: float, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        for_class(name, cycle, share)  # type: ignore[arg-type]


@pytest.mark.parametrize(("packet_ms", "network_ms"), [(10, 100), (20, 70)])
def test_calls_leave_the_network_what_g114_says(packet_ms: float, network_ms: float) -> None:
    """ITU-T G.114, appendix II.2: terminals take 50 ms with packets of 10 ms, 80 ms with 20 ms."""
    delay, loss = for_calls(packet_ms, share=1.0).limits
    assert delay.at_most == pytest.approx(network_ms * 1e6)
    assert loss.at_most == 1e-3


def test_packets_too_long_for_a_conversation_are_refused() -> None:
    with pytest.raises(InputError, match="shorter packets"):
        for_calls(60)


def test_of_several_limits_to_one_quantity_the_tightest_counts() -> None:
    both = (Requirement("a", (parse_limit("loss<1%"), parse_limit("p99<2ms"))), for_class("cyclic", 2.0))
    assert [(limit.quantity, limit.at_most) for limit in limits(both)] == [
        ("delay_p99_ns", 2e6),
        ("delay_p999_ns", 1e6),
        ("loss_ratio", NO_LOSS),
    ]


def test_limits_say_what_they_demand() -> None:
    assert QuantityLimit("delay_p99_ns", 1e6).text == "p99 delay at most 1 ms"
    assert QuantityLimit("loss_ratio", NO_LOSS).text == "no loss"
    assert QuantityLimit("loss_ratio", 0.001).text == "loss at most 0.1 %"
