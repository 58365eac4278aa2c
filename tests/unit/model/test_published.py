"""The published measurements of a firewall that nobody here has touched, from the data file.

From the loss at 0 and at 1000 rules alone the law of the service time must tell most of the rest.
"""

import numpy as np
import pytest

from weirlab.model.queueing import waiting
from weirlab.model.queueing.service import ServiceTime, fit_service
from weirlab.publications import publication

PUBLISHED = publication("lohmiller-2022")
THRESHOLD = PUBLISHED.experiments["threshold"]
OFFERED_PPS = PUBLISHED.number("traffic", "pps-highest")
LOSS = {rules: loss / 100 for rules, loss in PUBLISHED.experiments["loss"].series("largest").items()}
OVERLOAD_DELAY_NS = {
    rules: 1e3 * us for rules, us in PUBLISHED.experiments["overload-latency"].series("latency").items()
}
RANGES = {
    0.0: (THRESHOLD.values["measured-0"].low, THRESHOLD.values["measured-0"].high),
    400.0: (THRESHOLD.series("measured")[400.0],) * 2,
    1000.0: (THRESHOLD.values["measured-1000"].low, THRESHOLD.values["measured-1000"].high),
}
FRAME = np.array(160.0)


@pytest.fixture(scope="module")
def service() -> ServiceTime:
    positions = np.array(list(LOSS), dtype=np.float64)
    forwarded = OFFERED_PPS * (1 - np.array(list(LOSS.values())))
    return fit_service(positions, np.full(2, float(FRAME)), forwarded)


def test_two_losses_give_the_service_time(service: ServiceTime) -> None:
    assert service.fixed_ns == pytest.approx(1820, rel=0.01)
    assert service.per_rule_ns == pytest.approx(12.0, rel=0.01)


@pytest.mark.parametrize(("rules", "limit"), [(0.0, 0.08), (400.0, 0.08), (1000.0, 0.005)])
def test_thresholds_are_predicted(service: ServiceTime, rules: float, limit: float) -> None:
    low, high = RANGES[rules]
    found = 1e9 / float(service.ns(np.array(rules), FRAME))
    assert low * (1 - limit) <= found <= high * (1 + limit)


def test_the_delay_in_overload_at_1000_rules_follows_from_that_without(service: ServiceTime) -> None:
    without, with_rules = (float(service.ns(np.array(n), FRAME)) for n in (0.0, 1000.0))
    queue_packets = OVERLOAD_DELAY_NS[0.0] / without
    assert queue_packets == pytest.approx(253, rel=0.01)
    assert queue_packets * with_rules == pytest.approx(OVERLOAD_DELAY_NS[1000.0], rel=0.15)


@pytest.mark.parametrize("rules", list(LOSS))
def test_the_loss_at_the_highest_load_is_that_of_the_queue(service: ServiceTime, rules: float) -> None:
    rho = OFFERED_PPS * service.ns(np.array(rules), FRAME) / 1e9
    assert float(waiting.loss_ratio(rho, 0.1, 253.0)) == pytest.approx(LOSS[rules], abs=0.01)
