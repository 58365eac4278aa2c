"""Samples the device from inside; a separate program, see the package docstring.

Arguments: CPU, period in ns, and the interfaces whose counters to read. Lines on standard input:
``watch`` begins a series of samples, and is answered once the first is taken; ``report`` ends it and
is answered with all of them as JSON; ``cpu`` is answered with the CPU time used so far, in ns. End
of input ends the program.

A sample is due every period. A late sample counts for the time at which it was due; further due times
that had passed by then get none.
"""

import gc
import json
import os
import select
import sys
import time

STAT_BYTES = 1 << 16
COUNTERS = (1, 3, 9, 11)
"""Columns of /proc/net/dev: packets received and dropped there, packets transmitted and dropped there."""


class KernelFiles:
    """Kernel files, kept open: files opened inside report on this namespace."""

    def __init__(self, cpu: int, interfaces: tuple[str, ...]) -> None:
        self.line = b"cpu%d " % cpu
        self.interfaces = [name.encode() for name in interfaces]
        self.stat = os.open("/proc/stat", os.O_RDONLY)
        self.dev = os.open("/proc/thread-self/net/dev", os.O_RDONLY)
        try:
            self.connections: int | None = os.open("/proc/sys/net/netfilter/nf_conntrack_count", os.O_RDONLY)
        except OSError:
            self.connections = None

    def look(self) -> tuple[bytes, bytes, bytes]:
        """Take a sample, unparsed: parsing can wait until the load is over."""
        connections = b"" if self.connections is None else os.pread(self.connections, 32, 0)
        return os.pread(self.stat, STAT_BYTES, 0), connections, os.pread(self.dev, STAT_BYTES, 0)

    def read(self, seen: tuple[bytes, bytes, bytes]) -> dict[str, object]:
        """Parse a sample: ticks per state, connections (None if unknown), and counters per interface."""
        stat, connections, dev = seen
        ticks = next(line for line in stat.splitlines() if line.startswith(self.line)).split()[1:9]
        counters: dict[str, list[int]] = {}
        for line in dev.splitlines():
            name, _, numbers = line.strip().partition(b":")
            if name in self.interfaces:
                columns = numbers.split()
                counters[name.decode()] = [int(columns[column]) for column in COUNTERS]
        return {
            "ticks": [int(number) for number in ticks],
            "connections": int(connections) if connections else None,
            "counters": counters,
        }


def main(cpu: str, period_ns: str, *interfaces: str) -> int:
    """Answer until standard input ends."""
    os.sched_setaffinity(0, {int(cpu)})
    # The parent may have another nice value; a monitoring agent has the default.
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    gc.disable()
    eyes, period = KernelFiles(int(cpu), interfaces), int(period_ns)
    print("ready", flush=True)
    samples: list[tuple[int, int, tuple[bytes, bytes, bytes]]] = []
    due_ns: int | None = None
    answer: str | int
    while True:
        left_s = None if due_ns is None else max(due_ns - time.monotonic_ns(), 0) / 1e9
        if select.select([0], [], [], left_s)[0]:
            line = sys.stdin.buffer.readline().strip()
            if not line:
                return 0
            if line == b"watch":
                now_ns = time.monotonic_ns()
                samples, due_ns = [(now_ns, now_ns, eyes.look())], now_ns + period
                answer = "watching"
            elif line == b"report":
                due_ns = None
                answer = json.dumps([{"due_ns": d, "taken_ns": t, **eyes.read(s)} for d, t, s in samples])
            else:
                answer = time.process_time_ns()
            print(answer, flush=True)
        elif due_ns is not None:
            taken_ns = time.monotonic_ns()
            samples.append((due_ns, taken_ns, eyes.look()))
            due_ns += max((taken_ns - due_ns) // period, 0) * period + period


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
