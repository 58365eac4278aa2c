"""Writes docs/tables.md (stored tables), plan-keys.md (numbering plans) and causes.md (slow transfers).

python docs/tables.py            writes them
python docs/tables.py --check    fails if one is out of date
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.base.columns import Column, described
from weirlab.calls.calls.study import PacketRow
from weirlab.calls.capacity.trials.rows import CallGapRow, CapacityRow, InsideRow
from weirlab.calls.failover.switches.rows import SwitchCallRow, SwitchRow, SwitchSeriesRow
from weirlab.calls.ipsec.cost import COSTS, EspCostRow
from weirlab.calls.ipsec.endpoints import rows as endpoints
from weirlab.campaigns.ranking import MeasureRow
from weirlab.campaigns.study import MEASURES, STEPS, StepRow
from weirlab.devices.simulation.findings import SIMULATIONS, SimulationRow
from weirlab.diagnosis.causes import CAUSES
from weirlab.links.monitor.rows import MonitorRow
from weirlab.numbering.lab.device import DEVICE, PassageRow
from weirlab.numbering.load.findings import LIMITS, TRIALS, WORK, LoadLimitRow, LoadTrialRow, WorkRow
from weirlab.numbering.plan import json_schema
from weirlab.numbering.proof.findings import CALLS, LOGS, MESSAGES, LogRow, MessageRow, ProofCallRow
from weirlab.reproduction.contract import ROWS, ReproductionRow
from weirlab.store import rows
from weirlab.store.columns import TrialRow
from weirlab.trace.schema import PeriodRow, RoundTripRow, SackRow, SegmentRow
from weirlab.transfers.parallel import findings as parallel
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


PLAN_PAGE: Final = Path(__file__).parent / "plan-keys.md"

PLAN_INTRO: Final = """\
# Keys of a numbering plan

<!-- Written by docs/tables.py from the models of the plan: change the descriptions there. -->

What a plan may contain ([voice-routing.md](voice-routing.md) explains it, `weir voice example` prints one,
`weir voice schema` the same for editors). "No: ..." gives the value without the key.
"""

CAUSES_PAGE: Final = Path(__file__).parent / "causes.md"

CAUSES_INTRO: Final = """\
# Causes of slow transfers

<!-- Written by docs/tables.py from python/weirlab/diagnosis/causes.py: change the words there. -->

What `weir trace`, `weir tcp why`, `weir tcp measure` and `weir web` name as the reason why a transfer was not
faster. The share beside a cause is its part of the time from the first data to the last. [How causes are
found](diagnosis.md) has the rules, what can be told from where, and how often the answers were right.

While the transfer runs, ask at the end that sends: `weir tcp why PROGRAM` ([more](tcp.md)). Later, read a
capture, best from the sender: `weir trace FILE` ([more](trace.md)). `weir tcp why` at the end that receives
tells the faults of that end (a slow reader, a small buffer); else it says that the sender or the network was
the limit.

| confidence | means |
|---|---|
| high | no other known cause looks like this from there |
| medium | something else may look like this: mostly other traffic in the same bottleneck |
| low | another cause looks the same; look at the other end before you change anything |

| cause | what happened | where | what to do |
|---|---|---|---|
"""

KINDS: Final = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}


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
        "Simulated sweeps",
        "A row for each simulation of `weir simulate` ([simulate.md](simulate.md)); no trials.",
        {SIMULATIONS: SimulationRow},
    ),
    Group(
        "Runs with calls",
        "Beside the tables above, where `--packets` asked for it ([calls.md](calls.md)).",
        {"packets": PacketRow},
    ),
    Group(
        "Runs about capacity",
        "Beside the tables above ([capacity.md](capacity.md)).",
        {"capacity": CapacityRow, "inside": InsideRow, "gaps": CallGapRow},
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
        "Runs about the cost of ESP",
        "What `weir ipsec cost` keeps ([ipsec.md](ipsec.md)).",
        {COSTS: EspCostRow},
    ),
    Group(
        "Publications, repeated",
        "What `weir reproduce` keeps ([reproduce.md](reproduce.md)); its experiments are runs of their own.",
        {ROWS: ReproductionRow},
    ),
    Group(
        "Campaigns",
        "What `weir campaign` keeps ([campaigns.md](campaigns.md)); its steps are runs of their own.",
        {STEPS: StepRow, MEASURES: MeasureRow},
    ),
    Group(
        "Runs about voice routing",
        "What `weir voice prove` keeps, then what `weir voice load` does ([voice-proof.md](voice-proof.md)).",
        {
            CALLS: ProofCallRow,
            MESSAGES: MessageRow,
            LOGS: LogRow,
            DEVICE: PassageRow,
            TRIALS: LoadTrialRow,
            WORK: WorkRow,
            LIMITS: LoadLimitRow,
        },
    ),
    Group(
        "Series of a trace",
        "What `weir trace --series` writes; times are since 1970, UTC ([trace.md](trace.md)). The files of "
        "`weir tcp watch` are described in [tcp-watch.md](tcp-watch.md).",
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
    return _code(inspect.getdoc(row) or "")


def _line(column: Column) -> str:
    meaning = _code(column.meaning).replace("|", "\\|")
    return f"| `{column.name}` | {column.type} | {column.unit} | {meaning} |"


def plan_keys() -> str:
    """The keys of a numbering plan, from its JSON Schema."""
    schema = json_schema()
    sections = {"The plan": schema, **schema["$defs"]}
    return "\n".join([PLAN_INTRO, *(line for name, of in sections.items() for line in _section(name, of))])


def _section(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    if "properties" not in schema:
        return
    about = "" if name == "The plan" else f"{_code(schema.get('description', ''))}\n"
    yield f"## {name}\n\n{about}".rstrip() + "\n"
    yield "| key | value | needed | meaning |\n|---|---|---|---|"
    needed = schema.get("required", ())
    for key, value in schema["properties"].items():
        default = value.get("default")
        often = (
            "yes"
            if key in needed
            else f"no (default: {json.dumps(default)})"
            if default not in (None, [], {}, "")
            else "no"
        )
        meaning = _code(value.get("description", "")).replace("|", "\\|")
        yield f"| `{key}` | {_kind(value)} | {often} | {meaning} |"
    yield ""


def _kind(value: Mapping[str, Any]) -> str:
    """A value in words: ``list of Rewrite``, ``text or whole number``."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_kind(one) for one in value["anyOf"] if one.get("type") != "null"))
    match value.get("type"):
        case "array":
            return f"list of {_kind(value.get('items', {}))}"
        case "object":
            more = value.get("additionalProperties")
            return f"by name: {_kind(more)}" if isinstance(more, dict) else "keys and values"
        case kind:
            return KINDS.get(kind or "", "text")


def _code(text: str) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", " ".join(text.split()))


def causes() -> str:
    """The page of causes, from their table."""
    rows = (f"| `{each.key}` | {each.held} | {each.who} | {each.remedy or '–'} |\n" for each in CAUSES)
    return CAUSES_INTRO + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check, old = parser.parse_args().check, []
    for path, text in ((PAGE, page()), (PLAN_PAGE, plan_keys()), (CAUSES_PAGE, causes())):
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            old.append(path)
            print(f"{path} is out of date: python docs/tables.py writes it", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
