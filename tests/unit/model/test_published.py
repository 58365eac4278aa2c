"""The published measurements of a firewall that nobody here has touched.

N. Lohmiller, "Modeling and Simulation of the Performance Impact of Network Security
Mechanisms on Network Traffic", master thesis, Tübingen 2022: an industrial PC with iptables,
64-256 B frames, offered load up to 694,000 packets/s. From the loss at 0 and at 1000 rules
alone the law of the service time must tell the rest.
"""

import numpy as np
import pytest

from weirlab.model.queueing import waiting
from weirlab.model.queueing.service import ServiceTime, fit_service

OFFERED_PPS = 694_000.0
LOSS = {0: 0.2083, 1000: 0.896}
THRESHOLD_PPS = {0: (580_000, 633_000), 400: (160_000, 160_000), 1000: (72_000, 72_080)}
OVERLOAD_DELAY_NS = {0: 459_910.0, 1000: 3_155_560.0}
FRAME = np.array(160.0)


@pytest.fixture(scope="module")
def service() -> ServiceTime:
    positions = np.array(list(LOSS), dtype=np.float64)
    forwarded = OFFERED_PPS * (1 - np.array(list(LOSS.values())))
    return fit_service(positions, np.full(2, float(FRAME)), forwarded)


def test_two_losses_give_the_service_time(service: ServiceTime) -> None:
    assert service.fixed_ns == pytest.approx(1820, rel=0.01)
    assert service.per_rule_ns == pytest.approx(12.0, rel=0.01)


@pytest.mark.parametrize(("rules", "limit"), [(0, 0.08), (400, 0.08), (1000, 0.005)])
def test_thresholds_are_predicted(service: ServiceTime, rules: int, limit: float) -> None:
    low, high = THRESHOLD_PPS[rules]
    found = 1e9 / float(service.ns(np.array(float(rules)), FRAME))
    assert low * (1 - limit) <= found <= high * (1 + limit)


def test_the_delay_in_overload_at_1000_rules_follows_from_that_without(service: ServiceTime) -> None:
    without, with_rules = (float(service.ns(np.array(float(n)), FRAME)) for n in (0, 1000))
    queue_packets = OVERLOAD_DELAY_NS[0] / without
    assert queue_packets == pytest.approx(253, rel=0.01)
    assert queue_packets * with_rules == pytest.approx(OVERLOAD_DELAY_NS[1000], rel=0.15)


@pytest.mark.parametrize("rules", list(LOSS))
def test_the_loss_at_the_highest_load_is_that_of_the_queue(service: ServiceTime, rules: int) -> None:
    rho = OFFERED_PPS * service.ns(np.array(float(rules)), FRAME) / 1e9
    assert float(waiting.loss_ratio(rho, 0.1, 253.0)) == pytest.approx(LOSS[rules], abs=0.01)
