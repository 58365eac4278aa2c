"""The tests of RFC 2544 beside throughput: latency (section 26.2), frame loss rate (26.3) and
back-to-back frames (26.4, with RFC 9004). Throughput (26.1) is :mod:`weirlab.measure.search`.
"""

from weirlab.devices.search.rfc2544.bursts import BackToBackResult, longest_bursts
from weirlab.devices.search.rfc2544.latency import LatencyResult, latency
from weirlab.devices.search.rfc2544.loss import LossCurve, LossPoint, loss_curve
from weirlab.devices.search.rfc2544.suite import (
    FRAME_BYTES,
    STRICT,
    TESTS,
    Result,
    Rfc2544Suite,
    Test,
    run_suite,
)

__all__ = [
    "FRAME_BYTES", "STRICT", "TESTS", "BackToBackResult", "LatencyResult", "LossCurve", "LossPoint",
    "Result", "Rfc2544Suite", "Test", "latency", "longest_bursts", "loss_curve", "run_suite",
]  # fmt: skip
