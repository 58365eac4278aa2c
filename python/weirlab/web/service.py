"""The application, and the parts behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from weirlab import __version__
from weirlab.cli.program import failures
from weirlab.errors import (
    InputError,
    MissingCapability,
    NotMet,
    StoreError,
    Undecided,
    WeirError,
)
from weirlab.link.stopping import Stop
from weirlab.quoting import printable, shortened
from weirlab.store import Store
from weirlab.web import routes
from weirlab.web.access.forms import Forms
from weirlab.web.access.guard import Guard, refused
from weirlab.web.access.proxies import Forwarding, Proxies
from weirlab.web.access.redaction import Redaction
from weirlab.web.access.sessions import Sessions
from weirlab.web.access.shares import Shares
from weirlab.web.captures.desk import Desk
from weirlab.web.captures.receiving import TooLarge
from weirlab.web.children import Children, Refusal
from weirlab.web.http import server
from weirlab.web.measurements import FOLDER, Measurements, Removed, Unknown
from weirlab.web.retention import Retention
from weirlab.web.runs import Shelf
from weirlab.web.scenarios.desk import Forbidden, Scenarios
from weirlab.web.settings import Settings, VoiceSettings
from weirlab.web.transfers.desk import Busy, Transfers
from weirlab.web.transfers.reading import Reader
from weirlab.web.transfers.recording import Recording

if TYPE_CHECKING:
    from weirlab.web.voice.desk import Desk as VoiceDesk

STATIC: Final = Path(__file__).parent / "static"
_STATUS: Final[tuple[tuple[type[WeirError], int], ...]] = (
    (Unknown, 404),
    (Removed, 410),
    (TooLarge, 413),
    (Busy, 409),
    (Forbidden, 403),
    (InputError, 400),
    (StoreError, 404),
    (MissingCapability, 501),
    (Refusal, 422),
    (Undecided, 422),
    (NotMet, 422),
)


@dataclass(frozen=True)
class Service:
    """The application and the parts behind it."""

    app: FastAPI
    desk: Desk
    transfers: Transfers
    scenarios: Scenarios
    retention: Retention
    children: Children


@contextmanager
def service(
    settings: Settings, store: Store, closing: Callable[[], bool] = lambda: False
) -> Iterator[Service]:
    """The application, ready for requests inside the block; it resumes what earlier services left undone."""
    children = Children(settings.children)
    try:
        measurements = Measurements(store.root)
        sessions = Sessions(settings)
        desk = Desk(settings, measurements, children)
        bench = threading.Lock()
        recording = Recording(desk.adopt, Reader(settings, children), settings.most_upload_bytes)
        transfers = Transfers(measurements, settings.most_transfer_s, recording, bench)
        scenarios = Scenarios(store.root, measurements, settings.allow_run, bench)
        # Pages of documentation would load scripts from elsewhere.
        app = FastAPI(title="Weir", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
        # The last one is the first to see a request.
        app.add_middleware(Redaction, folders=[*_folders(settings, store)])
        app.add_middleware(Forms)
        app.add_middleware(Shares)
        app.add_middleware(Guard, sessions=sessions, settings=settings, public=_public())
        app.add_middleware(Forwarding, proxies=Proxies(settings.proxies))
        shelf = Shelf(store, children, settings.memory_bytes)
        routes.add_to(
            app,
            routes.Parts(
                settings, sessions, shelf, measurements, children, desk, transfers, scenarios, closing
            ),
        )
        voice = None if settings.voice is None else _voice(app, settings.voice, settings.port)
        app.mount("/", StaticFiles(directory=STATIC, html=True), name="static")
        _explain_failures(app)
        desk.go_on()
        transfers.go_on()
        scenarios.go_on()
        retention = Retention(settings, measurements, forget=desk.forget)
        retention.begin()
        try:
            yield Service(app, desk, transfers, scenarios, retention, children)
        finally:
            retention.close()
            # A transfer waits for the child that reads its captures.
            children.close()
            transfers.close()
            scenarios.close()
            if voice is not None:
                voice.close()
    finally:
        children.close()


def _public() -> Iterator[str]:
    """The paths of the page's own files."""
    yield "/"
    for path in STATIC.rglob("*"):
        if path.is_file():
            yield f"/{path.relative_to(STATIC).as_posix()}"


def _folders(settings: Settings, store: Store) -> Iterator[Path]:
    """Where the service keeps its files."""
    yield from (store.root, store.root / FOLDER)
    if (voice := settings.voice) is not None:
        yield from (Path(each) for each in (voice.database, voice.zones, voice.rndc) if each)


def _voice(app: FastAPI, settings: VoiceSettings, port: int) -> VoiceDesk:
    """Zone management, which needs its own extra."""
    from weirlab.web.voice import routes
    from weirlab.web.voice.desk import Desk

    desk = Desk(settings, port)
    routes.add_to(app, desk)
    return desk


def run(settings: Settings, store: Store, stop: Stop, listening: Callable[[Settings], None]) -> Service:
    """Serve until a request to stop; ``listening`` gets the settings with the actual port.

    Raises
    ------
    LabError
        The address cannot be bound.
    """
    with server.listen(settings) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        with service(settings, store, lambda: stop.requested) as made:
            listening(settings)
            server.serve(made.app, listener, stop, exempt=Proxies(settings.proxies).trusts)
            return made


def _explain_failures(app: FastAPI) -> None:
    @app.exception_handler(WeirError)
    def told(request: Request, error: WeirError) -> Response:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        if isinstance(error, StoreError) and isinstance(error.__cause__, OSError):
            status = 507
        failure = failures.explain(error)
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
