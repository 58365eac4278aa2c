from __future__ import annotations

import json

import pytest

import esp


def lines(fixed_ns: float, per_byte_ns: float, noise: tuple[float, ...]) -> str:
    """What the benchmark prints of a packet that costs exactly this, but for ``noise`` of each round."""
    return "\n".join(
        json.dumps(
            {
                "round": number,
                "suite": "aes-gcm-16",
                "mode": "tunnel",
                "way": "in",
                "bytes": size,
                "ns": (fixed_ns + per_byte_ns * size) * factor,
            }
        )
        for number, factor in enumerate(noise)
        for size in (64, 200, 520, 1400)
    )


def test_the_line_that_was_put_in_is_found() -> None:
    ((key, sizes),) = esp.samples(lines(90.0, 0.4, (1.0,) * 10)).items()
    found = esp.fit(key, sizes)
    assert (found.suite, found.mode, found.way) == ("aes-gcm-16", "tunnel", "in")
    assert found.fixed_ns == pytest.approx(90)
    assert found.per_byte_ns == pytest.approx(0.4)
    assert found.voice_ns == pytest.approx(170)
    assert found.worst_residual < 1e-9


def test_a_disturbed_round_widens_the_interval_and_moves_no_median() -> None:
    noise = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.0, 30.0)
    ((key, sizes),) = esp.samples(lines(90.0, 0.4, noise)).items()
    found = esp.fit(key, sizes)
    assert found.voice_ns == pytest.approx(170, rel=0.01)
    low, high = found.voice_ns_interval
    assert low < 170 < high
