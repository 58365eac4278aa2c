"""Host readings: CPU time by state, softnet drops, frequency, temperature, memory.

Readings are cumulative since the machine started; a trial takes the difference of two
(frequency, temperature and memory are momentary values).

On the device's CPU the engine keeps a thread of class SCHED_IDLE spinning while a trial
runs, because a virtual CPU that goes idle takes long to wake. The kernel accounts for it
as ``nice``, although for the device that CPU was free. So ``nice`` time of that CPU during
a trial is reported as ``idle_poll``, also counted as ``idle``, and left out of ``nice``.
Another process with a positive nice value on that CPU would be indistinguishable;
``nice`` time outside of trials stays ``nice``.

A trial that loses packets waits for them after the last departure. That time is left out of
``idle``: the CPUs of an overloaded device would seem half idle.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weirlab.lab.cores import threads_of
from weirlab.records import HostSample

STATES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""In the order of /proc/stat."""

_PROCESSOR_ZONES: Final = ("x86_pkg_temp", "cpu", "soc", "acpitz")
"""Prefixes of the thermal zone types that belong to the processor, best first."""


class HostReader:
    """Reads the host's state for the CPUs of the given roles (``sender``, ``dut``).

    Parameters
    ----------
    cpus:
        CPU number per role.
    polled:
        Role whose CPU is kept awake during trials; see the module docstring.
    proc, sys:
        Where the kernel's file systems are mounted.
    handover:
        Measures how long a cache line takes between two CPUs and back, in ns.
    """

    def __init__(
        self,
        cpus: Mapping[str, int],
        polled: str = "dut",
        *,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        handover: Callable[[int, int], float | None] | None = None,
    ) -> None:
        self._cpus = dict(cpus)
        self._polled = polled
        self._proc = proc
        self._sys = sys
        self._handover = handover
        self._threads: list[int] = []
        self._processes: list[int] = []
        self._spent_ns: dict[int, tuple[int, int]] = {}
        self._waited_ns = 0
        self._poll_s = self._polled_s = 0.0
        self._left_out_s = self._poll_left_out_s = 0.0
        self._management_s: Callable[[], float] | None = None

    def sample(self) -> HostSample:
        """Take all readings now."""
        stat = self._cpu_times()
        cpu_s = {role: dict(stat.get(cpu, {})) for role, cpu in self._cpus.items()}
        if states := cpu_s.get(self._polled):
            states["nice"] = max(states["nice"] - self._poll_s, 0.0)
            states["idle"] += self._poll_s
            states["idle_poll"] = self._poll_s - self._poll_left_out_s
        for states in cpu_s.values():
            if "idle" in states:
                states["idle"] = max(states["idle"] - self._left_out_s, 0.0)
        # First, because the answer waits for the session's current work.
        management_s = None if self._management_s is None else self._management_s()
        dropped, squeezed = self._softnet(self._cpus.get(self._polled, -1))
        return HostSample(
            wall_s=time.monotonic(),
            cpu_s=cpu_s,
            frequency_mhz=self._frequency_mhz(),
            temperature_c=self._temperature_c(),
            memory_used_bytes=self._memory_used_bytes(),
            softnet_dropped=dropped,
            softnet_squeezed=squeezed,
            dut_wait_s=self._wait_s(),
            handover_ns=self.handover_ns(),
            management_s=management_s,
        )

    def watch(self, threads: Sequence[int], processes: Sequence[int] = ()) -> None:
        """Include in samples from now on how long the device (these threads, and all threads of these
        processes) had to wait.

        Processes may start and end threads in between.
        """
        self._threads, self._processes = list(threads), list(processes)
        self._spent_ns, self._waited_ns = {}, 0

    def manage(self, cpu_s: Callable[[], float] | None) -> None:
        """Include in samples what a management session took of the device's CPU time; None for none."""
        self._management_s = cpu_s

    def _wait_s(self) -> float | None:
        """Time that other work kept the device from running, as far as the scheduler's statistics
        (/proc/PID/schedstat) prove it; None without threads, or if the kernel does not report it.

        Threads that share a CPU, one for each direction of the traffic, also wait for one another, which is
        the device's own doing. Only what a thread waited between two samples beyond the time that the others
        ran was caused by other work.
        """
        try:
            spent = {thread: self._schedstat(thread) for thread in self._threads}
            for thread in (each for process in self._processes for each in threads_of(process, self._proc)):
                # The thread may have ended since it was listed.
                with suppress(OSError):
                    spent[thread] = self._schedstat(thread)
        except (OSError, ValueError, IndexError):
            return None
        if not spent:
            return None
        since = {
            thread: (ran - before[0], waited - before[1])
            for thread, (ran, waited) in spent.items()
            # A new thread did everything since the last sample.
            if (before := self._spent_ns.get(thread, (0, 0) if self._spent_ns else None)) is not None
        }
        all_ran = sum(ran for ran, _ in since.values())
        beyond = [max(waited - (all_ran - ran), 0) for ran, waited in since.values()]
        # Threads of one daemon wait for the same thing at the same time.
        self._waited_ns += max(beyond, default=0) if self._processes else sum(beyond)
        self._spent_ns = spent
        return self._waited_ns / 1e9

    def _schedstat(self, thread: int) -> tuple[int, int]:
        """Time in ns that a thread spent on a CPU and on a run queue."""
        ran, waited, *_ = (self._proc / str(thread) / "schedstat").read_text().split()
        return int(ran), int(waited)

    def handover_ns(self) -> float | None:
        """Measure the handover between the CPUs of sender and device; takes about a millisecond."""
        sender, dut = self._cpus.get("sender"), self._cpus.get("dut")
        if self._handover is None or sender is None or dut is None or sender == dut:
            return None
        return self._handover(sender, dut)

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Counts the ``nice`` time that accrues inside on the polled CPU as ``idle_poll``."""
        before = self._nice_s()
        try:
            yield
        finally:
            self._polled_s = self._nice_s() - before
            self._poll_s += self._polled_s

    def leave_out(self, waited_s: float) -> None:
        """Leave out of ``idle`` the end of a trial, in which it only waited for packets."""
        waited_s = max(waited_s, 0.0)
        self._left_out_s += waited_s
        self._poll_left_out_s += min(waited_s, self._polled_s)

    def _nice_s(self) -> float:
        return self._cpu_times().get(self._cpus.get(self._polled, -1), {}).get("nice", 0.0)

    def _cpu_times(self) -> dict[int, dict[str, float]]:
        """Seconds per state and CPU number."""
        ticks_per_s = os.sysconf("SC_CLK_TCK")
        times: dict[int, dict[str, float]] = {}
        for line in (self._proc / "stat").read_text().splitlines():
            name, *values = line.split()
            if name.startswith("cpu") and name != "cpu":
                ticks = map(int, values[: len(STATES)])
                times[int(name[3:])] = {
                    state: tick / ticks_per_s for state, tick in zip(STATES, ticks, strict=False)
                }
        return times

    def _softnet(self, cpu: int) -> tuple[int, int]:
        """Frames dropped from the backlog of ``cpu``, and polls that ran out of budget."""
        with suppress(OSError):
            for number, line in enumerate((self._proc / "net/softnet_stat").read_text().splitlines()):
                values = [int(value, 16) for value in line.split()]
                # There is a line per online CPU; since Linux 5.10 the 13th column has its number.
                if (values[12] if len(values) > 12 else number) == cpu:
                    return values[1], values[2]
        return 0, 0

    def _frequency_mhz(self) -> float | None:
        """Frequency of the device's CPU, if the kernel knows it; on virtual machines it often does not."""
        cpu = self._cpus.get(self._polled)
        khz = _number(self._sys / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")
        return None if khz is None else khz / 1e3

    def _temperature_c(self) -> float | None:
        """Temperature of the processor's hottest thermal zone, or of any zone if none is known to be its."""
        zones: list[tuple[str, float]] = []
        for path in sorted((self._sys / "class/thermal").glob("thermal_zone*")):
            with suppress(OSError):
                millidegrees = _number(path / "temp")
                if millidegrees is not None:
                    zones.append(((path / "type").read_text().strip().lower(), millidegrees / 1e3))
        for beginning in _PROCESSOR_ZONES:
            if found := [celsius for kind, celsius in zones if kind.startswith(beginning)]:
                return max(found)
        return max((celsius for _, celsius in zones), default=None)

    def _memory_used_bytes(self) -> int | None:
        kib: dict[str, int] = {}
        with suppress(OSError, ValueError):
            for line in (self._proc / "meminfo").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in ("MemTotal", "MemAvailable"):
                    kib[name] = int(value.split()[0])
        if len(kib) < 2:
            return None
        return (kib["MemTotal"] - kib["MemAvailable"]) * 1024


def _number(path: Path) -> float | None:
    """The number in a file of /sys; None if it does not exist or cannot be read."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None
