"""Other work on the machine: processes that are busy intermittently, for a limited time."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

BUSY_MS = (2.0, 8.0)
EVERY_MS = (10.0, 40.0)
PROCESSES = 2
LONGEST_S = 1800.0


def work(until_s: float, seed: int) -> None:
    """Be busy for a few milliseconds at random intervals."""
    chance = random.Random(seed)
    while (begun_s := time.monotonic()) < until_s:
        busy_s = chance.uniform(*BUSY_MS) / 1e3
        while time.monotonic() - begun_s < busy_s:
            pass
        time.sleep(max(chance.uniform(*EVERY_MS) / 1e3 - busy_s, 0.0))


@contextmanager
def beside(seconds: float = LONGEST_S) -> Iterator[None]:
    """Run two such processes during the block; they end by themselves after ``seconds``."""
    command = [sys.executable, __file__, str(seconds)]
    workers = [subprocess.Popen([*command, str(seed)]) for seed in range(PROCESSES)]
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()


if __name__ == "__main__":
    lasts_s, number = float(sys.argv[1]), int(sys.argv[2])
    work(time.monotonic() + min(lasts_s, LONGEST_S), number)
