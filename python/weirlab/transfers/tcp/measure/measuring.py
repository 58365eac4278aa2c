"""A measurement from start to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.measure import samples
from weirlab.transfers.tcp.measure.samples import Exchange, IntervalMerger, Offset, Start, offset

if TYPE_CHECKING:
    import polars as pl

    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.transfers.tcp.results import Interval


@dataclass
class ReportCollector:
    """Collects all reports of both ends; if there are more than ``most_reports``, it keeps none."""

    observer: ends.TransferObserver
    print_s: float
    most_reports: int | None = None
    too_many: bool = False
    """There were more than ``most_reports``, so none is kept."""
    reports: list[Mapping[str, Any]] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    began: Mapping[str, Any] = field(default_factory=dict)

    def event(self, event: Mapping[str, Any]) -> None:
        """Take any event of the engine."""
        match event["event"]:
            case "clock":
                self.exchanges.append(Exchange(event["sent_ns"], event["at_ns"], event["heard_ns"]))
            case "begun":
                self.began = event
            case "interval":
                self._keep(event)

    def _keep(self, event: Mapping[str, Any]) -> None:
        if self.too_many:
            return
        self.reports.append(event)
        # Each report has all connections.
        if self.most_reports is not None and len(self.reports) * len(event["flows"]) > self.most_reports:
            self.too_many = True
            self.reports.clear()

    def started(self, event: Mapping[str, Any]) -> None:
        self.observer.started(event)

    def __post_init__(self) -> None:
        self._coarser = IntervalMerger(self.print_s)

    def interval(self, interval: Interval) -> None:
        """Show intervals every ``print_s``, whatever the period of the reports."""
        for whole in self._coarser.take(interval):
            self.observer.interval(whole)

    def rest(self) -> None:
        """Show what came after the last whole ``print_s``."""
        for part in self._coarser.rest():
            self.observer.interval(part)

    def blocks(self, event: Mapping[str, Any]) -> None:
        self.observer.blocks(event)


@dataclass(frozen=True)
class TransferMeasurement:
    """What was measured, before anything is computed from it."""

    outcome: ends.TransferOutcome
    samples: pl.DataFrame
    start: Start
    offset: Offset | None
    same_clock: bool

    @property
    def ups(self) -> list[bool]:
        return [bool(each["up"]) for each in self.outcome.started["connections"]]

    def shift_ns(self, since_1970_ns: int) -> int:
        """What to add to times of the server's clock to get those of the client's.

        ``since_1970_ns`` is the start at the server, by the server's clock.
        """
        used = Offset(0, 0, 0) if self.same_clock else self.offset
        return self.start.axis_ns("server", 0, used) - since_1970_ns


def measured(outcome: ends.TransferOutcome, watched: ReportCollector) -> TransferMeasurement:
    """What was measured in a transfer whose events ``watched`` collected."""
    started, begun = outcome.started, watched.began
    start = Start(
        client_ns=int(begun.get("client_ns", 0)),
        server_ns=int(begun.get("server_ns", 0)),
        client_since_1970_ns=int(started["since_1970_ns"]),
    )
    same = bool(started["same_clock"])
    # With one clock there is nothing to estimate; the estimate is reported nevertheless.
    found = offset(watched.exchanges) if begun else None
    used = Offset(0, 0, len(watched.exchanges)) if same else found
    ups = [bool(each["up"]) for each in started["connections"]]
    return TransferMeasurement(outcome, samples.frame(watched.reports, ups, start, used), start, found, same)


def siblings(measured: TransferMeasurement, number: int) -> int:
    """How many other connections of the test sent in the same direction as this one."""
    return measured.ups.count(measured.ups[number]) - 1


def diagnoses(measured: TransferMeasurement, target_bps: float | None = None) -> dict[int, Diagnosis]:
    """Diagnoses by connection, from the kernels of both ends."""
    from weirlab.diagnosis import kernel
    from weirlab.diagnosis.diagnosing import diagnose

    found = {}
    for number, one in enumerate(measured.outcome.started["connections"]):
        sender = samples.of(measured.samples, number, "sender")
        receiver = samples.receiver(samples.of(measured.samples, number, "receiver"))
        read = kernel.read(
            sender["time_ns"].to_numpy(),
            samples.columns(sender),
            receiver,
            congestion=one["congestion"] or "",
        )
        if read is None:
            continue
        timeline, facts = read
        facts = replace(facts, siblings=siblings(measured, number))
        diagnosis = diagnose(timeline, facts, target_bps=target_bps)
        if diagnosis is not None:
            found[number] = diagnosis
    return found
