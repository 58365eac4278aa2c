"""What copying costs a link, up to which rate nothing is lost, and what a stall does; also for tcpdump.

The same link is bridged by the tap and by the kernel, without and with a recorder: the tap's ring,
its mirror, and tcpdump -w on the bridge and at the receiver. All take turns in one run, and the
counters of every trial are checked against each other.

    make bench-tap
    .venv/bin/python bench/tap.py --repeats 3 --out build/bench
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from machine import versions
from summary import Summary, Tables
from summary import about as called
from summary import parser as options
from weirlab.base.errors import WeirError
from weirlab.jobs.progress import SilentProgress
from weirlab.links.monitor.plan import METHODS, RECORDING
from weirlab.links.monitor.section import MonitorScenario
from weirlab.links.monitor.study import MonitorFindings
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies.contract import Outcome
from weirlab.studies.runner import run_scenario

RATES = ("100kpps", "200kpps", "300kpps", "max")
COST = ("copies by", "payload B", "kpps with", "kpps without", "ratio", "in the record", "cut")
RECORD = ("recorded by", "payload B", "load", "link lost", "record lost", "in the record / by tcpdump")
SEARCH = ("recorded by", "frame B", "nothing lost up to", "Gbit/s", "tap is")
STALL = ("recorded by", "sent", "link lost", "without a recorder", "record misses", "reports")
LEGEND = (
    "Medians of runs that took turns. Ratio: frames at the far end in overload with copies, over those "
    "without on the same bridge. Link lost: of the frames sent; record lost: of the frames that reached it. "
    "In the record / by tcpdump: frames in the record over those that tcpdump on the bridge has in its own. "
    "Cut: copies of the first 128 bytes only, as the bridge had no time left; whole: neither cut nor left "
    "out."
)


class Told(SilentProgress):
    """Prints progress on the console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def stage(self, title: str) -> None:
        self._console.print(f"[dim]{title}[/]")

    def note(self, message: str) -> None:
        self._console.print(message)


def scenario(repeats: int, trial_s: float) -> MonitorScenario:
    """The scenario to measure."""
    content = {
        "name": "bench",
        "monitor": {
            "methods": list(METHODS),
            "payloads": [10, 1400],
            "loads": list(RATES),
            "runs": repeats,
            "trial_s": trial_s,
            "stall": {"methods": list(METHODS), "repetitions": min(repeats, 3)},
            "search": {"methods": list(RECORDING)},
            "copy_cost": {"methods": list(RECORDING), "repetitions": repeats},
        },
        "report": None,
    }
    return from_plain(content, "the benchmark", MonitorScenario)


def tables(outcome: Outcome[MonitorFindings]) -> Tables:
    """Rows for :data:`COST` and the other headings."""
    cost: list[tuple[str, ...]] = [
        (
            f"{one.method}, whole" if one.whole else one.method,
            str(one.payload_bytes),
            f"{one.with_pps / 1e3:,.0f}",
            f"{one.without_pps / 1e3:,.0f}",
            f"{one.ratio:.3f}",
            f"{one.logged_ratio:.2%}",
            f"{one.cut_ratio:.2%}",
        )
        for one in outcome.found.costs
    ]
    by_tcpdump = {
        (group.payload_bytes, group.load): group.logged_per_min
        for group in outcome.found.groups
        if group.method == "tcpdump-bridge"
    }
    record: list[tuple[str, ...]] = []
    for group in outcome.found.groups:
        if group.logged_per_min is None:
            continue
        beside = by_tcpdump.get((group.payload_bytes, group.load))
        record.append(
            (
                group.method,
                str(group.payload_bytes),
                group.load,
                f"{group.link_loss_ratio:.3%}",
                f"{group.record_loss_ratio:.3%}",
                f"{group.logged_per_min / beside:.2f} x" if beside else "",
            )
        )
    searches = outcome.found.found
    peers = {found.frame_bytes: found.greatest_pps for found in searches if found.method == "tcpdump-bridge"}
    searched: list[tuple[str, ...]] = []
    for found in searches:
        pps, peer = found.greatest_pps, peers.get(found.frame_bytes)
        searched.append(
            (
                found.method,
                str(found.frame_bytes),
                "at no rate" if pps is None else f"{pps / 1e3:,.0f} kpps",
                "" if pps is None else f"{pps * found.frame_bytes * 8 / 1e9:.2f}",
                "" if pps is None or not peer else f"{pps / peer:.2f} x",
            )
        )
    stalled: list[tuple[str, ...]] = [
        (
            one.method,
            f"{one.sent:,.0f}",
            f"{one.link_lost:,.0f}",
            f"{one.link_lost_bare:,.0f}",
            f"{one.missing:,.0f}",
            f"{one.named:,.0f}",
        )
        for one in outcome.found.stalls
    ]
    return {COST: cost, RECORD: record, SEARCH: searched, STALL: stalled}


def summary(outcome: Outcome[MonitorFindings], about: Mapping[str, Any]) -> Summary:
    """The summary of a run."""
    found = outcome.found
    agree = len(found.rows) - found.unbalanced
    balance = (
        f"Counters agree in {agree:,} of {len(found.rows):,} trials; {found.remainder:,} frames disappeared "
        "without being counted as lost."
    )
    facts = {**about["versions"], **about["facts"]}
    remarks = (*found.headlines, balance)
    return Summary("Link monitors side by side", about, facts, tables(outcome), LEGEND, remarks)


def main() -> int:
    parser = options("tap", __doc__)
    parser.add_argument("--repeats", type=int, default=5, help="runs of every case (default 5)")
    parser.add_argument("--trial", type=float, default=1.0, help="length of a trial in s (default 1)")
    asked = parser.parse_args()
    if asked.repeats < 1 or asked.trial <= 0:
        parser.error("--repeats must be 1 or more, and --trial above 0")
    console = Console()
    about = {**called("tap"), "repeats": asked.repeats}
    try:
        about["versions"] = versions()
        with TemporaryDirectory(prefix="weir-bench-") as scratch:
            what = scenario(asked.repeats, asked.trial)
            outcome = run_scenario(Store(Path(scratch)), what, Told(console))
            facts = dict(outcome.run.manifest.facts)
    except WeirError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code

    about["facts"] = {name: each for name, each in facts.items() if name not in ("command", "lab", "dut")}
    shown = summary(outcome, about)
    trials = [asdict(row) for row in outcome.found.rows]
    shown.publish(asked.out, {"remarks": shown.remarks, "trials": trials}, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
