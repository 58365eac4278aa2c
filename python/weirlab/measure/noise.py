"""How quiet the CPUs of sender and device are, listened to before any trial.

On the sender's CPU a thread reads the clock without pause, as a sender does; if the clock jumps, the CPU did
other work, or the host of a virtual machine took it. On the device's CPU a thread wakes up ten times a
millisecond, as a device does for its packets; if it wakes up late, something else had the CPU. These times
show what share of trials would count by the limits that judge their bins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from weirlab.base.quantities import percent
from weirlab.lab.cores import Cores
from weirlab.lab.finding import Finding
from weirlab.lab.host import HostReader
from weirlab.measure.validity import CAREFUL_LIMITS, ValidityLimits
from weirlab.measure.verdict import Word, word
from weirlab.measure.windows import CATCH_UP, TOLERANCE
from weirlab.records import U64
from weirlab.traffic.plan import BIN_NS

TRIAL_S: Final = 0.1
"""Length of the trials that the verdict is about: the shortest that profiles make."""

STRETCH_S: Final = 0.5
"""Length of one stretch of listening: as long as a short trial, so that the threads can be real time."""

STRETCHES: Final = 4
PAUSE_S: Final = 0.06
"""Between two stretches, for ordinary work that waits: it needs 50 ms in a second, or the kernel stops a
real-time thread to give it that time."""

THRESHOLD_NS: Final = 100_000
"""Shorter gaps are interrupts: a measured device has them as well, and they do not count as waiting."""

NAME: Final = "CPU noise"
_ROLES: Final = {"sender": "sender's CPU", "dut": "device's CPU"}


@dataclass(frozen=True)
class CpuGaps:
    """The gaps of one CPU between two times, CLOCK_MONOTONIC ns; arrays of shape (gaps,), in order."""

    start_ns: int
    end_ns: int
    gap_start_ns: U64
    gap_ns: U64
    real_time: bool = True

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True)
class Noise:
    """The result of listening. Mappings are by role: ``sender``, ``dut``."""

    seconds: float
    away_ratio: Mapping[str, float]
    """Share of the time that the CPU was away."""
    longest_s: Mapping[str, float]
    """The longest time that it was away at once."""
    stolen_ratio: Mapping[str, float]
    """Share that the host of a virtual machine took, from the ticks in /proc/stat."""
    undisturbed_ratio: float
    """Share of trials of :data:`TRIAL_S` that neither CPU would spoil."""
    real_time: bool
    """Whether the listening threads had real-time priority, as short trials have where it is allowed."""
    load_average: float = 0.0
    """Of the last minute before, when Weir did not hold the CPUs."""

    @property
    def verdict(self) -> Word:
        return word(self.undisturbed_ratio)


def listen(cores: Cores, sleep: Callable[[float], object] = time.sleep) -> Noise:
    """Listen to the CPUs of ``cores`` for about two seconds, occupying them meanwhile.

    Raises ``OSError`` for a CPU that cannot be used, ``ImportError`` if the engine is not built.
    """
    from weirlab import _engine

    roles = {"sender": cores.sender, "dut": cores.dut}
    heard: dict[str, list[CpuGaps]] = {role: [] for role in roles}
    host = HostReader(roles)
    before = host.sample()
    for _ in range(STRETCHES):
        raw = _engine.listen([cores.sender], [cores.dut], STRETCH_S, THRESHOLD_NS)
        for role, told in zip(roles, raw, strict=True):
            told.pop("cpu")
            heard[role].append(CpuGaps(**told))
        sleep(PAUSE_S)
    after = host.sample()
    wall_s = after.wall_s - before.wall_s
    stolen = {
        role: (after.cpu_s[role].get("steal", 0.0) - before.cpu_s[role].get("steal", 0.0)) / wall_s
        for role in roles
    }
    return replace(summarize(heard, stolen), load_average=os.getloadavg()[0])


def summarize(
    heard: Mapping[str, Sequence[CpuGaps]],
    stolen_ratio: Mapping[str, float],
    limits: ValidityLimits = CAREFUL_LIMITS,
    trial_s: float = TRIAL_S,
) -> Noise:
    """What stretches of both CPUs, one after the other and in parallel, say of trials to come."""
    everything = [stretch for stretches in heard.values() for stretch in stretches]
    undisturbed = [
        _undisturbed(sender, dut, limits, trial_s)
        for sender, dut in zip(heard["sender"], heard["dut"], strict=True)
    ]
    return Noise(
        seconds=sum(stretch.seconds for stretch in heard["dut"]),
        away_ratio={
            role: sum(float(each.gap_ns.sum()) for each in own) / 1e9 / sum(each.seconds for each in own)
            for role, own in heard.items()
        },
        longest_s={
            role: max((float(each.gap_ns.max()) for each in own if len(each.gap_ns)), default=0.0) / 1e9
            for role, own in heard.items()
        },
        stolen_ratio=stolen_ratio,
        undisturbed_ratio=float(np.mean(np.concatenate(undisturbed))),
        real_time=all(stretch.real_time for stretch in everything),
    )


def finding(noise: Noise) -> Finding:
    """The finding for ``weir doctor``."""
    share = f"{percent(noise.undisturbed_ratio)} of trials of {TRIAL_S:g} s would count"
    longest = ", ".join(f"{noise.longest_s[role] * 1e3:.1f} ms ({name})" for role, name in _ROLES.items())
    detail = f"{noise.verdict}: {share}; longest pause {longest}"
    return Finding(NAME, noise.verdict == "good", detail, _remedy(noise), essential=False)


def lead(noise: Noise) -> str:
    """The verdict, for the first line."""
    return f"Machine {noise.verdict}: {percent(noise.undisturbed_ratio)} of short trials would count."


def sentence(noise: Noise) -> str:
    """What it means for measuring now; empty if the machine is quiet."""
    share = f"{percent(noise.undisturbed_ratio)} of short trials would count"
    match noise.verdict:
        case "good" if noise.load_average > (cpus := os.cpu_count() or 1):
            return (
                f"Other work wants the CPUs (load average {noise.load_average:.1f} on {cpus}): it may spoil "
                "trials although it did not while Weir listened."
            )
        case "good":
            return ""
        case "usable":
            times = 1 / noise.undisturbed_ratio
            return f"This machine is noisy now: only {share}, so measuring takes {times:.1f} times as long."
        case "not usable":
            return (
                f"This machine is not usable for measuring now: only {share}. {_remedy(noise).capitalize()}, "
                "or measure for a noisy machine with wider intervals: weir profile --machine noisy."
            )


def _remedy(noise: Noise) -> str:
    stolen = max(noise.stolen_ratio.values())
    if stolen > max(noise.away_ratio.values()) / 2:
        return f"the host took {percent(stolen)} of a CPU's time: try another hour or another machine"
    load = os.getloadavg()[0]
    return f"stop other work on this machine (load average {load:.1f}) and run weir doctor again"


def _undisturbed(
    sender: CpuGaps, dut: CpuGaps, limits: ValidityLimits, trial_s: float
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether enough of a trial that begins at each bin would count; it has bins of the usual width."""
    first, last = max(sender.start_ns, dut.start_ns), min(sender.end_ns, dut.end_ns)
    n_bins = max((last - first) // BIN_NS, 1)
    length = min(max(round(trial_s * 1e9) // BIN_NS, 1), n_bins)
    late_ns = TOLERANCE.late_ratio * BIN_NS
    # Waiting of the device shows in the next bin; a late sender makes up for its delay.
    touched = _touched(dut, first, n_bins, TOLERANCE.wait_ns, BIN_NS)
    touched |= _touched(sender, first, n_bins, late_ns, CATCH_UP * late_ns)
    left_out = np.convolve(touched, np.ones(length), mode="valid")
    return np.asarray(left_out <= limits.left_out_ratio * length)


def _touched(
    stretch: CpuGaps, first_ns: int, n_bins: int, least_ns: float, after_ns: float
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which bins are spoiled by gaps of at least ``least_ns`` and for ``after_ns`` after them."""
    touched = np.zeros(n_bins, np.bool_)
    begins = stretch.gap_start_ns.astype(np.float64) - first_ns
    for begin, gap in zip(begins, stretch.gap_ns.astype(np.float64), strict=True):
        if gap >= least_ns:
            touched[max(int(begin // BIN_NS), 0) : max(int((begin + gap + after_ns) // BIN_NS) + 1, 0)] = True
    return touched
