"""The application, and the parts behind it."""

from __future__ import annotations

import errno
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from weirlab import __version__
from weirlab.base import files
from weirlab.base.errors import (
    DiskFull,
    InputError,
    MissingCapability,
    NotMet,
    StoreError,
    Undecided,
    WeirError,
)
from weirlab.base.quoting import printable, shortened
from weirlab.link.stopping import Stop
from weirlab.store import Store
from weirlab.web import failures, routes
from weirlab.web.access.bodies import Forms, Redaction
from weirlab.web.access.guard import Guard, RequestLimiter, refused
from weirlab.web.access.proxies import Proxies, ProxyHeaders
from weirlab.web.access.sessions import Sessions
from weirlab.web.captures.service import CaptureService
from weirlab.web.children import ChildFailure, Children
from weirlab.web.http import server
from weirlab.web.http.turns import Turns
from weirlab.web.launching.jobs import FOLDER, ServiceFolders
from weirlab.web.launching.launcher import DirectLauncher, Launcher
from weirlab.web.measurements.measurement import (
    Measurements,
    ReadOnlyStore,
    RemovedMeasurement,
    UnknownMeasurement,
)
from weirlab.web.measurements.retention import ElapsedTime, Retention
from weirlab.web.measurements.space import NoRoom, Space, TooLarge
from weirlab.web.runs import RunService
from weirlab.web.scenarios.service import Scenarios
from weirlab.web.settings import VoiceSettings, WebSettings
from weirlab.web.transfers import ndt7
from weirlab.web.transfers.explaining import Reader
from weirlab.web.transfers.ndt7 import TestRefusal
from weirlab.web.transfers.recording import TestRecorder
from weirlab.web.transfers.service import BusyError, Transfers
from weirlab.web.transfers.watching import HostWatches

if TYPE_CHECKING:
    from weirlab.web.voice.service import VoiceService

STATIC: Final = Path(__file__).parent / "static"
_STATUS: Final[tuple[tuple[type[WeirError], int], ...]] = (
    (UnknownMeasurement, 404),
    (RemovedMeasurement, 410),
    (TooLarge, 413),
    (NoRoom, 507),
    (ReadOnlyStore, 403),
    (BusyError, 409),
    (TestRefusal, 429),
    (failures.ForbiddenError, 403),
    (InputError, 400),
    (StoreError, 404),
    (MissingCapability, 501),
    (ChildFailure, 422),
    (Undecided, 422),
    (NotMet, 422),
)


_MISSING: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


@dataclass(frozen=True)
class WebService:
    """The application and the parts behind it."""

    app: FastAPI
    uploads: CaptureService
    transfers: Transfers
    scenarios: Scenarios
    retention: Retention
    space: Space
    children: Children


@contextmanager
def service(
    settings: WebSettings,
    store: Store,
    closing: Callable[[], bool] = lambda: False,
    launcher: Launcher | None = None,
) -> Iterator[WebService]:
    """The application, ready for requests inside the block; it resumes what earlier services left undone.

    ``launcher`` starts its processes; None: they have the rights of this one.
    """
    if launcher is None:
        root = Path(os.path.realpath(store.root))
        launcher = DirectLauncher.of(ServiceFolders(root, settings.allow_run, settings.allow_watch))
    children = Children(settings.children, launcher)
    try:
        read_only = not _may_write(store.root / FOLDER)
        elapsed = ElapsedTime(store.root / FOLDER)
        measurements = Measurements(store.root, elapsed_s=elapsed.now_s, read_only=read_only)
        space = Space(store.root, settings.most_kept_bytes)
        sessions = Sessions(settings)
        uploads = CaptureService(settings, measurements, space, children)
        bench = threading.Lock()
        recording = TestRecorder(
            uploads.adopt, Reader(settings, children), settings.most_upload_bytes, launcher
        )
        transfers = Transfers(measurements, space, settings.most_transfer_s, recording, bench)
        scenarios = Scenarios(launcher, measurements, space, settings.allow_run, bench)
        watches = HostWatches(launcher, settings.allow_watch)
        # Pages of documentation would load scripts from elsewhere.
        app = FastAPI(title="Weir", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
        # The last one is the first to see a request.
        app.add_middleware(Redaction, folders=[*_folders(settings, store)])
        app.add_middleware(Forms)
        app.add_middleware(RequestLimiter)
        app.add_middleware(Guard, sessions=sessions, settings=settings, public=_public())
        app.add_middleware(Turns)
        app.add_middleware(ProxyHeaders, proxies=Proxies(settings.proxies))
        shelf = RunService(store, children, settings.memory_bytes, read_only=read_only)
        shelf.read_ahead()
        routes.add_to(
            app,
            routes.ServiceParts(
                settings,
                sessions,
                shelf,
                measurements,
                children,
                uploads,
                transfers,
                scenarios,
                watches,
                closing,
            ),
        )
        if settings.tests is not None:
            ndt7.add_to(app, transfers, settings.tests)
        voice = None if settings.voice is None else _voice(app, settings.voice, settings.port)
        app.mount("/", GZipMiddleware(StaticFiles(directory=STATIC, html=True), 1000), name="static")
        _explain_failures(app)
        retention = Retention(settings, measurements, space, elapsed, forget=uploads.forget)
        if not read_only:
            # What is there counts before anything is added.
            retention.begin()
            uploads.go_on()
            transfers.go_on()
            scenarios.go_on()
        try:
            yield WebService(app, uploads, transfers, scenarios, retention, space, children)
        finally:
            retention.close()
            # A transfer waits for the child that reads its captures.
            children.close()
            transfers.close()
            scenarios.close()
            watches.close()
            if voice is not None:
                voice.close()
    finally:
        children.close()


def _may_write(root: Path) -> bool:
    try:
        files.check_folder(root)
    except WeirError:
        return False
    return True


def _public() -> Iterator[str]:
    """The paths of the page's own files."""
    yield "/"
    for path in STATIC.rglob("*"):
        if path.is_file():
            yield f"/{path.relative_to(STATIC).as_posix()}"


def _folders(settings: WebSettings, store: Store) -> Iterator[Path]:
    """Where the service keeps its files."""
    yield from (store.root, store.root / FOLDER)
    if (voice := settings.voice) is not None:
        yield from (Path(each) for each in (voice.database, voice.zones, voice.rndc) if each)


def _voice(app: FastAPI, settings: VoiceSettings, port: int) -> VoiceService:
    """Zone management, which needs its own extra."""
    from weirlab.web.voice import routes as voice_routes
    from weirlab.web.voice.service import VoiceService

    voice = VoiceService(settings, port)
    voice_routes.add_to(app, voice)
    return voice


def run(
    settings: WebSettings,
    store: Store,
    stop: Stop,
    listener: socket.socket,
    launcher: Launcher,
    listening: Callable[[], None],
) -> WebService:
    """Serve at ``listener`` until a request to stop; ``launcher`` starts the service's processes."""
    with service(settings, store, lambda: stop.requested, launcher) as made:
        listening()
        # What is there now stays. Collections that look at it again would delay all requests by 0.2 s.
        gc.collect()
        gc.freeze()
        server.serve(made.app, listener, stop, exempt=Proxies(settings.proxies).trusts)
        return made


def _status(error: WeirError) -> int:
    cause = error.__cause__
    if isinstance(error, DiskFull):
        return 507
    if isinstance(error, StoreError) and isinstance(cause, OSError) and cause.errno not in _MISSING:
        # The disk is full, or refuses otherwise.
        return 507
    return next((code for kind, code in _STATUS if isinstance(error, kind)), 500)


def _explain_failures(app: FastAPI) -> None:
    @app.exception_handler(WeirError)
    def weir_error(request: Request, error: WeirError) -> Response:
        status, failure = _status(error), failures.explain(error)
        return refused(status, printable(failure.message), failure.kind)

    @app.exception_handler(RequestValidationError)
    def misunderstood(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(each) for each in first["loc"] if each not in ("body", "query", "path"))
        return refused(400, shortened(printable(f"{place}: {first['msg']}")), "InputError")

    @app.exception_handler(HTTPException)
    def missing(request: Request, error: HTTPException) -> Response:
        return refused(error.status_code, str(error.detail), "Missing")

    @app.exception_handler(ClientDisconnect)
    def gone(request: Request, error: ClientDisconnect) -> Response:
        return JSONResponse({}, 400)
