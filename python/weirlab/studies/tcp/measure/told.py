"""A measurement for people and for JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from weirlab.cli import diagnosis
from weirlab.quantities import NOTHING
from weirlab.studies.tcp.measure import axis, result
from weirlab.studies.tcp.measure.result import Found
from weirlab.tables import Table
from weirlab.trace import times
from weirlab.trace.quantities import bit_rate, count, duration, size

if TYPE_CHECKING:
    from weirlab.store import Run

PRINTED: Final = (
    "sender.throughput_bps",
    "sender.rtt_us",
    "sender.snd_cwnd",
    "sender.snd_wnd_bytes",
    "receiver.rqueue_bytes",
    "capture.flight_bytes",
    "capture.retransmissions",
)
"""Characteristics that a terminal has room for; JSON and the run have more."""
MOST_ROWS: Final = 60
"""Of the axis on a terminal; the run has all."""


def document(found: Found, run: Run) -> dict[str, Any]:
    """For JSON."""
    from weirlab.studies.tcp.show import tables as shown

    outcome = found.measured.outcome
    return {
        "kind": "tcp measure",
        "run_id": run.run_id,
        "path": run.path,
        "since_1970_ns": found.start_ns,
        "interrupted": outcome.interrupted,
        "clocks": result.clocks(found.measured),
        "capture": {"interface": found.capture.interface or None, "why_not": found.capture.why_not or None},
        "directions": [shown.summary_document(each) for each in outcome.directions],
        "diagnoses": [
            {"connection": number, **each.document()}
            for number, by_source in found.diagnoses.items()
            for each in by_source.values()
        ],
        "period_ns": found.asked.period_ns,
        "axis": found.axis.to_dicts(),
    }


def conclusion(found: Found, run: Run) -> str:
    """The result in sentences: how fast, why not faster, how well the clocks are known, where it is kept."""
    from weirlab.studies.tcp.show import tables as shown

    said = [
        shown.direction_sentence(each, found.measured.outcome) for each in found.measured.outcome.directions
    ]
    best = found.best
    said += [
        each.sentence if len(best) == 1 else f"Connection {number}: {each.sentence}"
        for number, each in best.items()
    ]
    return " ".join([*said, clocks_sentence(found), f"Run {run.run_id}."])


def clocks_sentence(found: Found) -> str:
    """How far times of the two ends can be compared."""
    known = found.measured.offset
    if found.measured.same_clock:
        return "Both ends have one clock."
    if known is None:
        return (
            "The clocks of the two ends could not be compared: times at the server are as if it had begun "
            "when this end did."
        )
    ahead = "ahead of" if known.ns >= 0 else "behind"
    drift = " They ran apart meanwhile." if known.drifted else ""
    return (
        f"The server's clock is {duration(abs(known.ns))} {ahead} this one, give or take "
        f"{duration(known.bound_ns)} ({count(known.exchanges)} exchanges).{drift}"
    )


def tables(found: Found, *, absolute: bool) -> list[Table]:
    """The axis at the period for people, then each diagnosis."""
    made = [_axis(found, absolute=absolute)]
    for number, by_source in found.diagnoses.items():
        for source, each in by_source.items():
            named = f"connection {number}, " if len(found.diagnoses) > 1 else ""
            first, *rest = diagnosis.tables(each)
            made.append(replace(first, caption=f"{first.caption}: {named}seen by {each.document()['from']}"))
            made += rest if source == "kernel" else []
    return made


def remarks(found: Found) -> list[str]:
    """What cannot be told, and what should be set otherwise."""
    said = [f"No capture: {found.capture.why_not}."] if found.capture.path is None else []
    for each in found.best.values():
        said += diagnosis.remarks(each)
    return list(dict.fromkeys(said))


def _axis(found: Found, *, absolute: bool) -> Table:
    rows = axis.coarser(found.axis, max(found.asked.print_ns, found.asked.period_ns), found.start_ns)
    names = [name for name in rows.columns if name != "time_ns"]
    if found.asked.names is None:
        names = [name for name in names if name.endswith(PRINTED)]
    left_out = max(rows.height - MOST_ROWS, 0)
    cells = []
    for row in rows.head(MOST_ROWS).iter_rows(named=True):
        at = row["time_ns"]
        time = times.absolute(at, 3) if absolute else f"{(at - found.start_ns) / 1e9:.3f} s"
        cells.append([time, *(_shown(name, row[name]) for name in names)])
    caption = "One axis" if not left_out else f"One axis; {count(left_out)} later rows are in the run"
    return Table(caption, ["Time", *names], cells, range(len(names) + 1), spare=names[:0:-1])


def _shown(name: str, value: Any) -> str:
    if value is None:
        return NOTHING
    if name.endswith("_bps"):
        return bit_rate(value)
    if name.endswith("_us"):
        return duration(value * 1e3)
    return size(value) if name.endswith("_bytes") else count(value)
