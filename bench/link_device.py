"""Real packets through ``weir link --as`` between two veths: their delays and losses beside the model's.

The reference in Python gets the times at which packets really departed, and has the same random numbers.
Emulated is a device that delays packets by far more than the emulator's lateness: WireGuard. Needs root.

    .venv/bin/python bench/link_device.py
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import course_bed
import link
import machine
import simulators
from weirlab.emulation.spec import PathSpec
from weirlab.jobs.simulated import crossed_device
from weirlab.lab import clean
from weirlab.links.emulator.running import EmulatorSettings, LinkEnd, emulated_link
from weirlab.model import QueueingModel, save
from weirlab.model.base import F64
from weirlab.model.process import Fate, ReferenceDevice

DEVICE, POSITION, FRAME_BYTES = "wireguard-go", 0, 594
SHARES = (0.1, 0.3, 0.6, 0.9, 1.2, 1.5)
"""Loads over the threshold."""
SEED = 2


def through_the_link(file: Path, at_ns: F64) -> tuple[F64, F64]:
    """Times inside of packets, NaN for those that were lost, and when they departed, in ns."""
    nowhere = np.zeros(len(at_ns))
    made, _ = course_bed.plan(at_ns, nowhere, nowhere, FRAME_BYTES, 0.0, 0.01)
    with link.bench(cable=False) as bed:
        a, b = (LinkEnd(port.name, bed.link_netns) for port in link.NEAR)
        # The sender spins on the first CPU.
        how = EmulatorSettings(cpu=(os.cpu_count() or 1) - 1)
        device = crossed_device(file, POSITION, SEED)
        with emulated_link(a, b, PathSpec(), how=how, device=device) as emulated:
            inside, late = course_bed.passages(bed.send(made), made, at_ns)
            account = emulated.stop()
    print(
        f"  frames left within {account.up.late_ns(0.5) / 1e3:.0f} us (p50), "
        f"{account.up.late_ns(0.99) / 1e3:.0f} us (p99) of their time, "
        f"{100 * account.cpu_s / account.elapsed_s:.0f} % of a CPU, load of the host {os.getloadavg()[0]:.1f}"
    )
    sent = ~np.isinf(late)
    known = sent & ~np.isnan(late)
    departed = at_ns + np.interp(at_ns, at_ns[known], late[known])
    return inside[sent], departed[sent]


def in_python(model: QueueingModel, departed_ns: F64) -> F64:
    """The same of the reference."""
    device = ReferenceDevice(model, SEED)
    passages = [device.arrive(at, FRAME_BYTES, POSITION) for at in departed_ns.tolist()]
    return np.array(
        [
            passage.leaves_ns - at if passage.fate is Fate.FORWARDED else np.nan
            for passage, at in zip(passages, departed_ns, strict=True)
        ]
    )


def main() -> None:
    """Send every load, and print how far delays and losses are from those of the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a trial")
    options = parser.parse_args()
    for name, value in machine.versions().items():
        print(f"{name}: {value}")
    clean.clean()
    model = simulators.fitted(DEVICE)
    with TemporaryDirectory() as folder:
        save({QueueingModel.name: model}, file := Path(folder) / f"{DEVICE}.model.json")
        for share in SHARES:
            gap_ns = round(1e9 / (share * float(model.threshold_pps(POSITION, FRAME_BYTES))))
            print(f"{100 * share:.0f} % of the threshold, {1e9 / gap_ns:.0f} pps:")
            real, departed = through_the_link(file, np.arange(0, options.seconds * 1e9, gap_ns))
            modelled = in_python(model, departed)
            for name, of in (("mean", np.nanmean), ("p99", lambda delays: np.nanquantile(delays, 0.99))):
                a, b = (float(of(delays)) for delays in (real, modelled))
                print(f"  {name} {a / 1e3:.0f} us, of the model {b / 1e3:.0f} us: {100 * (a / b - 1):+.2f} %")
            a, b = (100 * float(np.isnan(delays).mean()) for delays in (real, modelled))
            print(f"  loss {a:.3f} %, of the model {b:.3f} %", flush=True)


if __name__ == "__main__":
    main()
