"""What listening to the CPUs would say."""

from __future__ import annotations

from weirlab.measure.noise import Noise


def make_noise(undisturbed_ratio: float = 1.0) -> Noise:
    """Of a machine where this share of short trials is undisturbed."""
    nothing = {"sender": 0.0, "dut": 0.0}
    return Noise(2.0, nothing, nothing, nothing, undisturbed_ratio, real_time=True)
