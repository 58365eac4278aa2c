"""The API routes of uploaded captures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.trace import sheet, wording
from weirlab.trace.facts import (
    Analysis,
    Connection,
    SideName,
    busier,
    endpoint,
    link_bytes,
    side,
    sides,
    start_ns,
)
from weirlab.trace.quantities import bit_rate, count, duration, percent, size
from weirlab.transfers.trace import tables
from weirlab.transfers.trace.page.story import MOST_ROWS, TERMS, tiles
from weirlab.web import sending
from weirlab.web.access import guard
from weirlab.web.captures import arrays, child
from weirlab.web.captures.child import VOICE
from weirlab.web.captures.service import CaptureService
from weirlab.web.http.turns import without_turn
from weirlab.web.measurements.measurement import Measurement, Measurements
from weirlab.web.tables import for_page

COLUMNS: Final = [
    "#",
    "a",
    "b",
    "duration",
    "a > b",
    "b > a",
    "throughput",
    "retransmitted",
    "RTT mean",
    "end",
]


def capture_page(facts: Analysis) -> dict[str, Any]:
    """All that is known before a connection is chosen."""
    listed = sorted(facts["connections"], key=lambda each: (-link_bytes(each), each["id"]))
    voice = cast("dict[str, Any]", facts).get(VOICE) or {"sentence": "", "tables": []}
    return {
        "conclusion": f"{wording.capture(facts)} {voice['sentence']}".rstrip(),
        "cautions": wording.cautions(facts),
        "columns": COLUMNS,
        "connections": [_row(each) for each in listed],
        "left_out": facts["connections_left_out"],
        # Captures that an earlier version read have none.
        "voice": voice.get("axis"),
        "others": [*voice["tables"], *(for_page(table) for table in sheet.others(facts, MOST_ROWS))],
    }


def connection_page(facts: Analysis, one: Connection) -> dict[str, Any]:
    """All about one connection except why it was not faster, which takes longer."""
    begin_ns = start_ns(facts)
    return {
        "id": one["id"],
        "ends": [endpoint(each) for each in sides(one)],
        "conclusion": wording.conclusion(one),
        "conclusions": {name: wording.conclusion(one, name) for name in ("a", "b")},
        "busier": busier(one),
        "tiles": [{"label": t.label, "value": t.value, "note": t.note} for t in tiles(one)],
        "facts": sheet.whole(one, begin_ns, absolute=True),
        "sheet": for_page(tables.both(one)),
        # Text: a double is not exact to the nanosecond since 1970.
        "start_ns": str(begin_ns),
        "from": (one["first_ns"] - begin_ns) / 1e9,
        "to": (one["last_ns"] - begin_ns) / 1e9,
        "terms": [*TERMS[:5]],
    }


def _row(one: Connection) -> dict[str, Any]:
    a, b = sides(one)
    sent = side(one, busier(one))
    return {
        "id": one["id"],
        "cells": [
            *(str(one["id"]), endpoint(a), endpoint(b)),
            duration(one["last_ns"] - one["first_ns"]),
            *(size(a["unique_bytes"]), size(b["unique_bytes"])),
            bit_rate(wording.throughput_bps(sent)),
            f"{count(sent['retransmissions']['total'])} ({percent(wording.again_ratio(sent))})",
            duration(sent["rtt"]["mean_ns"]),
            wording.ENDS[one["end"]],
        ],
        "sort": [
            *(one["id"], endpoint(a), endpoint(b), one["last_ns"] - one["first_ns"]),
            *(a["unique_bytes"], b["unique_bytes"], _number(wording.throughput_bps(sent))),
            *(sent["retransmissions"]["total"], _number(sent["rtt"]["mean_ns"]), one["end"]),
        ],
        "conclusion": wording.conclusion(one),
    }


def _number(value: float | None) -> float:
    return value if value is not None and value == value else -1.0


_MOST_S: Final = 1e9
"""A part of a capture is looked at within some 30 years of its first packet."""
From = Annotated[float, Query(alias="from", ge=-_MOST_S, le=_MOST_S)]
To = Annotated[float, Query(alias="to", ge=-_MOST_S, le=_MOST_S)]
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""Of a connection in a capture."""


def captures(uploads: CaptureService, measurements: Measurements) -> APIRouter:
    """The routes of captures, of ``uploads`` among the ``measurements``."""
    router = APIRouter(prefix="/captures")

    def opened(data_id: str) -> Measurement:
        return measurements.open(data_id)

    @router.post("")
    async def upload(request: Request, name: Annotated[str, Query(max_length=1000)] = "") -> Response:
        one = await uploads.take(name, request.stream(), guard.content_length(request))
        return JSONResponse({"data_id": one.data_id}, 201)

    @router.get("/{data_id}")
    def whole(data_id: str) -> dict[str, Any]:
        return capture_page(uploads.facts(opened(data_id)))

    async def written(one: Measurement, make: Callable[[], Future[Path]]) -> Response:
        file = await without_turn(asyncio.wrap_future(await run_in_threadpool(make)))
        return sending.answer(await run_in_threadpool(uploads.opened, one, file), "application/json", {})

    @router.get("/{data_id}/causes")
    async def causes(data_id: str) -> Response:
        one = await run_in_threadpool(opened, data_id)
        return await written(one, lambda: uploads.causes(one))

    @router.get("/{data_id}/connections/{number}")
    def connection(data_id: str, number: Number) -> dict[str, Any]:
        one = opened(data_id)
        return connection_page(uploads.facts(one), uploads.connection(one, number))

    @router.get("/{data_id}/connections/{number}/why")
    async def why(data_id: str, number: Number) -> Response:
        one = await run_in_threadpool(opened, data_id)
        return await written(one, lambda: uploads.why(one, number))

    def part_of(one: Measurement, start: float, end: float) -> tuple[int, int, int]:
        """From and to since 1970, and when the capture begins, ns."""
        if end <= start:
            raise InputError("The part ends before it begins.")
        origin_ns = start_ns(uploads.facts(one))
        return origin_ns + round(start * NS_PER_S), origin_ns + round(end * NS_PER_S), origin_ns

    @router.get("/{data_id}/connections/{number}/graphs")
    async def graphs(
        data_id: str,
        number: Number,
        side: SideName,
        start: From,
        end: To,
        columns: Annotated[int, Query(ge=10, le=arrays.MOST_COLUMNS)] = 1000,
    ) -> dict[str, Any]:
        one = await run_in_threadpool(opened, data_id)
        part = await run_in_threadpool(part_of, one, start, end)
        folder = await without_turn(
            asyncio.wrap_future(await run_in_threadpool(uploads.arrays, one, number, side))
        )
        layers = await run_in_threadpool(arrays.layers, folder, *part, columns)
        return {"from": start, "to": end, "layers": layers}

    @router.get("/{data_id}/connections/{number}/points.{format}")
    async def points(
        data_id: str,
        number: Number,
        format: sending.TableFormat,
        side: SideName,
        start: From,
        end: To,
        chosen: Annotated[list[str] | None, Query(alias="series", max_length=50)] = None,
    ) -> Response:
        one = await run_in_threadpool(opened, data_id)
        from_ns, to_ns, origin_ns = await run_in_threadpool(part_of, one, start, end)
        await without_turn(asyncio.wrap_future(await run_in_threadpool(uploads.arrays, one, number, side)))
        request = {
            "do": "export",
            "connection": number,
            "side": side,
            "from_ns": from_ns,
            "to_ns": to_ns,
            "origin_ns": origin_ns,
            "chosen": chosen,
            "format": format,
        }
        return await sent(one, request, f"connection-{number}-{side}.{format}")

    @router.get("/{data_id}/part.pcapng")
    async def part(data_id: str, start: From, end: To, connection: Number | None = None) -> Response:
        one = await run_in_threadpool(opened, data_id)
        from_ns, to_ns, _ = await run_in_threadpool(part_of, one, start, end)
        if connection is not None:
            await run_in_threadpool(uploads.connection, one, connection)
        request = {"do": "excerpt", "connection": connection, "from_ns": from_ns, "to_ns": to_ns}
        return await sent(one, request, "part.pcapng")

    async def sent(one: Measurement, request: dict[str, Any], name: str) -> Response:
        file = await without_turn(asyncio.wrap_future(await run_in_threadpool(uploads.part, one, request)))
        return sending.attachment(file, f"weir-{one.data_id[:8]}-{name}")

    @router.get("/{data_id}/file")
    def original(data_id: str) -> Response:
        one = opened(data_id)
        uploads.facts(one)
        return sending.attachment(uploads.opened(one, one.path / child.CAPTURE), one.state.name)

    @router.get("/{data_id}/series/{table}.parquet")
    def series(data_id: str, table: Literal["connections", "segments", "rtt", "sack", "periods"]) -> Response:
        one = opened(data_id)
        uploads.facts(one)
        path = one.path / child.SERIES / f"{table}.parquet"
        return sending.attachment(uploads.opened(one, path), path.name)

    return router
