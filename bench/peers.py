"""Weir's generator compared with trafgen, xdp-trafficgen, mgen and iperf3, on one cable, in one run.

Every sender gets the same core and the same veth pair, whose receiving end has its own core.
The interfaces count all frames, not the senders. The other tools' frames are dropped as early
as possible at the receiving end; Weir's are received in full: recognised, accounted for per
flow, and their delay added to a histogram. A sender that is missing or fails on this machine
gets a row that says why; the others are measured.

    make bench
    .venv/bin/python bench/peers.py --repeats 1 --out build/bench
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.progress import Progress

import machine
from cable import WINDOW_S
from senders import Case, Sample, cases, drop_early, sample
from summary import Summary
from summary import about as called
from summary import parser as options
from weirlab.base.errors import WeirError
from weirlab.lab.namespaces import PlainPair

FULL_SPEED = ("sender", "frame B", "carries", "Mpps", "range", "arrived", "weir is")
PACED = ("sender", "nominal pps", "pps", "deviation", "arrived")
FAILED = "failed"
LEGEND = (
    f"pps: frames put on the cable in a window of {WINDOW_S:g} s, counted by its interfaces. Arrived: the "
    "share that found room in the receiver's ring. Carries: what differs from frame to frame."
)


def run_all(repeats: int, console: Console) -> tuple[list[Case], list[Sample], dict[str, object]]:
    """Run all repeats. Each has two new cables, first for the tools, without an XDP program, then for Weir.

    At full speed another CPU receives, so that the sender has one for itself. Paced senders
    receive on their own CPU, so that only the sender decides when a frame departs.
    """
    todo: list[Case] = []
    samples: list[Sample] = []
    facts: dict[str, object] = {}
    states: list[str] = []
    with TemporaryDirectory(prefix="weir-bench-") as scratch:
        for repeat, full_speed in itertools.product(range(repeats), (True, False)):
            # The peers choose their CPU themselves and must have the same conditions as Weir.
            with PlainPair(apart=full_speed, isolated=False) as bed:
                drop_early(bed)
                chosen = [
                    case for case in cases(bed, Path(scratch)) if (case.nominal_pps is None) == full_speed
                ]
                with Progress(console=console) as progress:
                    what = "full speed" if full_speed else "paced"
                    shown = progress.track(chosen, description=f"Repeat {repeat + 1} of {repeats}, {what}")
                    samples += [sample(bed, case, repeat) for case in shown]
                todo += chosen if repeat == 0 else []
                apart_ns = bed.host().handover_ns
                if full_speed and apart_ns is not None:
                    states.append(f"{apart_ns:.0f}")
                facts = {**bed.facts, "backend": bed.backend}
    facts["ns from CPU to CPU and back at full speed, by repeat"] = ", ".join(states)
    return todo, samples, facts


def versions() -> dict[str, str]:
    return {
        **machine.versions(),
        "trafgen": _first_line("trafgen", "--version"),
        "xdp-trafficgen": _first_line("xdp-trafficgen", "udp", "--version"),
        "mgen": _first_line("mgen", "help"),
        "iperf3": _first_line("iperf3", "--version"),
    }


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not installed"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else ""


def tables(todo: list[Case], samples: list[Sample]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Rows for ``FULL_SPEED`` and ``PACED``: medians over the repeats that succeeded."""
    windows = {
        case.key: [each.window for each in samples if each.key == case.key and each.window] for case in todo
    }
    repeats = {case.key: sum(each.key == case.key for each in samples) for case in todo}
    fastest = [window.sent_pps for window in windows.get(("weir", None), [])]
    full_speed: list[tuple[str, ...]] = []
    paced: list[tuple[str, ...]] = []
    for case in sorted(todo, key=lambda case: (case.nominal_pps or 0, case.sender != "weir")):
        own = windows[case.key]
        succeeded = len(own)
        sender = case.sender
        if 0 < succeeded < repeats[case.key]:
            sender += f" ({succeeded} of {repeats[case.key]})"
        pps = statistics.median(window.sent_pps for window in own) if own else None
        share = f"{statistics.median(window.arrived_ratio for window in own):.2%}" if own else ""
        if case.nominal_pps is None:
            mpps = [window.sent_pps / 1e6 for window in own]
            median = FAILED if pps is None else f"{pps / 1e6:.2f}"
            spread = f"{min(mpps):.2f}-{max(mpps):.2f}" if mpps else ""
            times = f"{statistics.median(fastest) / pps:.1f} x" if pps and fastest else ""
            full_speed.append((sender, str(case.frame_bytes), case.carries, median, spread, share, times))
        else:
            median = FAILED if pps is None else f"{pps:,.0f}"
            deviation = "" if pps is None else f"{pps / case.nominal_pps - 1:+.2%}"
            paced.append((sender, f"{case.nominal_pps:,}", median, deviation, share))
    return full_speed, paced


def failures(samples: list[Sample]) -> list[str]:
    """A line for every sender and setting that failed, with the reason for its first failure."""
    first: dict[tuple[str, int | None], str] = {}
    for each in samples:
        if each.failure:
            first.setdefault(each.key, each.failure)
    return [
        f"{sender}, {'full speed' if nominal is None else f'{nominal:,} pps'}: {reason}"
        for (sender, nominal), reason in first.items()
    ]


def summary(todo: list[Case], samples: list[Sample], about: Mapping[str, Any]) -> Summary:
    """The summary of all samples."""
    shown = dict(zip((FULL_SPEED, PACED), tables(todo, samples), strict=True))
    facts = {**about["versions"], **about["facts"]}
    failed = [f"Failed: {line}" for line in failures(samples)]
    return Summary("Generators side by side, medians", about, facts, shown, LEGEND, failed)


def main() -> int:
    parser = options("peers", __doc__)
    parser.add_argument("--repeats", type=int, default=3, help="measurements of every case (default 3)")
    asked = parser.parse_args()
    if asked.repeats < 1:
        parser.error("--repeats must be 1 or more")
    console = Console()
    about = {**called("peers"), "repeats": asked.repeats}
    try:
        about["versions"] = versions()
        todo, samples, about["facts"] = run_all(asked.repeats, console)
    except WeirError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    raw = {"cases": [asdict(case) for case in todo], "samples": [asdict(each) for each in samples]}
    summary(todo, samples, about).publish(asked.out, raw, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
