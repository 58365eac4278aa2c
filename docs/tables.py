"""Writes docs/tables.md, the dictionary of stored tables, from the dataclasses of their rows.

python docs/tables.py            writes it
python docs/tables.py --check    fails if it is out of date
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.base.columns import Column, described
from weirlab.calls.calls.columns import PacketRow
from weirlab.calls.capacity.trials.columns import CapacityRow, InsideRow
from weirlab.calls.failover.switches.columns import SwitchCallRow, SwitchSeriesRow
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.calls.ipsec.endpoints import rows as endpoints
from weirlab.links.monitor.trials.rows import MonitorRow
from weirlab.numbering.load.rows import LIMITS, TRIALS, WORK, LoadLimitRow, LoadTrialRow, WorkRow
from weirlab.numbering.proof.rows import CALLS, LOGS, MESSAGES, LogRow, MessageRow, ProofCallRow
from weirlab.numbering.through.rows import DEVICE, DeviceRow
from weirlab.store import rows
from weirlab.store.columns import TrialRow
from weirlab.trace.columns import PeriodRow, RoundTripRow, SackRow, SegmentRow
from weirlab.transfers.parallel import rows as parallel
from weirlab.transfers.tcp.study.columns import (
    AgreementRow,
    CaptureRow,
    ConnectionRow,
    CrossingRow,
    DiagnosisRow,
    DirectionRow,
    FindingRow,
    PacketsRow,
    TransferRow,
)

PAGE: Final = Path(__file__).parent / "tables.md"

INTRO: Final = """\
# Stored tables

<!-- Written by docs/tables.py from the row classes: change the descriptions there. -->

A run is a folder: a manifest, and a Parquet file for each table (`weir show RUN` names the folder,
`weir export RUN` writes the tables elsewhere, [python.md](python.md) reads them as Polars frames). The end of
a name is the unit: `_ns`, `_pps`, `_bytes`; a `_ratio` or `_share` is from 0 to 1. What was not measured is
null, never NaN. Integers have 64 bits and a sign; in `packets` and the series of a trace some are narrower.
"""


@dataclass(frozen=True)
class Group:
    """Tables that belong together."""

    title: str
    intro: str
    tables: Mapping[str, type]


GROUPS: Final = (
    Group(
        "Every run with trials",
        "[engine.md](engine.md) says how packets are counted. All but `trials` have `trial_id` (text) first.",
        {"trials": TrialRow, **rows.ROWS},
    ),
    Group(
        "Runs with calls",
        "Beside the tables above, where `--packets` asked for it ([calls.md](calls.md)).",
        {"packets": PacketRow},
    ),
    Group(
        "Runs about capacity",
        "Beside the tables above ([capacity.md](capacity.md)).",
        {"capacity": CapacityRow, "inside": InsideRow},
    ),
    Group(
        "Runs about failover",
        "Times count from the event unless the description says otherwise ([failover.md](failover.md)).",
        {"switches": SwitchRow, "switch_calls": SwitchCallRow, "switch_series": SwitchSeriesRow},
    ),
    Group(
        "Runs about link monitors",
        "Counts are frames; null where a method has no such stage ([link-monitor.md](link-monitor.md)).",
        {"monitor": MonitorRow},
    ),
    Group(
        "TCP transfers",
        "Of `weir tcp measure` ([tcp.md](tcp.md)). Beside them, `samples` has a row for each report of each "
        "kernel: `time_ns`, `end` (`client`, `server`), `connection`, `role` (`sender`, `receiver`), "
        "`app_bytes` (written or read by the application), `waited_ns` (for a CPU), and the kernel's fields. "
        "`axis` has a row per period: `time_ns`, and a column for each source and characteristic.",
        {
            "transfers": TransferRow,
            "directions": DirectionRow,
            "connections": ConnectionRow,
            "diagnoses": DiagnosisRow,
            "findings": FindingRow,
            "packets": PacketsRow,
            "captures": CaptureRow,
            "crossings": CrossingRow,
            "agreement": AgreementRow,
        },
    ),
    Group(
        "Runs about parallel sockets",
        "Times count from the start of the recorded part ([parallel-sockets.md](parallel-sockets.md)).",
        {
            parallel.ATTEMPTS: parallel.ParallelAttemptRow,
            parallel.PATHS: parallel.PathRow,
            parallel.SERIES: parallel.ThroughputRow,
        },
    ),
    Group(
        "Runs about endpoints",
        "What `weir ipsec endpoints` keeps ([endpoints.md](endpoints.md)).",
        {
            endpoints.ATTEMPTS: endpoints.EndpointAttemptRow,
            endpoints.DISTRIBUTIONS: endpoints.DistributionRow,
            endpoints.LIMITS: endpoints.EndpointLimitRow,
        },
    ),
    Group(
        "Runs about voice routing",
        "What `weir voice prove` keeps, then what `weir voice load` does "
        "([voice-routing.md](voice-routing.md)).",
        {
            CALLS: ProofCallRow,
            MESSAGES: MessageRow,
            LOGS: LogRow,
            DEVICE: DeviceRow,
            TRIALS: LoadTrialRow,
            WORK: WorkRow,
            LIMITS: LoadLimitRow,
        },
    ),
    Group(
        "Series of a trace",
        "What `weir trace --series` writes; times are since 1970, UTC ([trace.md](trace.md)). The files of "
        "`weir tcp watch` are described in [tcp.md](tcp.md).",
        {"segments": SegmentRow, "rtt": RoundTripRow, "sack": SackRow, "periods": PeriodRow},
    ),
)


def page() -> str:
    """The whole document."""
    return "\n".join([INTRO, *(line for group in GROUPS for line in _group(group))])


def _group(group: Group) -> Iterator[str]:
    yield f"## {group.title}\n\n{group.intro}\n"
    for name, row in group.tables.items():
        yield f"### `{name}`\n\n{_about(row)}\n"
        yield "| column | type | unit | meaning |\n|---|---|---|---|"
        yield from map(_line, described(row))
        yield ""


def _about(row: type) -> str:
    text = " ".join((inspect.getdoc(row) or "").split())
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _line(column: Column) -> str:
    meaning = re.sub(r"``(.+?)``", r"`\1`", column.meaning).replace("|", "\\|")
    return f"| `{column.name}` | {column.type} | {column.unit} | {meaning} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    text = page()
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE} is out of date: python docs/tables.py writes it", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
