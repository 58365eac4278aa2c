"""The packets of a test, recorded at both ends: each capture is then kept like an uploaded one.

Child processes with limits read them, because the other host's capture is foreign.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import InputError, LabError, MissingCapability, WeirError
from weirlab.link.settings import RecorderSettings
from weirlab.trace.quantities import count
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.measure import capturing
from weirlab.transfers.tcp.measure.capturing import End, TransferCapture
from weirlab.transfers.tcp.settings import CaptureFetch, TransferSettings
from weirlab.transfers.tcp.study.findings import capture_remarks
from weirlab.web.children import write_line
from weirlab.web.launching.jobs import RecordingJob
from weirlab.web.launching.launcher import Launcher, piped
from weirlab.web.measurements.measurement import Measurement
from weirlab.web.measurements.space import SpaceReservation
from weirlab.web.transfers.explaining import Reader, TransferAnalysis

if TYPE_CHECKING:
    from weirlab.link.settings import RecorderSettings
    from weirlab.transfers.tcp.measure.measuring import TransferMeasurement


_ERRORS: Final[dict[str, type[WeirError]]] = {
    each.__name__: each for each in (InputError, LabError, MissingCapability)
}


class WebRecorderProcess:
    """As ``weirlab.link.bindings.Recorder``: records into ``settings.path``, in the folder of a test.

    Raises ``InputError``, ``LabError`` or ``MissingCapability`` if nothing can be recorded.
    """

    def __init__(self, launcher: Launcher, settings: RecorderSettings, interface: str) -> None:
        tapes = settings.path.parent
        assert settings.tcp_port is not None
        assert settings.most_bytes is not None
        job = RecordingJob(tapes.parent.name, tapes.name, interface, settings.tcp_port, settings.most_bytes)
        self._process, self._to, self._from = piped(launcher, job)
        self._recorded: dict[str, Any] = {}
        answer = self._answer()
        if (error := answer.get("error")) is not None:
            self._end()
            raise _ERRORS.get(error["kind"], LabError)(error["message"])

    def start(self) -> None:
        """It records already."""

    def name_connections(self, connections: Sequence[tuple[tuple[str, int], tuple[str, int]]]) -> None:
        # If it has ended, its result says so.
        with suppress(OSError):
            write_line(self._to, list(connections))

    def progress(self) -> dict[str, Any]:
        """Nobody asks for it."""
        return {}

    def stop(self) -> dict[str, Any]:
        if not self._to.closed:
            self._to.close()
            self._recorded = self._answer()
            self._end()
        return self._recorded

    def _answer(self) -> dict[str, Any]:
        line = self._from.readline()
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return found
        self._end()
        raise LabError("the process that records packets has ended")

    def _end(self) -> None:
        self._to.close()
        self._process.wait()
        self._from.close()


_ENDS: Final[tuple[End, End]] = ("server", "client")

_MOST_SERVED_BYTES: Final = 64_000_000
"""Of the capture of a client's test, which takes room while the test is read."""

Connection = tuple[tuple[str, int], tuple[str, int]]
"""Its two ends: this one first."""

Adopt = Callable[[str, Path, SpaceReservation], Measurement]
"""Takes a file, under a name, as if it had been uploaded; the claim has its bytes until then."""


@dataclass
class TestCaptures:
    """The captures of one test."""

    settings: TransferSettings
    """Settings of the test, with the request for the captures of other hosts."""
    adopt: Adopt
    reader: Reader
    folder: Path
    here: capturing.LiveCapture
    claim: SpaceReservation
    """To the room of the captures, and of what is made of them."""
    stop: Callable[[], None]
    """Ends the capture of this host, if there is one."""
    served: Connection | None = None
    """The connection of a client that asked for the test: its capture is read, and not kept."""
    captures: dict[End, TransferCapture] = field(default_factory=dict)
    """The captures that have ended; empty if none was requested."""

    def __post_init__(self) -> None:
        if self.served is not None:
            local, remote = self.served
            self.begun({"connections": [{"local": local, "remote": remote}]})

    def begun(self, started: Mapping[str, Any]) -> None:
        """Record the connections of the test, from the event ``started`` of the engine, and no others.

        The first call counts.
        """
        self.here.name_connections(started)

    def ended(self, outcome: ends.TransferOutcome) -> None:
        """End the captures when the test is over."""
        self.stop()
        if self.served is not None:
            self.captures = {"server": self.here.capture}
        elif (fetch := self.settings.fetch) is not None:
            server = capturing.fetched(outcome.recorded, fetch.file, capturing.AUTO)
            client = self.here.capture
            if (far := self.settings.fetch_via) is not None:
                client = capturing.fetched(outcome.recorded_via, far.file, capturing.AUTO)
            self.captures = {"client": client, "server": server}

    def seen(self, measured: TransferMeasurement, unwanted: Callable[[], bool]) -> TransferAnalysis | None:
        """What the captures show; None without any. Raises the errors of :meth:`Reader.read`."""
        if all(capture.path is None for capture in self.captures.values()):
            return None
        told = measured.outcome.recorded
        if told is not None and told["why_not"] is None:
            shift_ns = measured.shift_ns(told["since_1970_ns"])
            self.captures["server"] = replace(self.captures["server"], shift_ns=shift_ns)
        every_s = self.settings.interval_s
        growth = self.claim.growth()
        return self.reader.read(
            measured, self.captures, self.folder, every_s, lambda: growth.check() or unwanted()
        )

    def handed_on(self) -> list[dict[str, Any]]:
        """By end: the ``data_id`` of the capture, or ``why_not``, and what is ``missing`` from it."""
        return [self._one(end, capture) for end, capture in self.captures.items()]

    def _one(self, end: End, capture: TransferCapture) -> dict[str, Any]:
        via = self.settings.via
        here = "this host" if via is None else via.host
        where = here if end == "client" else self.settings.host
        if self.served is not None:
            where = "the service"
        told: dict[str, Any] = {
            "where": where,
            "why_not": capture.why_not,
            "data_id": None,
            "packets": None,
            "missing": [],
        }
        if capture.path is None:
            return told
        packets = None if capture.packets is None else count(capture.packets)
        missing = list(capture_remarks(f"at {where}", capture))
        told = {**told, "why_not": None, "packets": packets, "missing": missing}
        if self.served is not None:
            return told
        made = self.adopt(f"TCP test at {where}.pcapng", capture.path, self.claim)
        return {**told, "data_id": made.data_id}


@dataclass(frozen=True)
class TestRecorder:
    """Records tests, at most ``most_bytes`` each, and has their captures read and adopted."""

    adopt: Adopt
    reader: Reader
    most_bytes: int
    launcher: Launcher

    def _opened(self, wanted: RecorderSettings, interface: str) -> WebRecorderProcess:
        """A recorder in a process of its own, as the service has no right to record."""
        return WebRecorderProcess(self.launcher, wanted, interface)

    @contextmanager
    def served(
        self,
        one: Measurement,
        settings: TransferSettings,
        connection: Connection,
        claim: SpaceReservation,
        why_not: str = "",
    ) -> Iterator[TestCaptures]:
        """Record the test of a client over ``connection`` as :meth:`of` does, at this end only.

        ``why_not`` says why nothing is to be recorded; empty if it is.
        """
        if why_not:
            nothing = capturing.LiveCapture(TransferCapture(None, why_not=why_not))
            parts = (settings, self.adopt, self.reader, one.path, nothing, claim, lambda: None)
            yield TestCaptures(*parts, served=connection)
            return
        most_bytes = min(self.most_bytes, _MOST_SERVED_BYTES, max(claim.space.fitting(_MOST_SERVED_BYTES), 1))
        claim.grow(claim.size + most_bytes)
        claim.use(claim.size)
        with TemporaryDirectory(dir=one.path, prefix="tapes-") as name, ExitStack() as recorder:
            here = recorder.enter_context(
                capturing.capturing(
                    *(settings.host, settings.port, Path(name), capturing.AUTO),
                    most_bytes=most_bytes,
                    opened=self._opened,
                )
            )
            parts = (settings, self.adopt, self.reader, Path(name), here, claim, recorder.close)
            yield TestCaptures(*parts, served=connection)

    @contextmanager
    def of(
        self, one: Measurement, settings: TransferSettings, wanted: bool, claim: SpaceReservation
    ) -> Iterator[TestCaptures]:
        """Record a test while the block lasts, in the folder of ``one``; nothing unless ``wanted``.

        ``claim`` covers that folder, and grows. Raises ``NoRoom``.
        """
        if not wanted:
            nothing = capturing.LiveCapture(TransferCapture(None))
            yield TestCaptures(settings, self.adopt, self.reader, one.path, nothing, claim, lambda: None)
            return
        most_bytes = min(self.most_bytes, capturing.MOST_BYTES)
        # Where there is little room, short captures are better than the loss of older data.
        fitting = claim.space.fitting(len(_ENDS) * most_bytes) // len(_ENDS)
        most_bytes = min(most_bytes, max(fitting, claim.space.step))
        claim.grow(claim.size + len(_ENDS) * most_bytes)
        claim.use(claim.size)
        with TemporaryDirectory(dir=one.path, prefix="tapes-") as name, ExitStack() as recorder:
            folder = Path(name)
            server, client = (
                CaptureFetch(folder / capturing.FILES[end], must=False, most_bytes=most_bytes)
                for end in _ENDS
            )
            wishes = replace(settings, fetch=server, fetch_via=None if settings.via is None else client)
            # Of a test between two other hosts, this one sees at most what it forwards.
            interface = capturing.AUTO if settings.via is None else capturing.NONE
            here = recorder.enter_context(
                capturing.capturing(
                    *(settings.host, settings.port, folder, interface),
                    most_bytes=most_bytes,
                    opened=self._opened,
                )
            )
            yield TestCaptures(wishes, self.adopt, self.reader, folder, here, claim, recorder.close)
