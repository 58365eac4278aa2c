"""The routes of the service, and the parts that answer them."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from weirlab import __version__
from weirlab.base.errors import InputError
from weirlab.store.labels import label
from weirlab.store.summary import SKETCH
from weirlab.web import metrics, sending
from weirlab.web.access import guard
from weirlab.web.access.sessions import Sessions
from weirlab.web.captures.routes import captures
from weirlab.web.captures.service import CaptureService
from weirlab.web.children import Children
from weirlab.web.http.turns import without_turn
from weirlab.web.listing import RunFilter, SortKey
from weirlab.web.measurements import retention
from weirlab.web.measurements.measurement import Kind, Measurement, Measurements
from weirlab.web.runs import RunService
from weirlab.web.scenarios import asking
from weirlab.web.scenarios.service import Scenarios
from weirlab.web.settings import WebSettings
from weirlab.web.transfers import rows
from weirlab.web.transfers.asking import TransferRequest
from weirlab.web.transfers.service import Transfers
from weirlab.web.transfers.watching import HostWatches

_MOST_COMPARED = 50
"""Most runs of one side."""
_MOST_RUNS = 1_000_000_000


@dataclass(frozen=True)
class ServiceParts:
    """All that answers."""

    settings: WebSettings
    sessions: Sessions
    shelf: RunService
    measurements: Measurements
    children: Children
    uploads: CaptureService
    transfers: Transfers
    scenarios: Scenarios
    watches: HostWatches
    closing: Callable[[], bool]


def add_to(app: FastAPI, parts: ServiceParts) -> None:
    """Add all routes to ``app``."""
    for routes in (_session, _runs, _measurements, _transfers, _scenarios, _watches):
        app.include_router(routes(parts), prefix="/api")
    app.include_router(captures(parts.uploads, parts.measurements), prefix="/api")

    @app.get("/metrics")
    def tell_metrics() -> PlainTextResponse:
        text = metrics.text(parts.shelf, parts.uploads, parts.children, parts.transfers, parts.scenarios)
        return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)


def _session(parts: ServiceParts) -> APIRouter:
    router = APIRouter()
    sessions = parts.sessions

    @router.get("/session")
    def session(request: Request) -> dict[str, Any]:
        return {
            "admitted": sessions.admits(request),
            "logged_in": sessions.holds(request),
            "version": __version__,
            "most_upload_bytes": parts.settings.most_upload_bytes,
            "most_transfer_s": parts.settings.most_transfer_s,
            "kept": retention.limits_sentence(parts.settings),
            "may_run": parts.settings.allow_run,
            "may_watch": parts.settings.allow_watch,
            "tests": parts.settings.tests is not None,
            "read_only": parts.measurements.read_only,
            "voice": parts.settings.voice is not None,
            "browser": guard.elsewhere(request),
        }

    @router.post("/session")
    def begin(request: Request, token: dict[Literal["token"], str]) -> Response:
        response = JSONResponse({"admitted": True})
        if sessions.needed:
            if not sessions.fits(token.get("token", "").encode()):
                return guard.refused(401, "That is not the token that weir web was started with.")
            sessions.begin(response, secure=request.scope["scheme"] == "https")
        return response

    @router.post("/session/end")
    def end(request: Request) -> Response:
        response = JSONResponse({"admitted": False})
        sessions.end(request, response)
        return response

    return router


class RunQuery(BaseModel):
    """What a list of runs is asked for; see :class:`RunFilter`."""

    text: Annotated[str, Field(max_length=1000)] = ""
    """Words, separated by spaces."""
    kind: Annotated[str, Field(max_length=100)] = ""
    status: Annotated[str, Field(max_length=100)] = ""
    device: Annotated[str, Field(max_length=100)] = ""
    tag: Annotated[str, Field(max_length=100)] = ""
    star: bool = False
    sort: SortKey = "newest"
    since: Annotated[str, Field(max_length=10)] = ""
    until: Annotated[str, Field(max_length=10)] = ""
    first: Annotated[int, Field(ge=0, le=_MOST_RUNS)] = 0
    most: Annotated[int, Field(ge=1, le=1000)] = 100


class LabelRequest(BaseModel):
    """What a user says about a run; see :func:`weirlab.store.labels.label`."""

    model_config = ConfigDict(extra="forbid")

    name: str = ""
    star: bool = False
    note: str = ""
    tags: Annotated[list[str], Field(max_length=100)] = []


def _runs(parts: ServiceParts) -> APIRouter:
    router = APIRouter(
        prefix="/runs",
        route_class=sending.CompressedRoute,
        default_response_class=sending.EscapedDocument,
    )
    shelf, scenarios = parts.shelf, parts.scenarios

    @router.get("")
    def listed(query: Annotated[RunQuery, Query()]) -> dict[str, Any]:
        wanted = query.model_dump()
        return shelf.page(RunFilter(words=tuple(wanted.pop("text").lower().split()), **wanted))

    @router.get("/{run_id}")
    def one(run_id: str) -> dict[str, Any]:
        found = shelf.one(run_id)
        interrupted = found["status"] == "interrupted"
        return {**found, "resumable": interrupted and scenarios.resumable(found["run_id"])}

    @router.get("/{run_id}/live")
    def live(run_id: str) -> dict[str, Any]:
        return {**shelf.live(run_id), **scenarios.live(run_id)}

    @router.post("/{run_id}/stop")
    async def stop(run_id: str) -> dict[str, Any]:
        if scenarios.live(run_id)["held"]:
            await run_in_threadpool(lambda: scenarios.stop(scenarios.of_run(run_id)))
        else:
            await without_turn(asyncio.wrap_future(await run_in_threadpool(shelf.stop, run_id)))
        return {}

    @router.post("/{run_id}/resume")
    def resume(run_id: str) -> dict[str, Any]:
        scenarios.resume(scenarios.of_run(run_id))
        return {}

    @router.post("/{run_id}/again")
    def again(run_id: str) -> Response:
        asked = asking.ScenarioRequest(text=shelf.scenario(run_id))
        return JSONResponse({"data_id": scenarios.start(asked).data_id}, 201)

    @router.post("/{run_id}/label")
    def put_label(run_id: str, asked: LabelRequest) -> dict[str, Any]:
        shelf.put_label(run_id, label(**asked.model_dump()))
        return {}

    @router.post("/{run_id}/delete")
    async def remove(run_id: str) -> dict[str, Any]:
        await without_turn(asyncio.wrap_future(await run_in_threadpool(shelf.remove, run_id)))
        return {}

    @router.post("/{run_id}/report")
    async def prepare(run_id: str) -> dict[str, Any]:
        await without_turn(asyncio.wrap_future(await run_in_threadpool(shelf.prepare, run_id)))
        return {"report": "ready"}

    @router.get("/{run_id}/charts.js")
    async def charts(run_id: str, request: Request) -> Response:
        script = await without_turn(asyncio.wrap_future(await run_in_threadpool(shelf.charts, run_id)))
        headers = {"Cache-Control": "private, max-age=3600", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(gzip.decompress(script), media_type="text/javascript", headers=headers)
        headers["Content-Encoding"] = "gzip"
        return Response(script, media_type="text/javascript", headers=headers)

    @router.get("/{run_id}/report")
    def report(run_id: str, request: Request) -> Response:
        headers = {"Content-Security-Policy": guard.REPORT_POLICY, "Vary": "Accept-Encoding"}
        packed = "gzip" in request.headers.get("accept-encoding", "")
        send = sending.compressed if packed else sending.answer
        return send(shelf.report(run_id), "text/html", headers)

    @router.get("/{run_id}/sketch.png")
    def sketch(run_id: str) -> Response:
        headers = {"Cache-Control": "private, max-age=60"}
        return sending.answer(shelf.report(run_id, SKETCH), "image/png", headers)

    @router.get("/{before}/compared")
    def compare(
        before: str,
        after: Annotated[list[str], Query(max_length=_MOST_COMPARED)],
        beside: Annotated[list[str] | None, Query(max_length=_MOST_COMPARED)] = None,
    ) -> dict[str, Any]:
        """Compare ``after`` with ``before`` and the runs ``beside`` it."""
        return shelf.compare([before, *(beside or ())], after)

    return router


def _measurements(parts: ServiceParts) -> APIRouter:
    router = APIRouter(prefix="/measurements")

    @router.get("/{data_id}")
    def one(data_id: str) -> dict[str, Any]:
        found = parts.measurements.open(data_id)
        state = asdict(found.state)
        return {**state, "waiting": parts.uploads.ahead(found) if state["stage"] == "queued" else 0}

    return router


def _of_kind(parts: ServiceParts, kind: Kind, refusal: str) -> Callable[[str], Measurement]:
    """A function that opens a measurement by its data ID, and refuses one of another ``kind``."""

    def opened(data_id: str) -> Measurement:
        one = parts.measurements.open(data_id)
        if one.state.kind != kind:
            raise InputError(refusal)
        return one

    return opened


def _transfers(parts: ServiceParts) -> APIRouter:
    router = APIRouter(prefix="/transfers")
    transfers = parts.transfers

    opened = _of_kind(parts, "transfer", "This is not a TCP test.")

    @router.post("")
    def begin(asked: TransferRequest) -> Response:
        return JSONResponse({"data_id": transfers.start(asked).data_id}, 201)

    @router.post("/{data_id}/stop")
    def stop(data_id: str) -> dict[str, Any]:
        transfers.stop(opened(data_id))
        return {}

    @router.get("/{data_id}/events")
    def events(data_id: str) -> StreamingResponse:
        one = opened(data_id)

        async def stream() -> AsyncIterator[str]:
            async for event in transfers.events(one, parts.closing):
                yield f"event: {event['event']}\ndata: {json.dumps(event, allow_nan=False)}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    @router.get("/{data_id}/axis")
    def axis(data_id: str) -> dict[str, Any]:
        return transfers.axis(opened(data_id))

    @router.get("/{data_id}/export/{table}.{format}")
    def export(
        data_id: str, table: Literal["intervals", "connections"], format: sending.TableFormat
    ) -> Response:
        one = opened(data_id)
        if one.state.stage == "working":
            raise InputError("The transfer is still running; its numbers are available when it has ended.")
        content = rows.export(one.path, table, format)
        return sending.attachment(io.BytesIO(content), f"weir-{data_id[:8]}-{table}.{format}")

    return router


def _scenarios(parts: ServiceParts) -> APIRouter:
    router = APIRouter(prefix="/scenarios")
    scenarios = parts.scenarios

    opened = _of_kind(parts, "scenario", "This is not a scenario.")

    @router.get("")
    def offered() -> dict[str, Any]:
        return {"ready": asking.offered()}

    @router.post("")
    def begin(asked: asking.ScenarioRequest) -> Response:
        return JSONResponse({"data_id": scenarios.start(asked).data_id}, 201)

    @router.get("/{data_id}/events")
    def events(data_id: str) -> StreamingResponse:
        one = opened(data_id)

        async def stream() -> AsyncIterator[str]:
            async for told in scenarios.events(one, parts.closing):
                yield f"event: told\ndata: {json.dumps(told, allow_nan=False)}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    @router.post("/{data_id}/stop")
    def stop(data_id: str) -> dict[str, Any]:
        scenarios.stop(opened(data_id))
        return {}

    @router.post("/{data_id}/resume")
    def resume(data_id: str) -> dict[str, Any]:
        scenarios.resume(opened(data_id))
        return {}

    return router


def _watches(parts: ServiceParts) -> APIRouter:
    router = APIRouter(prefix="/watches")
    watches = parts.watches

    @router.get("")
    def possible(target: Annotated[str, Query(max_length=200)]) -> dict[str, Any]:
        """Say beforehand why ``target`` cannot be watched: a stream of events does not tell its reader."""
        watches.check(target)
        return {}

    @router.get("/events")
    def events(target: Annotated[str, Query(max_length=200)]) -> StreamingResponse:
        watches.check(target)

        async def stream() -> AsyncIterator[str]:
            async with aclosing(watches.events(target, parts.closing)) as told:
                async for event in told:
                    yield f"event: told\ndata: {json.dumps(event, allow_nan=False)}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    return router
