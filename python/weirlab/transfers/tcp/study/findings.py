"""The findings of a measurement, for people and for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weirlab.base.errors import TrialError, WeirError
from weirlab.base.quantities import NOTHING
from weirlab.base.tables import Table
from weirlab.cli.results import diagnosis
from weirlab.diagnosis.both import crossing
from weirlab.diagnosis.causes import PLACES
from weirlab.store import Run
from weirlab.trace import quantities
from weirlab.trace.quantities import Window, bit_rate, count, duration, plural, size
from weirlab.transfers.tcp.measure import samples
from weirlab.transfers.tcp.measure.capturing import TransferCapture
from weirlab.transfers.tcp.show import facts as shown_both
from weirlab.transfers.tcp.show import tables as shown
from weirlab.transfers.tcp.study.columns import AgreementRow, CaptureRow, CrossingRow, TransferRow
from weirlab.transfers.tcp.study.kept import TransferRecord

PRINTED: Final = (
    "sender.throughput_bps", "sender.rtt_us", "sender.snd_cwnd", "sender.snd_wnd_bytes",
    "receiver.rqueue_bytes", "capture.flight_bytes", "capture.retransmissions",
)  # fmt: skip
"""Characteristics that a terminal has room for; JSON and the run have more."""
MOST_ROWS: Final = 60
"""Most rows of the axis that a terminal shows; the run has all."""
_SECOND_NS: Final = 1_000_000_000

PATH: Final = "path"
"""Name under which a run stores what happened to the frames on its emulated path."""


@dataclass(frozen=True)
class AxisView:
    """Which part of the axis is shown: ``window``, in periods of ``print_ns``, with times in UTC or not.

    ``chosen``: show all columns, because the user chose them.
    """

    print_ns: int = _SECOND_NS
    window: Window = field(default_factory=Window)
    absolute: bool = False
    chosen: bool = False


@dataclass(frozen=True)
class TcpFindings:
    """How fast the transfer was, and why it was not faster."""

    kept: TransferRecord
    view: AxisView = field(default_factory=AxisView)

    @property
    def interrupted(self) -> bool:
        return self.kept.transfer.interrupted

    def document(self) -> dict[str, Any]:
        kept, transfer = self.kept, self.kept.transfer
        return {
            "kind": "tcp measure",
            "since_1970_ns": transfer.start_ns,
            "interrupted": transfer.interrupted,
            "clocks": clocks(transfer),
            "capture": {"interface": transfer.interface or None, "why_not": transfer.why_no_capture or None},
            "captures": {
                end: {name: value for name, value in vars(row).items() if name not in ("trial_id", "end")}
                for end, row in kept.captures.items()
            },
            "crossings": [_document(each) for each in kept.crossings],
            "agreement": [_document(each) for each in kept.agreement],
            "directions": [shown.summary_document(summary) for summary in kept.summaries()],
            "connections": [vars(connection) for connection in kept.connections],
            "diagnoses": [
                {"connection": number, **each.document()}
                for number, by_source in kept.diagnoses.items()
                for each in by_source.values()
            ],
            "period_ns": transfer.period_ns,
            "axis": self._shown().to_dicts(),
        }

    def problem(self, run: Run) -> WeirError | None:
        """The error if connections broke off."""
        failures = [direction.failure for direction in self.kept.directions if direction.failure]
        return TrialError(f"connections broke off: {'; '.join(failures)}") if failures else None

    def conclusion(self, run_id: str) -> str:
        """How fast it was, why not faster, how well the clocks are known, and which run has it."""
        return " ".join([*self.sentences(), clocks_sentence(self.kept.transfer), f"Run {run_id}."])

    def sentences(self) -> list[str]:
        """How fast the transfer was, and why not faster."""
        kept = self.kept
        numbers = {direction.direction: direction.connections for direction in kept.directions}
        said = [shown.direction_sentence(summary, numbers[summary.direction]) for summary in kept.summaries()]
        said += [
            each.sentence if len(kept.best) == 1 else f"Connection {number}: {each.sentence}"
            for number, each in kept.best.items()
        ]
        return [*said, *between(kept)]

    def tables(self) -> list[Table]:
        """The axis at the period for people, then each connection's diagnosis, and what each place shows."""
        from weirlab.transfers.tcp.show import facts

        made = [self._axis()]
        for number, best in self.kept.best.items():
            by_source = self.kept.diagnoses[number]
            named = f"connection {number}, " if len(self.kept.diagnoses) > 1 else ""
            first, *rest = diagnosis.tables(best)
            made.append(replace(first, caption=f"{first.caption}: {named}seen by {PLACES[best.source]}"))
            made += rest
            if len(by_source) > 1 and (places := facts.places(by_source)) is not None:
                made.append(places)
        many = len(self.kept.connections) > 1
        agreement = shown_both.agreement(self.kept.agreement, many=many)
        return [*made, *shown_both.crossings(self.kept.crossings), *agreement]

    def remarks(self) -> list[str]:
        """What cannot be told, and which settings should be changed."""
        said = captures_remarks(self.kept)
        for each in self.kept.best.values():
            said += diagnosis.remarks(each)
        return list(dict.fromkeys(said))

    def _shown(self) -> Any:
        return samples.within(self.kept.axis, self.view.window, self.kept.transfer.start_ns)

    def _axis(self) -> Table:
        start_ns = self.kept.transfer.start_ns
        rows = samples.coarser(self._shown(), max(self.view.print_ns, self.kept.transfer.period_ns), start_ns)
        names = [name for name in rows.columns if name != "time_ns"]
        if not self.view.chosen:
            names = [name for name in names if name.endswith(PRINTED)]
        left_out = max(rows.height - MOST_ROWS, 0)
        cells = []
        for row in rows.head(MOST_ROWS).iter_rows(named=True):
            at = row["time_ns"]
            time = quantities.absolute(at, 3) if self.view.absolute else f"{(at - start_ns) / 1e9:.3f} s"
            cells.append([time, *(_cell(name, row[name]) for name in names)])
        caption = "One axis" if not left_out else f"One axis; {count(left_out)} later rows are in the run"
        return Table(caption, ["Time", *names], cells, spare=names[:0:-1])


def _document(row: CrossingRow | AgreementRow) -> dict[str, Any]:
    return {name: value for name, value in vars(row).items() if name != "trial_id"}


def between(kept: TransferRecord) -> list[str]:
    """What the captures at both ends show together, for the connection that moved the most data."""
    found = kept.crossing(kept.busiest)
    before, behind = (kept.crossing(kept.busiest, section) for section in ("before", "behind"))
    said = [] if found is None else crossing.sentences(found)
    return said if before is None or behind is None else [*said, *crossing.located(before, behind)]


def captures_remarks(kept: TransferRecord) -> list[str]:
    """Why there is no capture, and what is missing from the existing ones."""
    why_not = {row.why_not for row in kept.captures.values()}
    if len(why_not) == 1 and "" not in why_not:
        return [f"No capture: {why_not.pop()}."]
    return [said for end, row in kept.captures.items() for said in capture_remarks(where(end), row)]


def where(end: str) -> str:
    """The place of a capture, in words."""
    return "in between" if end == "between" else f"at the {end}"


def capture_remarks(place: str, row: CaptureRow | TransferCapture) -> Iterator[str]:
    """The same for one capture, made at ``place``."""
    if row.why_not:
        yield f"No capture {place}: {row.why_not}."
    if row.lost_packets:
        yield (
            f"{plural(row.lost_packets, 'packet')} came too fast to be captured {place}, or could not be "
            "written to disk."
        )
    if row.left_out_packets:
        yield (
            f"The capture {place} lacks its last {plural(row.left_out_packets, 'packet')}: it reached its "
            "size limit."
        )
    if row.ended_early:
        yield f"The capture {place} ended before the transfer did: it reached its time limit."


def clocks(transfer: TransferRow) -> dict[str, Any]:
    """How the server's times were converted to the client's clock."""
    return {
        "same_clock": transfer.same_clock,
        "offset_ns": transfer.offset_ns,
        "bound_ns": transfer.bound_ns,
        "exchanges": transfer.exchanges,
        "drifted": transfer.drifted,
    }


def clocks_sentence(transfer: TransferRow) -> str:
    """How well times of the two ends can be compared."""
    if transfer.same_clock:
        return "Both ends share one clock."
    if transfer.offset_ns is None or transfer.bound_ns is None:
        return (
            "The clocks of the two ends could not be compared: times at the server assume that it began "
            "when the client did."
        )
    ahead = "ahead of" if transfer.offset_ns >= 0 else "behind"
    drift = " They drifted apart meanwhile." if transfer.drifted else ""
    return (
        f"The server's clock is {duration(abs(transfer.offset_ns))} {ahead} the client's, give or take "
        f"{duration(transfer.bound_ns)} ({count(transfer.exchanges)} exchanges).{drift}"
    )


def _cell(name: str, value: Any) -> str:
    if value is None:
        return NOTHING
    if name.endswith("_bps"):
        return bit_rate(value)
    if name.endswith("_us"):
        return duration(value * 1e3)
    return size(value) if name.endswith("_bytes") else count(value)
