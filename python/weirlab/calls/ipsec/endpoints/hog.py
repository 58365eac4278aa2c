"""A program that never sleeps, on one CPU: ``python hog.py CPU SECONDS``.

It ends by itself after so many seconds, or when the program that started it has ended. It needs nothing but
the standard library.
"""

import os
import sys
import time


def main(cpu: int, seconds: float) -> None:
    """Say so once the CPU is taken, then take all of its time."""
    owner, end_s = os.getppid(), time.monotonic() + seconds
    os.sched_setaffinity(0, {cpu})
    print("ready", flush=True)
    while time.monotonic() < end_s and os.getppid() == owner:
        for _ in range(100_000):
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
