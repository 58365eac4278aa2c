"""Transfers at work and done: one at a time, so that none spoils another one's numbers."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weirlab.cli.program import failures
from weirlab.documents import plain
from weirlab.errors import InputError, WeirError
from weirlab.link.stopping import Stop
from weirlab.studies.tcp import sending, shares
from weirlab.studies.tcp.measure import measuring
from weirlab.studies.tcp.measure.coarser import Coarser
from weirlab.studies.tcp.results import Interval
from weirlab.studies.tcp.show import tables as shown
from weirlab.web.measurements import Measurement, Measurements
from weirlab.web.tables import for_page
from weirlab.web.transfers import asking, axis, explaining, rows
from weirlab.web.transfers.recording import Recording, Tapes

RESULT: Final = "result.json"
INTERVALS: Final = "intervals.json"
AXIS: Final = "axis.json"
_LOOK_S: Final = 0.1
_GRACE_S: Final = 5.0
"""Beyond the longest transfer, before one that ends by bytes is ended."""
_MOST_DETAILED: Final = 4
"""Connections up to which each one's fields are kept: of more they would take much memory."""

_TOO_MUCH: Final = (
    "So many connections for so long are not explained: what both kernels report would not be kept."
)


class Busy(WeirError):
    """Another transfer is at work, or a scenario."""


@dataclass
class Moved:
    """What all transfers moved so far, by direction."""

    received_bytes: Counter[str] = field(default_factory=lambda: Counter(up=0, down=0))
    retransmissions: Counter[str] = field(default_factory=lambda: Counter(up=0, down=0))

    def count(self, interval: Interval) -> None:
        """One more interval."""
        self.received_bytes[interval.direction] += interval.received_bytes
        self.retransmissions[interval.direction] += interval.retransmissions or 0


@dataclass
class Transfer:
    """One at work. ``events`` only grows; browsers are told those that they do not have yet."""

    one: Measurement
    settings: sending.Settings
    captured: bool = False
    moved: Moved = field(default_factory=Moved)
    stop: Stop = field(default_factory=Stop)
    events: list[dict[str, Any]] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    sent: bool = False
    """Nothing more is sent: what may last is the reading of captures."""
    unread: bool = False
    """Whoever asked for the end wants no capture to be read."""
    over: bool = False
    _coarser: Coarser = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._coarser = Coarser(self.settings.interval_s)

    def ask_to_end(self) -> bool:
        """Ask for the end in good order, or for that of the reading; False where it is over."""
        with self._lock:
            if not self.over:
                self.stop.request()
                self.unread = self.sent
            return not self.over

    def end_sending(self) -> None:
        """It has lasted as long as it may."""
        with self._lock:
            if not self.sent:
                self.stop.request()

    def has_sent(self) -> None:
        """Whoever asks for the end from here on does not want the captures to be read."""
        with self._lock:
            self.sent = True

    def close(self) -> None:
        """It is over. From here on nobody asks for the end: what that is written to may be another file's."""
        with self._lock:
            self.sent = self.over = True
            self.stop.__exit__(None, None, None)

    def started(self, event: Mapping[str, Any]) -> None:
        self._tell("started", {"connections": plain(event["connections"]), "same_clock": event["same_clock"]})

    def interval(self, interval: Interval) -> None:
        for whole in self._coarser.take(interval):
            self._drawn(whole)

    def rest(self) -> None:
        """No more intervals come."""
        for whole in self._coarser.rest():
            self._drawn(whole)

    def blocks(self, event: Mapping[str, Any]) -> None:
        """Not asked for."""

    def reading(self) -> None:
        """No more is sent; the captures are read."""
        self._tell("reading", {})

    def end(self, document: dict[str, Any]) -> None:
        """The last event."""
        self._tell("done", document)

    def _drawn(self, interval: Interval) -> None:
        self.intervals.append(interval)
        self.moved.count(interval)
        self._tell("interval", rows.interval(interval))

    def _tell(self, kind: str, document: dict[str, Any]) -> None:
        self.events.append({"event": kind, **document})


@dataclass
class Transfers:
    """Begins transfers, and keeps what came of them. ``bench`` is held by whoever measures on this host."""

    measurements: Measurements
    most_s: float
    recording: Recording
    bench: threading.Lock = field(default_factory=threading.Lock)
    begun: int = 0
    failed: int = 0
    moved: Moved = field(default_factory=Moved)
    _at_work: dict[str, Transfer] = field(default_factory=dict)
    _thread: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def go_on(self) -> None:
        """A transfer that an earlier service was at is lost, and says so."""
        for one in self.measurements.all():
            if one.state.kind == "transfer" and one.state.stage == "working":
                one.change(stage="failed", message="The service ended while this transfer was at work.")

    def start(self, asked: asking.Asked) -> Measurement:
        """Begin a transfer.

        Raises
        ------
        InputError
            It cannot be what is asked for.
        Busy
            There is one at work, or a scenario.
        """
        settings = asking.settings(asked, self.most_s)
        with self._lock:
            if not self.bench.acquire(blocking=False):
                raise Busy("Another test is at work here. Try again when it has ended, or stop it.")
            try:
                one = self.measurements.create("transfer", asked.name())
                one.change(stage="working", facts={"asked": asked.public()})
                transfer = Transfer(one, settings, asked.capture, self.moved)
                thread = threading.Thread(target=self._run, args=(transfer,), name="weir-transfer")
                thread.start()
            except BaseException:
                self.bench.release()
                raise
            self._at_work, self._thread = {one.data_id: transfer}, thread
            self.begun += 1
        return one

    def stop(self, one: Measurement) -> None:
        """End it in good order."""
        transfer = self._at_work.get(one.data_id)
        if transfer is None or not transfer.ask_to_end():
            raise InputError("This transfer is not at work.")

    async def events(self, one: Measurement, closing: Callable[[], bool]) -> AsyncIterator[dict[str, Any]]:
        """What happened so far, and what happens until it is over."""
        transfer = self._at_work.get(one.data_id)
        if transfer is None:
            for interval in one.read(INTERVALS) if one.has(INTERVALS) else ():
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
        """All sources on one axis of time, as :func:`axis.drawn` has them."""
        if not one.has(AXIS):
            raise InputError("Of this test there is no such axis.")
        return dict(one.read(AXIS))

    def result(self, one: Measurement) -> dict[str, Any]:
        """What came of it."""
        state = one.state
        kept = one.read(RESULT) if one.has(RESULT) else {}
        return {"stage": state.stage, "message": state.message, **kept}

    def close(self) -> None:
        """End what is at work."""
        for transfer in self._at_work.values():
            transfer.ask_to_end()
        if self._thread is not None:
            self._thread.join()

    def _run(self, transfer: Transfer) -> None:
        # Bytes may take longer than anybody waits.
        latest = threading.Timer(self.most_s + _GRACE_S, transfer.end_sending)
        latest.start()
        message, result = "", {}
        try:
            with self.recording.of(transfer.one, transfer.settings, transfer.captured) as tapes:
                outcome, measured = self._carried_out(transfer, tapes.settings)
                transfer.has_sent()
                tapes.ended(outcome)
                why = self._explained(transfer, measured, tapes)
                why["captures"] = tapes.handed_on()
            document = plain(shown.send_document(outcome, transfer.settings))
            said, caution, rest = shown.send_conclusion(outcome).partition(shares.CAUTION)
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

    def _carried_out(
        self, transfer: Transfer, settings: sending.Settings
    ) -> tuple[sending.Outcome, measuring.Measured | None]:
        """What came of it, and what both kernels reported, unless that would be too much to keep."""
        every_s = explaining.period_s(settings, self.most_s)
        if every_s is None:
            outcome = sending.send(settings, transfer, transfer.stop)
            transfer.rest()
            return outcome, None
        often = replace(settings, interval_s=every_s)
        watched = measuring.Watched(transfer, 0.0, explaining.MOST_REPORTS)
        outcome = sending.send(often, watched, transfer.stop, watched.event)
        transfer.rest()
        if watched.too_many:
            return outcome, None
        measured = measuring.measured(outcome, watched)
        return measured.outcome, measured

    @staticmethod
    def _explained(transfer: Transfer, measured: measuring.Measured | None, tapes: Tapes) -> dict[str, Any]:
        """``why`` it was not faster, or why that is not told (``unexplained``).

        ``unread``: why the captures have no part in it.
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
            # A child process computes this, too, where it has read captures.
            period_s = transfer.settings.interval_s
            drawn = axis.drawn(measured, period_s) if seen is None else seen.axis
            if drawn is not None:
                transfer.one.keep(AXIS, drawn)
            why = explaining.why(measured, [] if seen is None else seen.connections)
            return {"why": why, "unread": unread, "on_one_axis": drawn is not None}
        except Exception as error:
            # The numbers of the transfer count all the same.
            return {"unexplained": failures.explain(error).message}

    def _keep(self, transfer: Transfer, message: str, result: dict[str, Any]) -> None:
        one = transfer.one
        self.failed += bool(message)
        try:
            one.keep(INTERVALS, [rows.interval(each) for each in transfer.intervals])
            rows.write(one.path, transfer.intervals, detailed=self._detailed(transfer))
            if result:
                one.keep(RESULT, result)
            told = result.get("conclusion", "")
            one.change(
                stage="failed" if message else "ready",
                message=message,
                facts={**one.state.facts, "conclusion": told},
            )
            transfer.end(self.result(one))
        except WeirError as error:
            transfer.end({"stage": "failed", "message": str(error)})
        finally:
            transfer.close()
            self.bench.release()

    @staticmethod
    def _detailed(transfer: Transfer) -> bool:
        return transfer.settings.up + transfer.settings.down <= _MOST_DETAILED
