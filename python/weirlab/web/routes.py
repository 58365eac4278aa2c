"""What can be asked for, and which part answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from weirlab import __version__
from weirlab.errors import InputError, StoreError
from weirlab.trace.facts import SideName, start_ns
from weirlab.web import access, metrics
from weirlab.web.captures import arrays, child, receiving, telling
from weirlab.web.captures.desk import Desk
from weirlab.web.children import Children
from weirlab.web.measurements import Measurement, Measurements
from weirlab.web.runs import Shelf
from weirlab.web.settings import Settings
from weirlab.web.transfers import rows
from weirlab.web.transfers.asking import Asked
from weirlab.web.transfers.desk import Transfers

_NS = 1_000_000_000
_MOST_S = 1e9
"""A part of a capture is looked at within some 30 years of its first packet."""


@dataclass(frozen=True)
class Parts:
    """All that answers."""

    settings: Settings
    keys: access.Keys
    shelf: Shelf
    measurements: Measurements
    children: Children
    desk: Desk
    transfers: Transfers
    closing: Callable[[], bool]


def add_to(app: FastAPI, parts: Parts) -> None:
    """Add all routes to ``app``."""
    for router in (_session(parts), _runs(parts), _measurements(parts), _captures(parts), _transfers(parts)):
        app.include_router(router, prefix="/api")

    @app.get("/metrics")
    def tell_metrics() -> PlainTextResponse:
        text = metrics.text(parts.shelf, parts.desk, parts.children, parts.transfers)
        return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)


def _session(parts: Parts) -> APIRouter:
    router = APIRouter()
    keys = parts.keys

    @router.get("/session")
    def session(request: Request) -> dict[str, Any]:
        return {
            "admitted": keys.admits(request),
            "version": __version__,
            "most_upload_bytes": parts.settings.most_upload_bytes,
            "most_transfer_s": parts.settings.most_transfer_s,
        }

    @router.post("/session")
    def begin(request: Request, token: dict[Literal["token"], str]) -> Response:
        if keys.needed and not keys.fits(token.get("token", "")):
            return access.refused(401, "That is not the token that weir web was started with.")
        response = JSONResponse({"admitted": True})
        keys.give(response, secure=request.url.scheme == "https")
        return response

    return router


def _runs(parts: Parts) -> APIRouter:
    router = APIRouter(prefix="/runs")
    shelf = parts.shelf

    @router.get("")
    def listed() -> dict[str, Any]:
        return {"runs": shelf.list()}

    @router.get("/{run_id}")
    def one(run_id: str) -> dict[str, Any]:
        return shelf.one(run_id)

    @router.post("/{run_id}/report")
    async def prepare(run_id: str) -> dict[str, Any]:
        await asyncio.wrap_future(await run_in_threadpool(shelf.prepare, run_id))
        return {"report": "ready"}

    @router.get("/{run_id}/report")
    def report(run_id: str) -> FileResponse:
        headers = {"Content-Security-Policy": access.REPORT_POLICY}
        return FileResponse(shelf.report(run_id), media_type="text/html", headers=headers)

    @router.get("/{before}/compared/{after}")
    def compare(before: str, after: str) -> dict[str, Any]:
        return shelf.compare(before, after)

    return router


def _measurements(parts: Parts) -> APIRouter:
    router = APIRouter(prefix="/measurements")

    @router.get("/{data_id}")
    def one(data_id: str) -> dict[str, Any]:
        found = parts.measurements.open(data_id)
        state = asdict(found.state)
        return {**state, "waiting": parts.desk.ahead(found) if state["stage"] == "queued" else 0}

    return router


def _captures(parts: Parts) -> APIRouter:
    router = APIRouter(prefix="/captures")
    desk = parts.desk

    def opened(data_id: str) -> Measurement:
        return parts.measurements.open(data_id)

    @router.post("")
    async def upload(request: Request, name: Annotated[str, Query(max_length=1000)] = "") -> Response:
        limit = parts.settings.most_upload_bytes
        receiving.refuse_beyond(limit, request.headers.get("content-length"))
        try:
            one = await desk.take(name, request.stream())
        except StoreError as error:
            return access.refused(507, str(error), "StoreError")
        return JSONResponse({"data_id": one.data_id}, 201)

    @router.get("/{data_id}")
    def whole(data_id: str) -> dict[str, Any]:
        return telling.capture(desk.facts(opened(data_id)))

    @router.get("/{data_id}/connections/{number}")
    def connection(data_id: str, number: int) -> dict[str, Any]:
        one = opened(data_id)
        return telling.connection(desk.facts(one), desk.connection(one, number))

    @router.get("/{data_id}/connections/{number}/why")
    async def why(data_id: str, number: int) -> Response:
        file = await asyncio.wrap_future(await run_in_threadpool(desk.why, opened(data_id), number))
        return Response(await run_in_threadpool(file.read_bytes), media_type="application/json")

    @router.get("/{data_id}/connections/{number}/graphs")
    async def graphs(
        data_id: str,
        number: int,
        side: SideName,
        start: Annotated[float, Query(alias="from", ge=-_MOST_S, le=_MOST_S)],
        end: Annotated[float, Query(alias="to", ge=-_MOST_S, le=_MOST_S)],
        columns: Annotated[int, Query(ge=10, le=arrays.MOST_COLUMNS)] = 1000,
    ) -> dict[str, Any]:
        if end <= start:
            raise InputError("The part ends before it begins.")
        one = opened(data_id)
        folder = await asyncio.wrap_future(await run_in_threadpool(desk.arrays, one, number, side))
        origin_ns = start_ns(desk.facts(one))
        part = [origin_ns + round(moment * _NS) for moment in (start, end)]
        layers = await run_in_threadpool(arrays.layers, folder, part[0], part[1], origin_ns, columns)
        return {"from": start, "to": end, "layers": layers}

    @router.get("/{data_id}/file")
    def original(data_id: str) -> FileResponse:
        one = opened(data_id)
        desk.facts(one)
        path, name = one.path / child.CAPTURE, one.state.name
        return FileResponse(path, media_type="application/octet-stream", filename=name)

    @router.get("/{data_id}/series/{table}.parquet")
    def series(
        data_id: str, table: Literal["connections", "segments", "rtt", "sack", "periods"]
    ) -> FileResponse:
        one = opened(data_id)
        desk.facts(one)
        path = one.path / child.SERIES / f"{table}.parquet"
        return FileResponse(path, media_type="application/vnd.apache.parquet", filename=path.name)

    return router


def _transfers(parts: Parts) -> APIRouter:
    router = APIRouter(prefix="/transfers")
    transfers = parts.transfers

    def opened(data_id: str) -> Measurement:
        one = parts.measurements.open(data_id)
        if one.state.kind != "transfer":
            raise InputError("This is not a TCP test.")
        return one

    @router.post("")
    def begin(asked: Asked) -> Response:
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

    @router.get("/{data_id}/export/{table}.{format}")
    def export(data_id: str, table: Literal["intervals", "connections"], format: rows.Format) -> Response:
        one = opened(data_id)
        if one.state.stage == "working":
            raise InputError("The transfer is at work; its numbers can be had when it has ended.")
        content = rows.export(one.path, table, format)
        kind = "text/csv" if format == "csv" else "application/vnd.apache.parquet"
        name = f"weir-{data_id[:8]}-{table}.{format}"
        return Response(
            content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'}
        )

    return router
