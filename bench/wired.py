"""The same kernel as a device in a namespace and as a device between two ports: thresholds and delays.

    python bench/wired.py [ROUNDS]

The ports are ends of veth pairs; kernel threads on the device's CPU do the routing namespace's work, as in
the lab in namespaces. Beds take turns. Needs root.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from machine import versions
from weirlab.lab import clean, dut, wiring
from weirlab.lab.cores import choose
from weirlab.lab.dut.rules import BlackBox
from weirlab.lab.isolation import partition
from weirlab.lab.linux import interface, scheduling
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.namespaces import NamespaceBed
from weirlab.lab.netns import NetnsLab
from weirlab.lab.wired.bed import WiredBed
from weirlab.lab.wired.ends import WiredSetting, wired_ends
from weirlab.measure.scouting import MAX_RATE
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

PORTS = (Port("wired0", wiring.TX0.mac, "", ""), Port("wired1", wiring.RX0.mac, "", ""))
INNER = (wiring.IN0, wiring.OUT0)
LOAD_PPS = 50_000.0


@contextmanager
def router() -> Iterator[set[int]]:
    """A routing namespace between the ports; yields the kernel threads that do its work."""
    device = Namespace("weir-bench-wired")
    device.create()
    try:
        device.call(lambda: write_sysctls(wiring.ROUTER))
        with device.descriptor() as fd:
            for port, inner in zip(PORTS, INNER, strict=True):
                interface.create_pair(port, inner, fd, wiring.MTU_BYTES)
                interface.set_offloads(port.name, gro=False)
        with clean.alone():
            before = scheduling.threads(INNER[0].name) | scheduling.threads(INNER[1].name)
            device.call(start)
            threads = (scheduling.threads(INNER[0].name) | scheduling.threads(INNER[1].name)) - before
        for thread in threads:
            os.setpriority(os.PRIO_PROCESS, thread, -20)
        yield threads
    finally:
        device.remove()


def start() -> None:
    for inner in INNER:
        interface.set_offloads(inner.name, gro=True)
    sides = ((wiring.TX0, INNER[0], wiring.SENDERS), (wiring.RX0, INNER[1], wiring.RECEIVERS))
    interface.bring_up(INNER, [route for side in sides for route in wiring.behind(*side)])
    wiring.thread_receiving(INNER)


def values(bed: NamespaceBed) -> dict[str, float]:
    """What it forwards in overload, and its delay far below."""
    overload = bed.run(Traffic(MAX_RATE, Constant(64), warmup_s=0.2, duration_s=0.3))
    light = bed.run(Traffic(Rate(LOAD_PPS), Constant(64), warmup_s=0.1, duration_s=0.5))
    quantile = light.histogram.quantile_ns
    return {"forwards_pps": overload.forwarding_pps, "p50_ns": quantile(0.5), "p99_ns": quantile(0.99)}


def main(rounds: int) -> None:
    known = versions()
    cores = choose()
    found: dict[str, list[dict[str, float]]] = {"netns": [], "wired": []}
    for _ in range(rounds):
        with NetnsLab(dut.make("forward"), cores=cores) as lab:
            found["netns"].append(values(lab))
        with router() as threads:
            ends = wired_ends([port.name for port in PORTS])
            setting = WiredSetting(ends, listen_s=0.1, device_threads=sorted(threads))
            with WiredBed(setting, BlackBox(), cores=cores) as bed:
                # The bed's isolation of CPUs unbinds threads.
                for thread in threads:
                    partition.bind(thread, cores.dut)
                found["wired"].append(values(bed))

    def middle(lab: str, name: str) -> float:
        return median(each[name] for each in found[lab])

    names = ("forwards_pps", "p50_ns", "p99_ns")
    summary = {name: {lab: middle(lab, name) for lab in found} for name in names}
    ratios = {f"{name}_ratio": each["wired"] / each["netns"] for name, each in summary.items()}
    print(json.dumps({**known, "rounds": rounds, **summary, **ratios, "raw": found}, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
