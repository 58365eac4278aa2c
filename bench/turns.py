"""Devices that take turns on one CPU, simulated beside a kept comparison of ``bench/chain.py``.

The first device takes in all packets that have arrived, at most a NAPI budget (``process_backlog`` and
``napi_threaded_poll`` in Linux's ``net/core/dev.c``); then the next device has these, and so on. The next
packets are taken in only when all of these have left. What a packet takes on the CPU is the inverse of what
the chain carries. The times to wake up were fitted to an earlier run of the same chain on the same machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

BUDGET: Final = 64
RECEIVER_NS: Final = 400.0
"""Of the time per packet: the receiver stamps packets one after the other."""
QUICK_NS: Final = 2_000.0
"""To wake up a thread that sleeps."""
SLOW_NS: Final = 12_000.0
"""To wake up one that is falling asleep."""
ASLEEP_NS: Final = 4_000.0
"""After this time without a packet it sleeps."""
PACKETS: Final = 200_000


def delays_ns(rate_pps: float, service_ns: float, *, in_turns: bool) -> npt.NDArray[np.float64]:
    """Delays of packets that arrive at random; not ``in_turns``, each leaves when its own time is over."""
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1e9 / rate_pps, PACKETS))
    left = np.empty(PACKETS)
    now, first = 0.0, 0
    while first < PACKETS:
        idle = float(arrivals[first]) - now
        if idle > 0:
            now += idle + (QUICK_NS if idle >= ASLEEP_NS else SLOW_NS)
        present = int(np.searchsorted(arrivals, now, side="right")) - first
        numbers = np.arange(1, min(max(present, 1), BUDGET) + 1)
        batch = len(numbers)
        if in_turns:
            left[first : first + batch] = now + batch * (service_ns - RECEIVER_NS) + numbers * RECEIVER_NS
        else:
            left[first : first + batch] = now + numbers * service_ns
        now += batch * service_ns
        first += batch
    return np.asarray(left - arrivals)


def main() -> None:
    """Print both simulations beside what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("summary", type=Path, help="summary.json of a run")
    parser.add_argument("--carried-kpps", type=float, required=True, help="what the chain carries")
    asked = parser.parse_args()
    loads = json.loads(asked.summary.read_text())["loads"]
    for row in loads if isinstance(loads, list) else loads["composed"]:
        shown = [f"{row['load_pps'] / 1e3:.0f} kpps"]
        for how in (True, False):
            found = delays_ns(row["load_pps"], 1e6 / asked.carried_kpps, in_turns=how)
            p50, p99 = np.quantile(found, (0.5, 0.99)) / 1e3
            shown.append(f"{'in turns' if how else 'one by one'}: p50 {p50:.1f}, p99 {p99:.0f} µs")
        p50, p99 = row["p50_measured_ns"] / 1e3, row["p99_measured_ns"] / 1e3
        print("; ".join((*shown, f"measured: p50 {p50:.1f}, p99 {p99:.0f} µs")))


if __name__ == "__main__":
    main()
