"""A lab and the scheduler: who runs when a trial is made, and what the engine sees of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weirlab.lab import dut
from weirlab.lab.cores import choose
from weirlab.lab.isolation import partition
from weirlab.lab.netns import NetnsLab
from weirlab.measure import windows
from weirlab.traffic.spec import Rate, Traffic

pytestmark = pytest.mark.netns


def policies_during(lab: NetnsLab, threads: Iterable[int], seconds: float) -> set[int]:
    """Scheduling policies that the threads have while a trial of so many seconds lasts."""
    trial = Traffic(Rate(200), warmup_s=0.0, duration_s=seconds)
    running = threading.Thread(target=lab.run, args=(trial,))
    seen: set[int] = set()
    running.start()
    while running.is_alive():
        seen |= {os.sched_getscheduler(thread) for thread in threads}
    running.join()
    return seen


def test_the_device_is_real_time_during_a_short_trial_only(made: Any) -> None:
    with NetnsLab(dut.make("forward"), "xdp") as lab:
        threads = made.napi_threads
        assert lab.backend == "xdp"
        seen: set[int] = set()
        # Whoever looks may stand still for as long as a trial lasts.
        for _ in range(20):
            seen |= policies_during(lab, threads, 0.3)
            if os.SCHED_FIFO in seen:
                break
        assert seen == {os.SCHED_OTHER, os.SCHED_FIFO}
        assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_OTHER}
        assert policies_during(lab, threads, 1.0) == {os.SCHED_OTHER}, "the kernel would stop it"
        assert "real_time_refused" not in lab.facts


needs_btf = pytest.mark.skipif(
    not Path("/sys/kernel/btf/vmlinux").exists(),
    reason="this kernel does not tell where its structs have what",
)


@needs_btf
def test_the_sender_sees_what_the_scheduler_counts() -> None:
    with NetnsLab(dut.make("forward"), "xdp") as lab:
        result = lab.run(Traffic(Rate(20_000), warmup_s=0.02, duration_s=0.1))
    found = result.windows
    assert found is not None
    looks = found.looks
    assert looks is not None
    assert looks.ran_ns.shape == looks.waited_ns.shape == (52, 2)
    seen = looks.at_ns > 0
    at_ns = looks.at_ns[seen].astype(np.int64)
    assert (np.diff(at_ns) > 0).all()
    assert at_ns[0] < result.record_start_ns < at_ns[-1]
    for counted in (looks.ran_ns, looks.waited_ns):
        assert (np.diff(counted[seen].astype(np.int64), axis=0) >= 0).all()
    ran_ns = np.ptp(looks.ran_ns[seen].astype(np.int64), axis=0)
    assert 0 < ran_ns.sum() < at_ns[-1] - at_ns[0]
    # Every arrival is in the histogram of the bin that it departed in.
    of_bin = np.diff(found.end.astype(np.int64), prepend=0)
    counts = np.add.reduceat(found.count, np.cumsum(of_bin[of_bin > 0]) - of_bin[of_bin > 0])
    assert counts.tolist() == result.series.received[result.series.received > 0].tolist()
    assert counts.sum() == result.histogram.count.sum() == result.received


@needs_btf
def test_the_sender_sees_what_else_runs_on_the_devices_cpu() -> None:
    with NetnsLab(dut.make("forward"), "xdp") as lab:

        def spin() -> None:
            os.sched_setaffinity(0, {choose().dut})
            while not done.is_set():
                pass

        done = threading.Event()
        worker = threading.Thread(target=partition.measuring(spin))
        worker.start()
        try:
            result = lab.run(Traffic(Rate(20_000), warmup_s=0.02, duration_s=0.1))
        finally:
            done.set()
            worker.join()
    assert result.windows is not None
    glances, others = result.windows.glances.sum(), result.windows.others.sum()
    # The sender looks every 100 µs, less often if it is late.
    assert 500 < glances <= 1001
    assert others > glances / 10


@needs_btf
def test_while_other_work_has_the_devices_cpu_no_bin_counts() -> None:
    cpu = choose().dut
    with NetnsLab(dut.make("forward"), "xdp") as lab:
        lab.run(Traffic(Rate(20_000), warmup_s=0.0, duration_s=0.01))
        if refused := lab.facts.get("real_time_refused"):
            pytest.skip(f"nothing can take the CPU for itself: {refused}")
        had_ns: list[int] = []

        def meddle() -> None:
            """Take the device's CPU for 10 ms, with more right to it, when a thousand packets have passed."""
            passed = lab.counters()["in_rx_packets"]
            started.set()
            while lab.counters()["in_rx_packets"] < passed + 1000:
                pass
            os.sched_setaffinity(0, {cpu})
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
            had_ns.append(time.monotonic_ns())
            while time.monotonic_ns() - had_ns[0] < 10_000_000:
                pass
            had_ns.append(time.monotonic_ns())

        started = threading.Event()
        meddler = threading.Thread(target=partition.measuring(meddle))
        meddler.start()
        started.wait()
        result = lab.run(Traffic(Rate(20_000), warmup_s=0.0, duration_s=0.5))
        meddler.join()
    kept = windows.kept_bins(result, windows.left_out(result, windows.disturbances(result)))
    begin, end = ((at_ns - result.record_start_ns) // result.series.bin_ns for at_ns in had_ns)
    assert 0 < begin < end < len(kept)
    # The device waits from its next packet on, and until it was its turn again.
    assert not kept[begin + 1 : end].any()
