"""Back-to-back frames: the longest burst without loss (RFC 2544 section 26.4, RFC 9004).

A burst of N frames is a trial without warm-up that ends between the departures of frame N
and the one that would follow: at ``rate_pps`` with equal gaps, N - 1/2 gaps after the
first. The frames are paced at the highest rate that the sender keeps up with exactly,
rather than sent as fast as possible, because RFC 9004 needs the rate of the burst to tell
the buffer from what the device forwards meanwhile. What counts is the number of frames
that the sender counted, not the number asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weirlab.base.errors import InputError
from weirlab.measure.search.throughput import SearchShape, Setting, whole
from weirlab.measure.search.trials import SearchTrialRunner
from weirlab.records import TrialSpec

LABEL: Final = "burst"
REPETITIONS: Final = 20
LONGEST_S: Final = 2.0
"""A device that takes bursts of this length without loss needs no buffer for them (RFC 2544)."""

SHORTEST_FRAMES: Final = 2
_FIRST_FRAMES: Final = 64
_FIRST_STEP: Final = 4
_RESOLUTION: Final = 0.002


@dataclass(frozen=True)
class BackToBackResult:
    """The longest bursts without loss in one setting, and the buffer that they show.

    ``frames`` has one value per repetition. 0 means that even the shortest burst lost frames.
    """

    setting: Setting
    rate_pps: float
    """Rate of the frames in a burst."""
    throughput_pps: float
    """Measured throughput, for the correction of RFC 9004."""
    frames: tuple[int, ...]
    at_least: bool
    """The longest burst that was tried passed: the device keeps up with the sender."""

    @property
    def mean_frames(self) -> float:
        return float(np.mean(self.frames))

    @property
    def std_frames(self) -> float:
        """Standard deviation over the repetitions; NaN for a single one."""
        return float(np.std(self.frames, ddof=1)) if len(self.frames) > 1 else float("nan")

    @property
    def implied_buffer_s(self) -> float:
        """Time that the average burst takes (RFC 9004: implied DUT buffer time)."""
        return self.mean_frames / self.rate_pps

    @property
    def corrected_buffer_s(self) -> float:
        """Less what was forwarded meanwhile (RFC 9004: corrected DUT buffer time); NaN if all was."""
        return self.implied_buffer_s * self._kept

    @property
    def buffer_frames(self) -> float:
        """Frames that were waiting in the device at the end of the average burst; NaN if it kept up."""
        return self.mean_frames * self._kept

    @property
    def _kept(self) -> float:
        """Share of a burst that is still in the device at its end."""
        return float("nan") if self.at_least else max(1 - self.throughput_pps / self.rate_pps, 0.0)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.setting.to_json(),
            "rate_pps": self.rate_pps,
            "throughput_pps": self.throughput_pps,
            "frames": self.frames,
            "at_least": self.at_least,
            "mean_frames": self.mean_frames,
            "std_frames": self.std_frames,
            "implied_buffer_s": self.implied_buffer_s,
            "corrected_buffer_s": self.corrected_buffer_s,
            "buffer_frames": self.buffer_frames,
        }


def burst_spec(shape: SearchShape, setting: Setting, rate_pps: float, frames: int) -> TrialSpec:
    """A trial of exactly ``frames`` frames (two or more) at ``rate_pps``."""
    return shape.spec(setting, whole(rate_pps), (frames - 0.5) / round(rate_pps), LABEL, warmup_s=0.0)


def longest_bursts(
    trials: SearchTrialRunner,
    setting: Setting,
    shape: SearchShape,
    rate_pps: float,
    throughput_pps: float,
    *,
    repetitions: int = REPETITIONS,
    longest_s: float = LONGEST_S,
) -> BackToBackResult:
    """Search the longest burst at ``rate_pps`` without loss, ``repetitions`` times.

    The length doubles from one burst to the next until frames are lost, and is then halved
    in between, down to 1 frame or 0.2 %. Repetitions begin at the length found before.

    Raises
    ------
    FailedTrial
        A trial stayed invalid.
    """
    if repetitions < 1:
        raise InputError(f"{repetitions} repetitions of the burst test: at least one is needed")
    if shape.arrivals != "constant":
        raise InputError("frames of a burst follow each other in equal gaps: leave out --arrivals poisson")
    most = max(SHORTEST_FRAMES, math.floor(longest_s * rate_pps))
    search = _BurstSearch(trials, setting, shape, rate_pps, most)
    found: list[int] = []
    for _ in range(repetitions):
        found.append(search.longest(found[-1] if found else None))
        if found[-1] >= most:
            break
    return BackToBackResult(setting, float(round(rate_pps)), throughput_pps, tuple(found), found[-1] >= most)


class _BurstSearch:
    """One setting's bursts of up to ``most`` frames."""

    def __init__(
        self, trials: SearchTrialRunner, setting: Setting, shape: SearchShape, rate_pps: float, most: int
    ) -> None:
        self._trials = trials
        self._setting = setting
        self._shape = shape
        self._rate_pps = rate_pps
        self._most = most

    def longest(self, near: int | None) -> int:
        """Frames of the longest burst that lost nothing; 0 when the shortest one did."""
        low, high = self._bracket(near)
        while high - low > max(1, int(low * _RESOLUTION)):
            asked = (low + high) // 2
            if asked < SHORTEST_FRAMES:
                break
            sent, passed = self._burst(asked)
            if not low < sent < high:
                # The sender cannot tell lengths apart any finer.
                break
            low, high = (sent, high) if passed else (low, sent)
        return low

    def _bracket(self, near: int | None) -> tuple[int, int]:
        """A length that passed (0 for none) and one that did not; equal where ``most`` frames passed."""
        step = _FIRST_STEP
        asked = min(near or _FIRST_FRAMES, self._most)
        low, high = 0, self._most + 1
        while True:
            asked = min(max(asked, SHORTEST_FRAMES), self._most)
            sent, passed = self._burst(asked)
            if passed:
                low = max(low, sent)
                if asked >= self._most:
                    return self._most, self._most
                if high <= self._most:
                    return low, max(high, low + 1)
                asked = 2 * asked if near is None else asked + step
            else:
                high = min(high, sent)
                if low or asked <= SHORTEST_FRAMES:
                    return min(low, high - 1), high
                asked = asked // 2 if near is None else asked - step
            step *= 2

    def _burst(self, frames: int) -> tuple[int, bool]:
        """Frames that were really sent, and whether all of them arrived."""
        spec = burst_spec(self._shape, self._setting, self._rate_pps, frames)
        result = self._trials.run(spec).result
        return result.sent, result.lost <= 0
