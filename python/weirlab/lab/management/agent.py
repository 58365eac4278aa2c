"""The device's end of a management session; a separate program, see the package docstring.

Arguments: address and port to listen on, seconds between reports, CPU, and the command that
lists the rules (nothing if there are none). A line on standard input requests the CPU time
used so far, including children; the answer is a line with ns. End of input ends the program.
"""

import os
import resource
import select
import socket
import subprocess
import sys
import time

PATIENCE_S = 10.0


def main(address: str, port: str, period_s: str, cpu: str, *listing: str) -> int:
    """Serve one station until it disconnects or standard input ends."""
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
                text = report(listing)
                station.sendall(b"report %d\n" % len(text) + text)
                due_s = max(due_s + float(period_s), time.monotonic())


def report(listing: tuple[str, ...]) -> bytes:
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
