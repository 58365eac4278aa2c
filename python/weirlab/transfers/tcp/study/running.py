"""A transfer from its beginning to a stored trial; a path of its own leads between two namespaces."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from weirlab.base import files
from weirlab.base.interrupts import shielded
from weirlab.emulation.account import complaints
from weirlab.jobs.work import Work
from weirlab.link.stopping import Stop
from weirlab.links.emulator import running
from weirlab.links.emulator.running import EmulatedLink, emulated_link
from weirlab.store import Run, RunWriter
from weirlab.store.catalogue import utc_now
from weirlab.studies.contract import Ground, Outcome, Study, Summary
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.measure import capturing, measuring, result
from weirlab.transfers.tcp.measure.capturing import (
    AUTO,
    FILES,
    MOST_BYTES,
    MUST,
    NONE,
    End,
    LiveCapture,
    TransferCapture,
)
from weirlab.transfers.tcp.measure.measuring import ReportCollector
from weirlab.transfers.tcp.settings import CaptureFetch
from weirlab.transfers.tcp.study import kept, recording
from weirlab.transfers.tcp.study.findings import PATH, AxisView, TcpFindings
from weirlab.transfers.tcp.study.section import TcpScenario

if TYPE_CHECKING:
    from weirlab.base.files import Inputs
    from weirlab.lab.linux.namespace import Namespace
    from weirlab.links.emulator.running import EmulatedLink
    from weirlab.report.story import Story
    from weirlab.transfers.tcp.results import Interval
    from weirlab.transfers.tcp.study.section import TcpSection


CLIENT: Final = running.client_port()
SERVER: Final = running.server_port()

T = TypeVar("T")


@dataclass(frozen=True)
class TransferSite:
    """The client's namespace, and where its server listens."""

    client: Namespace
    host: str
    token: str
    link: EmulatedLink
    server: Any
    """``weirlab._engine.TcpServer``."""

    def inside(self, make: Callable[[], T]) -> T:
        """The result of ``make``, called in the client's namespace."""
        return self.client.call(make)


@contextmanager
@shielded
def site(asked: TcpSection, inputs: Inputs) -> Iterator[TransferSite]:
    """The namespaces, the path and a server, while the block lasts; ``inputs`` opens the traces of the path.

    Raises
    ------
    InputError
        A trace cannot be read, or may not be.
    MissingCapability, LabError
        They cannot be set up.
    """
    assert asked.path is not None
    path = asked.path.with_traces(inputs)
    with ExitStack() as stack:
        made = stack.enter_context(running.connected())
        # Everything between the namespaces is known in advance; changed interface settings need no mention.
        emulated = stack.enter_context(emulated_link(*made.ends(), path["up"], path["down"]))
        token = secrets.token_hex(16)
        host = SERVER.address
        folder = stack.enter_context(TemporaryDirectory(prefix="weir-serve-"))
        service = made.server.call(partial(_serve, host, asked, token, folder))
        stack.callback(service.stop)
        yield TransferSite(made.client, host, token, emulated, service)


_CAPTURES: Final = ends.Captures(most_bytes=MOST_BYTES, most_s=ends.MOST_S, interface=SERVER.name)


def _serve(address: str, asked: TcpSection, token: str, folder: str) -> Any:
    from weirlab._engine import TcpServer

    return TcpServer(
        address=address,
        port=asked.port,
        token=token,
        most_ns=None,
        most_bytes=None,
        most_clients=1,
        options=[*asked.buffers(not asked.reverse), *asked.server_options.items()],
        capture=_CAPTURES.allowed(folder),
    )


TOKEN: Final = "WEIR_TCP_TOKEN"
CLIENT_TOKEN: Final = "WEIR_TCP_CLIENT_TOKEN"


class SilentObserver:
    """An observer that does nothing."""

    def started(self, event: Mapping[str, Any]) -> None: ...

    def interval(self, interval: Interval) -> None: ...

    def blocks(self, event: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class TransferDisplay:
    """What a command does during a transfer.

    ``tokens`` are the server's and the far client's; None: those in the environment.
    """

    observer: ends.TransferObserver = field(default_factory=SilentObserver)
    view: AxisView = field(default_factory=AxisView)
    tokens: tuple[str, str] | None = None
    shows_interrupted: bool = False
    """The command shows a transfer that was stopped early, and exits with the right code."""

    def secrets(self) -> tuple[str, str]:
        """The two tokens."""
        return self.tokens or (os.environ.get(TOKEN, ""), os.environ.get(CLIENT_TOKEN, ""))


@dataclass(frozen=True)
class TransferRun:
    """A running transfer, and everything that observes it."""

    transfer: ends.Transfer
    watched: ReportCollector
    captures: Mapping[End, TransferCapture]
    """Those made on this host."""
    wanted: capturing.CapturePoints
    stop_captures: Callable[[], None]
    started_at: str
    lab: str
    link: EmulatedLink | None = None


def _fetch(end: End, wanted: str, folder: Path) -> CaptureFetch | None:
    """The capture that another host is to make, if any."""
    return CaptureFetch(folder / FILES[end], wanted == MUST, MOST_BYTES) if wanted in (AUTO, MUST) else None


def _here(make: Callable[[], Any]) -> Any:
    return make()


def _captures(begun: TransferRun, done: measuring.TransferMeasurement) -> dict[End, TransferCapture]:
    """The captures by place; those at the ends are on the client's clock."""
    outcome, settings, here = done.outcome, begun.transfer.settings, begun.captures
    client = here.get("client") or _fetched(settings.fetch_via, outcome.recorded_via, begun.wanted.client)
    server, told = _fetched(settings.fetch, outcome.recorded, begun.wanted.server), outcome.recorded
    if told is not None and server.path is not None:
        server = replace(server, shift_ns=done.shift_ns(told["since_1970_ns"]))
    found: dict[End, TransferCapture] = {"client": client, "server": server}
    if (between := here.get("between")) is not None:
        found["between"] = replace(between, unclocked=settings.via is not None)
    return found


def _fetched(fetch: CaptureFetch | None, told: Mapping[str, Any] | None, wanted: str) -> TransferCapture:
    return capturing.fetched(told, None if fetch is None else fetch.file, wanted)


def _copy(source: Path, target: Path) -> None:
    def fill(file: BinaryIO) -> None:
        with source.open("rb") as taken:
            shutil.copyfileobj(taken, file)

    files.write(target, fill)


class TcpStudy(Study[TcpScenario, Ground[TransferRun | None], TcpFindings]):
    """A transfer measured from all sides; ``live`` is what a command does during it."""

    key = "tcp"
    title = "a TCP transfer from all sides, and why it was not faster"

    def __init__(self, live: TransferDisplay | None = None) -> None:
        self._alone = live is None
        self._live = live or TransferDisplay()

    def scenario(self) -> type[TcpScenario]:
        return TcpScenario

    def expected_s(self, asked: TcpScenario) -> float | None:
        """None for a given size: how fast it goes is the question."""
        return asked.tcp.settings(host="", token="").lasts_s

    @contextmanager
    @shielded
    def open(self, asked: TcpScenario, work: Work) -> Iterator[Ground[TransferRun | None]]:
        """Begin the transfer; if it cannot begin, no run is left behind.

        Nothing begins for a run that already has its transfer.
        """
        what = asked.tcp
        lab = "netns" if what.host is None else "host"
        facts = {"lab": lab, "dut": "tcp", "backend": "tcp"}
        if work.begun is not None and work.begun.trials()["valid"].any():
            yield Ground(None, facts)
            return
        with ExitStack() as stack, ExitStack() as recording_stack:
            token, client_token = self._live.secrets()
            netns, link, inside, host, wanted = None, None, _here, what.host or "", what.captures
            if what.host is None:
                built = stack.enter_context(site(what, work.inputs))
                netns, link, host, token = built.client.name, built.link, built.host, built.token
                inside = built.inside
                client = wanted.client if wanted.client == NONE else CLIENT.name
                wanted = replace(wanted, client=client)
            settings = what.settings(host=host, token=token, client_token=client_token)
            scratch = Path(stack.enter_context(TemporaryDirectory(prefix="weir-measure-")))
            recordings: dict[End, LiveCapture] = {}
            here: list[tuple[End, str]] = [("between", wanted.between)] if wanted.between != NONE else []
            if settings.via is None:
                here.append(("client", wanted.client))
            for end, interface in here:
                recordings[end] = recording_stack.enter_context(
                    capturing.capturing(
                        *(settings.host, settings.port, scratch, interface),
                        end=end,
                        opened=partial(capturing.opened_here, netns=netns),
                    )
                )
            settings = replace(
                settings,
                fetch=_fetch("server", wanted.server, scratch),
                fetch_via=None if settings.via is None else _fetch("client", wanted.client, scratch),
            )
            watched = ReportCollector(self._live.observer, self._live.view.print_ns / 1e9)
            work.progress.stage(f"TCP transfer to {what.where}")
            started_at = utc_now().isoformat(timespec="milliseconds")
            with Stop() as stop:
                transfer = ends.begin(settings, stop, watched.event, inside)
            for each in recordings.values():
                each.name_connections(transfer.started)
            captures = {end: each.capture for end, each in recordings.items()}
            begun = TransferRun(
                transfer, watched, captures, wanted, recording_stack.close, started_at, lab, link
            )
            yield Ground(begun, facts)

    def measure(
        self, ground: Ground[TransferRun | None], asked: TcpScenario, writer: RunWriter, work: Work
    ) -> TcpFindings:
        """Wait for the end of the transfer, compute everything, and store it."""
        begun = ground.bed
        if begun is None:
            return TcpFindings(kept.read(writer.run), self._live.view)
        with Stop() as stop:
            outcome = begun.transfer.carry(begun.watched, stop)
            begun.watched.rest()
        begun.stop_captures()
        what = asked.tcp
        done = measuring.measured(outcome, begun.watched)
        captures = _captures(begun, done)
        asked_for = result.AnalysisSettings(what.every_ns, what.period_ns, what.names, what.target_bps)
        found = result.found(done, captures, asked_for)
        for end, capture in captures.items():
            if capture.path is not None:
                _copy(capture.path, writer.path / FILES[end])
        if begun.link is not None:
            account = begun.link.stop()
            ways = {"up": account.up.document(), "down": account.down.document()}
            writer.put_json(PATH, {**ways, "complaints": complaints(account)})
        settings = begun.transfer.settings
        if what.host is None:
            settings = replace(settings, host="")
        writer.add(
            recording.record(
                found,
                settings,
                run_id=writer.run_id,
                attempt=writer.attempts.get(0, 0) + 1,
                started_at=begun.started_at,
                lab=begun.lab,
            )
        )
        if outcome.interrupted and not self._live.shows_interrupted:
            raise KeyboardInterrupt
        return TcpFindings(kept.read(writer.run), self._live.view)

    def summarize(self, outcome: Outcome[TcpFindings]) -> Summary:
        found = outcome.found
        report = "" if outcome.report is None else f" Report: {outcome.report.path}"
        return Summary(
            f"{found.conclusion(outcome.run.run_id)}{report}",
            found.tables(),
            "\n".join(found.remarks()) if self._alone else "",
        )

    def headlines(self, run: Run) -> Sequence[str]:
        return TcpFindings(kept.read(run)).sentences() if kept.has_transfer(run) else ()

    def page(self, run: Run) -> Story:
        from weirlab.transfers.tcp.page.story import tell

        return tell(run)
