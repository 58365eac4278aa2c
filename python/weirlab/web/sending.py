"""Answers: files of the store, opened as what they are and closed behind their end; documents, compressed."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, BinaryIO, Final, Literal
from urllib.parse import quote

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

TableFormat = Literal["csv", "parquet"]
_PART_BYTES: Final = 1 << 18
_LEAST_PACKED_BYTES: Final = 1000
_LEVEL: Final = 5
_KINDS: Final = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
}


class EscapedDocument(JSONResponse):
    r"""JSON of runs from anywhere: NaN is null, half a surrogate pair, which UTF-8 has not, ``\ud800``."""

    def render(self, content: Any) -> bytes:
        text = _dumped(content)
        if "NaN" in text or "Infinity" in text:
            text = _dumped(json.loads(text, parse_constant=lambda _: None))
        return text.encode(errors="backslashreplace")


def _dumped(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


class CompressedRoute(APIRoute):
    """A route whose documents are compressed by gzip, unless they are short."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def packed(request: Request) -> Response:
            made = await handle(request)
            if (
                made.headers.get("content-type") != "application/json"
                or "gzip" not in request.headers.get("accept-encoding", "")
                or len(made.body) < _LEAST_PACKED_BYTES
            ):
                return made
            headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            content = gzip.compress(bytes(made.body), _LEVEL)
            return Response(content, made.status_code, headers, "application/json")

        return packed


def attachment(file: BinaryIO, name: str) -> StreamingResponse:
    """``file`` from its beginning, closed behind its end, as a download called ``name``."""
    kind = _KINDS.get(os.path.splitext(name)[1], "application/octet-stream")
    # RFC 6266, section 4.1: a name with other characters is encoded.
    plain = quote(name, errors="replace")
    shown = f'filename="{name}"' if plain == name else f"filename*=utf-8''{plain}"
    return answer(file, kind, {"Content-Disposition": f"attachment; {shown}"})


def answer(file: BinaryIO, kind: str, headers: Mapping[str, str]) -> StreamingResponse:
    """``file`` from its beginning, closed behind its end; ``kind`` is its media type."""
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    return StreamingResponse(
        _parts(file), media_type=kind, headers={**headers, "Content-Length": str(length)}
    )


def compressed(file: BinaryIO, kind: str, headers: Mapping[str, str]) -> StreamingResponse:
    """As :func:`answer`, compressed by gzip on the way."""
    headers = {**headers, "Content-Encoding": "gzip"}
    return StreamingResponse(_packed(file), media_type=kind, headers=headers)


def _packed(file: BinaryIO) -> Iterator[bytes]:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    for part in _parts(file):
        if packed := packer.compress(part):
            yield packed
    yield packer.flush()


def _parts(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(_PART_BYTES):
            yield part
