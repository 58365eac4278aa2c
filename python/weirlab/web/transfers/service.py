"""Transfers, running and finished: one at a time, so that none spoils another's numbers."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weirlab.base.documents import plain
from weirlab.base.errors import InputError, WeirError
from weirlab.diagnosis.finding import CAUTION
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.measure import measuring
from weirlab.transfers.tcp.measure.samples import IntervalMerger
from weirlab.transfers.tcp.results import Interval
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.transfers.tcp.show import tables as shown
from weirlab.web import failures
from weirlab.web.measurements.measurement import Measurement, Measurements
from weirlab.web.measurements.space import Space, SpaceReservation
from weirlab.web.tables import for_page
from weirlab.web.transfers import asking, axis, explaining, rows
from weirlab.web.transfers.recording import Connection, TestCaptures, TestRecorder

RESULT: Final = "result.json"
INTERVALS: Final = "intervals.json"
AXIS: Final = "axis.json"
_LOOK_S: Final = 0.1
_GRACE_S: Final = 5.0
"""Added to the longest time before a transfer that ends by bytes is stopped."""
_MOST_DETAILED: Final = 4
"""Most connections whose fields are kept one by one: more would take much memory."""

BUSY: Final = "Another test is running here. Try again when it has ended, or stop it."
_TOO_MUCH: Final = "There is no diagnosis: with so many connections, kernels report too much to keep."


class BusyError(WeirError):
    """Another transfer or a scenario is running."""


TransferBeginning = Callable[[TransferSettings, Stop, ends.Tell | None], ends.Transfer]
"""Begins a transfer, and returns when data flows."""


@dataclass
class TransferTotals:
    """What all transfers have moved so far, by direction."""

    received_bytes: Counter[str] = field(default_factory=lambda: Counter(up=0, down=0))
    retransmissions: Counter[str] = field(default_factory=lambda: Counter(up=0, down=0))

    def count(self, interval: Interval) -> None:
        """One more interval."""
        self.received_bytes[interval.direction] += interval.received_bytes
        self.retransmissions[interval.direction] += interval.retransmissions or 0


@dataclass
class WebTransfer:
    """A running transfer. ``events`` only grows; browsers get the events that they do not have yet."""

    one: Measurement
    settings: TransferSettings
    claim: SpaceReservation
    """To the room of its numbers."""
    captured: bool = False
    served: Connection | None = None
    """The connection of a client that asked for the test."""
    unrecorded: str = ""
    """Why its packets are not to be recorded; empty if they are."""
    begin: TransferBeginning = ends.begin
    moved: TransferTotals = field(default_factory=TransferTotals)
    stop: Stop = field(default_factory=Stop)
    events: list[dict[str, Any]] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    sent: bool = False
    """Nothing more is sent; reading the captures may still take time."""
    unread: bool = False
    """The captures are not to be read, because the user stopped the transfer after it had sent."""
    over: bool = False
    measures: bool = True
    """It holds the bench."""
    _coarser: IntervalMerger = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._coarser = IntervalMerger(self.settings.interval_s)

    def ask_to_end(self) -> bool:
        """Request a clean end of the transfer, or of the reading; False if it is over."""
        with self._lock:
            if not self.over:
                self.stop.request()
                self.unread = self.sent
            return not self.over

    def end_sending(self) -> None:
        """End sending at the time limit."""
        with self._lock:
            if not self.sent:
                self.stop.request()

    def has_sent(self) -> None:
        """Record that all is sent: from here on, a request to end skips reading the captures."""
        with self._lock:
            self.sent = True

    def close(self) -> None:
        """End it. From here on no end is requested: its file descriptor may belong to another file."""
        with self._lock:
            self.sent = self.over = True
            self.stop.__exit__(None, None, None)

    def started(self, event: Mapping[str, Any]) -> None:
        self._tell("started", {"connections": plain(event["connections"]), "same_clock": event["same_clock"]})

    def interval(self, interval: Interval) -> None:
        for whole in self._coarser.take(interval):
            self._drawn(whole)

    def rest(self) -> None:
        """Report the rest when no more intervals come."""
        for whole in self._coarser.rest():
            self._drawn(whole)

    def blocks(self, event: Mapping[str, Any]) -> None:
        """Not requested."""

    def reading(self) -> None:
        """Report that the captures are being read."""
        self._tell("reading", {})

    def end(self, document: dict[str, Any]) -> None:
        """Report the last event."""
        self._tell("done", document)

    def _drawn(self, interval: Interval) -> None:
        self.intervals.append(interval)
        self.moved.count(interval)
        self._tell("interval", rows.interval(interval))

    def _tell(self, kind: str, document: dict[str, Any]) -> None:
        self.events.append({"event": kind, **document})


@dataclass
class Transfers:
    """Begins transfers, and keeps their results. ``bench`` is held while anything measures on this host."""

    measurements: Measurements
    space: Space
    most_s: float
    recording: TestRecorder
    bench: threading.Lock = field(default_factory=threading.Lock)
    begun: int = 0
    failed: int = 0
    moved: TransferTotals = field(default_factory=TransferTotals)
    _at_work: dict[str, WebTransfer] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _explaining: threading.Lock = field(default_factory=threading.Lock)
    """Held while a test is diagnosed that no longer holds the bench."""

    def go_on(self) -> None:
        """Mark transfers that an earlier service left unfinished as failed."""
        for one in self.measurements.all():
            if one.state.kind == "transfer" and one.state.stage == "working":
                one.advance(stage="failed", message="The service ended during this transfer.")

    def start(self, asked: asking.TransferRequest) -> Measurement:
        """Begin a transfer.

        Raises
        ------
        InputError
            The request is invalid.
        BusyError
            Another transfer or a scenario is running.
        """
        settings = asking.settings(asked, self.most_s)
        return self._begun(asked.name(), {"asked": asked.public()}, settings, captured=asked.capture)

    def serve(
        self,
        name: str,
        facts: dict[str, Any],
        settings: TransferSettings,
        begin: TransferBeginning,
        connection: Connection,
        unrecorded: str = "",
    ) -> Measurement:
        """Keep a test that a client asked for over ``connection``, as if it were begun here.

        When ``begin`` is called, its packets are recorded, if they can be, unless ``unrecorded`` says why
        not. Raises ``BusyError``.
        """
        return self._begun(name, facts, settings, begin=begin, served=connection, unrecorded=unrecorded)

    def _begun(self, name: str, facts: dict[str, Any], settings: TransferSettings, **how: Any) -> Measurement:
        with self._lock:
            if not self.bench.acquire(blocking=False):
                raise BusyError(BUSY)
            try:
                # Its numbers take less than a step.
                claim = self.space.claim(self.space.step)
                try:
                    with self.measurements.created("transfer", name) as one:
                        one.change(stage="working", facts=facts)
                        claim.cover(one)
                        claim.use(claim.size)
                        transfer = WebTransfer(one, settings, claim, moved=self.moved, **how)
                        thread = threading.Thread(target=self._run, args=(transfer,), name="weir-transfer")
                        thread.start()
                except BaseException:
                    claim.release()
                    raise
            except BaseException:
                self.bench.release()
                raise
            self._at_work = {name: at for name, at in self._at_work.items() if not at.over}
            self._at_work[one.data_id] = transfer
            self._threads = [*(other for other in self._threads if other.is_alive()), thread]
            self.begun += 1
        return one

    def stop(self, one: Measurement) -> None:
        """End a transfer cleanly."""
        transfer = self._at_work.get(one.data_id)
        if transfer is None or not transfer.ask_to_end():
            raise InputError("This transfer is not running.")

    async def events(self, one: Measurement, closing: Callable[[], bool]) -> AsyncIterator[dict[str, Any]]:
        """All events so far, then new ones until the transfer is over."""
        transfer = self._at_work.get(one.data_id)
        if transfer is None:
            for interval in one.read(INTERVALS, list) if one.has(INTERVALS) else ():
                yield {"event": "interval", **interval}
            yield {"event": "done", **self.result(one)}
            return
        told = 0
        while not closing():
            fresh = transfer.events[told:]
            for event in fresh:
                yield event
            told += len(fresh)
            if transfer.over and told == len(transfer.events):
                return
            await asyncio.sleep(_LOOK_S)

    def axis(self, one: Measurement) -> dict[str, Any]:
        """All sources on one time axis, as :func:`axis.drawn` returns them."""
        if not one.has(AXIS):
            raise InputError("This test has no common time axis.")
        return one.read(AXIS, dict)

    def result(self, one: Measurement) -> dict[str, Any]:
        """The result of a transfer."""
        state = one.state
        kept = one.read(RESULT, dict) if one.has(RESULT) else {}
        return {"stage": state.stage, "message": state.message, **kept}

    def close(self) -> None:
        """End the running transfer, if there is one."""
        for transfer in self._at_work.values():
            transfer.ask_to_end()
        for thread in self._threads:
            thread.join()

    def _run(self, transfer: WebTransfer) -> None:
        # A transfer that ends by bytes may last too long.
        latest = threading.Timer(self.most_s + _GRACE_S, transfer.end_sending)
        latest.start()
        message, result = "", {}
        try:
            with self._recorded(transfer) as tapes, ExitStack() as turn:
                outcome, measured = self._carried_out(transfer, tapes)
                transfer.has_sent()
                tapes.ended(outcome)
                if transfer.served is not None:
                    # Its client goes on with the other way at once, and is soon out of patience.
                    turn.enter_context(self._explaining)
                    self._leave_bench(transfer)
                why = self._explained(transfer, measured, tapes)
                why["captures"] = tapes.handed_on()
            document = plain(shown.send_document(outcome, transfer.settings))
            said, caution, rest = shown.send_conclusion(outcome).partition(CAUTION)
            result = {
                "conclusion": said.strip(),
                "notes": [rest.strip()] if rest.strip() else [],
                "caution": caution,
                **why,
                "tables": [for_page(each) for each in shown.sent(outcome)],
                "result": document,
            }
            message = str(outcome.problem() or "")
        except KeyboardInterrupt:
            message = "It was stopped before the first byte."
        except BaseException as error:
            message = failures.explain(error).message
        latest.cancel()
        self._keep(transfer, message, result)

    def _leave_bench(self, transfer: WebTransfer) -> None:
        if transfer.measures:
            transfer.measures = False
            self.bench.release()

    def _recorded(self, transfer: WebTransfer) -> AbstractContextManager[TestCaptures]:
        one, settings, claim = transfer.one, transfer.settings, transfer.claim
        if transfer.served is not None:
            return self.recording.served(one, settings, transfer.served, claim, transfer.unrecorded)
        return self.recording.of(one, settings, transfer.captured, claim)

    def _carried_out(
        self, transfer: WebTransfer, tapes: TestCaptures
    ) -> tuple[ends.TransferOutcome, measuring.TransferMeasurement | None]:
        """The outcome, and what both kernels reported unless that would be too much to keep."""
        settings = tapes.settings
        every_s = explaining.period_s(settings, self.most_s)
        if every_s is None:
            begun = transfer.begin(settings, transfer.stop, None)
            tapes.begun(begun.started)
            outcome = begun.carry(transfer, transfer.stop)
            transfer.rest()
            return outcome, None
        often = replace(settings, interval_s=every_s)
        watched = measuring.ReportCollector(transfer, 0.0, explaining.MOST_REPORTS)
        begun = transfer.begin(often, transfer.stop, watched.event)
        tapes.begun(begun.started)
        outcome = begun.carry(watched, transfer.stop)
        transfer.rest()
        if watched.too_many:
            return outcome, None
        measured = measuring.measured(outcome, watched)
        return measured.outcome, measured

    @staticmethod
    def _explained(
        transfer: WebTransfer, measured: measuring.TransferMeasurement | None, tapes: TestCaptures
    ) -> dict[str, Any]:
        """``why`` it was not faster, or the reason that there is no diagnosis (``unexplained``).

        ``unread``: why the captures were not used.
        """
        if measured is None:
            return {"unexplained": _TOO_MUCH}
        seen, unread = None, ""
        if tapes.captures:
            transfer.reading()
        try:
            seen = tapes.seen(measured, lambda: transfer.unread)
        except Exception as error:
            unread = failures.explain(error).message
        try:
            # If a child process has read captures, it has computed this, too.
            period_s = transfer.settings.interval_s
            drawn = axis.drawn(measured, period_s) if seen is None else seen.axis
            if drawn is not None:
                transfer.one.keep(AXIS, drawn)
            why = explaining.why(measured, [] if seen is None else seen.connections)
            return {"why": why, "unread": unread, "on_one_axis": drawn is not None}
        except Exception as error:
            # The numbers of the transfer are valid nevertheless.
            return {"unexplained": failures.explain(error).message}

    def _keep(self, transfer: WebTransfer, message: str, result: dict[str, Any]) -> None:
        one = transfer.one
        self.failed += bool(message)
        try:
            one.keep(INTERVALS, [rows.interval(interval) for interval in transfer.intervals])
            rows.write(one.path, transfer.intervals, detailed=self._detailed(transfer))
            if result:
                one.keep(RESULT, result)
            one.advance(
                stage="failed" if message else "ready",
                message=message,
                facts={**one.state.facts, "conclusion": result.get("conclusion", "")},
            )
            transfer.end(self.result(one))
        except WeirError as error:
            message = failures.explain(error).message
            # Numbers that are not whole are of no use.
            one.empty()
            one.advance(stage="failed", message=message)
            transfer.end({"stage": "failed", "message": message})
        finally:
            transfer.claim.release()
            transfer.close()
            self._leave_bench(transfer)

    @staticmethod
    def _detailed(transfer: WebTransfer) -> bool:
        return transfer.settings.up + transfer.settings.down <= _MOST_DETAILED
