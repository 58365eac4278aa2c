"""Real packets through ``weir link --as`` between two veths: their delays and losses beside the model's.

Each load goes through the emulated device and, with the same random numbers, through the simulated lab.
A device is compared that delays packets by far more than the emulator's lateness: WireGuard. Needs root.

    .venv/bin/python bench/link_device.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import link
import machine
import simulators
from weirlab.emulation.spec import PathSpec
from weirlab.jobs.simulated import crossed_device
from weirlab.lab import clean
from weirlab.links.emulator.running import LinkEnd, emulated_link
from weirlab.model import QueueingModel, save
from weirlab.records import RuleSetup
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

DEVICE, POSITION, FRAME_BYTES = "wireguard-go", 0, 594
SHARES = (0.1, 0.3, 0.6, 0.9, 1.2, 1.5)
"""Loads over the threshold."""
DELAYS = ("mean_ns", "p99_ns")
SEED = simulators._SeededLab.seed


def through_the_link(file: Path, share: float, rate_pps: float, seconds: float) -> simulators.Found:
    """One trial with real packets."""
    with link.bench(cable=False) as bed:
        a, b = (LinkEnd(port.name, bed.link_netns) for port in link.NEAR)
        with emulated_link(a, b, PathSpec(), device=crossed_device(file, POSITION, SEED)) as emulated:
            found = bed.play(f"{rate_pps:.0f}pps", FRAME_BYTES, seconds)
            account = emulated.stop()
    print(
        f"{100 * share:.0f} % of the threshold, {rate_pps:.0f} pps: frames left late by "
        f"{account.up.late_ns(0.5) / 1e3:.0f} us (p50), {account.up.late_ns(0.99) / 1e3:.0f} us (p99); "
        f"the sender was late by at most {found.late_max_ns / 1e3:.0f} us"
    )
    return simulators.Found(
        rate_pps / share, found.delay_mean_ns, found.histogram.quantile_ns(0.99), found.lost / found.sent
    )


def in_the_lab(model: QueueingModel, share: float, rate_pps: float, seconds: float) -> simulators.Found:
    """The same packets in the simulated lab."""
    lab = simulators._SeededLab(model=simulators.simulated_model(DEVICE, model))
    lab.set_rules(RuleSetup(POSITION))
    found = lab.run(
        Traffic(Rate(rate_pps), Constant(FRAME_BYTES), warmup_s=link.WARMUP_S, duration_s=seconds)
    )
    return simulators.Found(
        rate_pps / share, found.delay_mean_ns, found.histogram.quantile_ns(0.99), found.lost / found.sent
    )


def main() -> None:
    """Measure every load, and print how far it is from the simulation and from the prediction."""
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
            rate_pps = round(share * float(model.threshold_pps(POSITION, FRAME_BYTES)))
            real = through_the_link(file, share, rate_pps, options.seconds)
            setting = simulators.Setting(POSITION, FRAME_BYTES, share)
            for what, other in (
                ("simulated", in_the_lab(model, share, rate_pps, options.seconds)),
                ("predicted", simulators.predicted(model, setting, rate_pps)),
            ):
                mean, p99 = (100 * (getattr(real, name) / getattr(other, name) - 1) for name in DELAYS)
                lost, points = 100 * real.loss_ratio, 100 * (real.loss_ratio - other.loss_ratio)
                print(
                    f"  real mean {real.mean_ns / 1e3:.0f} us, {mean:+.2f} % of {what}; "
                    f"p99 {real.p99_ns / 1e3:.0f} us, {p99:+.2f} %; loss {lost:.3f} %, {points:+.3f} points",
                    flush=True,
                )


if __name__ == "__main__":
    main()
