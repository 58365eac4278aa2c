"""A scheduler and workers on loopback, each a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest
from distributed import Client

from weirlab.base import programs

from ..conftest import unused_port


class LocalCluster:
    """Processes that a test may kill; ``url`` is the scheduler's address."""

    def __init__(self, port: int) -> None:
        self._port, self._processes = port, list[subprocess.Popen[bytes]]()
        self.url = f"tcp://127.0.0.1:{port}"
        self.scheduler = self.start_scheduler()

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        scheduler = (
            "import asyncio, distributed\n"
            "async def main():\n"
            f"    made = distributed.Scheduler(host='127.0.0.1', port={self._port}, dashboard=False)\n"
            "    async with made as one:\n"
            "        await one.finished()\n"
            "asyncio.run(main())\n"
        )
        self.scheduler = self._started([sys.executable, "-c", scheduler])
        return self.scheduler

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        return self._started(programs.own("weirlab", "worker", self.url, *options))

    def worker_with_wrong_clock(self, ahead_s: float) -> subprocess.Popen[bytes]:
        """A test bed whose wall clock is ahead of everybody else's."""
        program = (
            f"import time\nwall = time.time\ntime.time = lambda: wall() + {ahead_s}\n"
            f"from weirlab.cli import main\nmain()\n"
        )
        return self._started([sys.executable, "-P", "-c", program, "worker", self.url, "--testbed"])

    def wait_for(self, workers: int) -> None:
        """Until so many work."""
        with Client(self.url, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)

    def _started(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with ExitStack() as closing:
        made = LocalCluster(unused_port())
        closing.callback(made.close)
        yield made
