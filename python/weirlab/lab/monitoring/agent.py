"""The programs of the device's monitoring, see the package docstring. The first argument says which.

Lines on standard input are answered with a line each; ``cpu`` with the CPU time used so far, in ns, including
children. End of input ends the program.
"""

import gc
import json
import os
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable

STAT_BYTES = 1 << 16
COUNTERS = (1, 3, 9, 11)
"""Columns of /proc/net/dev: packets received and dropped there, packets transmitted and dropped there."""
PATIENCE_S = 10.0
CHUNK_BYTES = 1 << 16


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


def sample(cpu: str, period_ns: str, *interfaces: str) -> int:
    """Sample the device every ``period_ns`` from inside.

    ``watch`` begins a series of samples, and is answered once the first is taken; ``report`` ends it and is
    answered with all of them as JSON.

    A late sample counts for the time at which it was due; further due times that had passed by then get none.
    """
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
                answer = cpu_time_ns()
            print(answer, flush=True)
        elif due_ns is not None:
            taken_ns = time.monotonic_ns()
            samples.append((due_ns, taken_ns, eyes.look()))
            due_ns += max((taken_ns - due_ns) // period, 0) * period + period


def report(address: str, port: str, period_s: str, cpu: str, *listing: str) -> int:
    """The device's end of a management session: serve one station until it disconnects.

    ``listing`` is the command that lists the rules, nothing if there are none.
    """
    os.sched_setaffinity(0, {int(cpu)})
    with socket.create_server((address, int(port))) as server:
        print("listening", flush=True)
        if select.select([server, sys.stdin], [], [], PATIENCE_S)[0] != [server]:
            return 1
        station, _ = server.accept()
    with station:
        station.settimeout(PATIENCE_S)
        due_s = time.monotonic()
        while True:
            left_s = max(due_s - time.monotonic(), 0.0)
            ready = select.select([sys.stdin, station], [], [], left_s)[0]
            if sys.stdin in ready:
                if not sys.stdin.readline():
                    return 0
                print(cpu_time_ns(), flush=True)
            elif ready:
                return 0
            else:
                text = rules_and_counters(listing)
                station.sendall(b"report %d\n" % len(text) + text)
                due_s = max(due_s + float(period_s), time.monotonic())


def rules_and_counters(listing: tuple[str, ...]) -> bytes:
    """A monitoring system's report: interface counters, and rules with counters."""
    with open("/proc/thread-self/net/dev", "rb") as file:
        text = file.read()
    if listing:
        done = subprocess.run(listing, capture_output=True, check=False, stdin=subprocess.DEVNULL)  # noqa: TID251
        if done.returncode != 0:
            sys.exit(f"{listing[0]}: {done.stderr.decode(errors='replace').strip()}")
        text += done.stdout
    return text


def cpu_time_ns() -> int:
    """CPU time of this process and of the commands that it ran."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time_ns() + round((children.ru_utime + children.ru_stime) * 1e9)


def receive(address: str, port: str, cpu: str) -> int:
    """The monitoring system's end: read and discard reports until the agent disconnects.

    Prints ``ready`` when the first is complete.
    """
    os.sched_setaffinity(0, {int(cpu)})
    with socket.create_connection((address, int(port)), timeout=PATIENCE_S) as agent:
        first = agent.makefile("rb", buffering=0)
        header = b""
        while not header.endswith(b"\n"):
            header += first.read(1) or sys.exit("the agent closed the connection")
        missing = int(header.split()[1])
        while missing > 0:
            missing -= len(agent.recv(min(missing, CHUNK_BYTES)) or sys.exit("the first report was cut off"))
        print("ready", flush=True)
        while True:
            ready = select.select([sys.stdin, agent], [], [])[0]
            if sys.stdin in ready:
                if not sys.stdin.readline():
                    return 0
                print(cpu_time_ns(), flush=True)
            elif not agent.recv(CHUNK_BYTES):
                return 0


ROLES: dict[str, Callable[..., int]] = {"sample": sample, "report": report, "receive": receive}

if __name__ == "__main__":
    sys.exit(ROLES[sys.argv[1]](*sys.argv[2:]))
