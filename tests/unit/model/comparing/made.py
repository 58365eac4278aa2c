"""Profiles of a made-up device on a noisy host, with scatter as it was measured on a real one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weirlab.records import Observation

POSITIONS = (0, 50, 100, 200, 280, 400, 700, 1000)
FRAMES = (64, 512, 1518)
SHARES = (0.05, 0.17, 0.29, 0.41, 0.53, 0.65, 0.77, 0.85, 0.95, 1.35, 2.0)


@dataclass(frozen=True)
class Host:
    """Standard deviations of logarithms: of a run, of a setting in a run, and of a trial."""

    run: float = 0.014
    delay_run: float = 0.006
    p99_run: float = 0.008
    place: float = 0.005
    delay_place: float = 0.015
    p99_place: float = 0.03
    trial: float = 0.03
    delay_trial: float = 0.07
    p99_trial: float = 0.14
    spoiled: float = 0.05
    """Share of the trials that something held up without anyone noticing."""
    lossy: float = 0.01
    """Share of the trials below the threshold that lose packets to the host."""


NOISY = Host()
QUIET = Host(*[0.0] * 11)


def profile(
    draw: np.random.Generator,
    *,
    slower: float = 1.0,
    host: Host = NOISY,
    repetitions: int = 2,
    positions: tuple[int, ...] = POSITIONS,
    frames: tuple[int, ...] = FRAMES,
    new_loss: float = 0.0,
) -> list[Observation]:
    """A run: every packet takes ``slower`` times as long as through the usual device."""

    def scattered(sigma: float) -> float:
        return float(np.exp(draw.normal(0.0, sigma)))

    speed, late, tail = (scattered(sigma) for sigma in (host.run, host.delay_run, host.p99_run))
    seen = []
    for position in positions:
        for frame in frames:
            service_ns = (700 + 1.7 * position + 0.1 * frame) * slower
            own, own_late, own_tail = (
                scattered(sigma) for sigma in (host.place, host.delay_place, host.p99_place)
            )
            threshold = 1e9 / (service_ns * speed * own)
            scouted = threshold * scattered(host.trial)
            for share in SHARES:
                for _ in range(repetitions):
                    tails = late * own_late * tail * own_tail
                    load = share * scouted
                    trial = _trial(
                        draw, host, position, frame, load, threshold, late * own_late, tails, new_loss
                    )
                    seen.append(trial)
    return seen


def _trial(
    draw: np.random.Generator,
    host: Host,
    position: int,
    frame: int,
    rate_pps: float,
    threshold_pps: float,
    late: float,
    tail: float,
    new_loss: float,
) -> Observation:
    held_up = draw.uniform(1.1, 2.0) if draw.uniform() < host.spoiled else 1.0
    carries = threshold_pps * float(np.exp(draw.normal(0.0, host.trial))) / held_up
    service_ns = 1e9 / threshold_pps
    if rate_pps > threshold_pps:
        forwarding = min(carries, rate_pps)
        mean_ns = 5_000 + 256e9 / forwarding
        p99_ns = mean_ns * 1.1
    else:
        lost = draw.uniform(0.0, 0.04) if draw.uniform() < host.lossy else 0.0
        forwarding = rate_pps * (1 - max(lost, new_loss))
        used = min(rate_pps / threshold_pps, 0.98)
        mean_ns = (5_000 + service_ns * (1 + used / (2 * (1 - used)))) * late
        p99_ns = (8_000 + service_ns * (1 + 3 * used / (1 - used))) * tail
    return Observation(
        rate_pps=rate_pps,
        frame_bytes=float(frame),
        position=float(position),
        forwarding_pps=forwarding,
        loss_ratio=1 - forwarding / rate_pps,
        delay_mean_ns=mean_ns * held_up * float(np.exp(draw.normal(0.0, host.delay_trial))),
        delay_p50_ns=mean_ns,
        delay_p90_ns=mean_ns,
        delay_p99_ns=p99_ns * held_up * float(np.exp(draw.normal(0.0, host.p99_trial))),
        jitter_ns=mean_ns / 10,
        packets=round(rate_pps * 0.1),
    )
