"""Bodies: requests in JSON that every part of the service can handle, and what answers leave out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weirlab.web.access.guard import SAFE, UPLOAD, refused

_MOST_DIGITS: Final = 19
_LIMIT: Final = 1 << 63
"""Databases and Polars have integers of 64 bits."""
_MOST_DEPTH: Final = 32


class Forms:
    """ASGI middleware: refuses a body that is not JSON, or has a value that no form needs.

    RFC 8259 sets no limits to numbers, texts and nesting, and Python reads infinities, too; databases, files
    and number types have limits. :class:`Guard` has limited the length.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in SAFE or scope["path"] == UPLOAD:
            await self._app(scope, receive, send)
            return
        try:
            body = await Request(scope, receive).body()
            if body:
                check(body)
        except ClientDisconnect:
            return
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, FormValueError) else "it is not valid JSON"
            refusal = refused(400, f"The body of the request cannot be used: {reason}.", "InputError")
            await refusal(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, again, send)


class FormValueError(ValueError):
    """JSON with a value that no form needs."""


def check(body: bytes) -> None:
    """Raise ``ValueError`` or ``RecursionError`` if it is not JSON, ``FormValueError`` for extreme values."""
    value = json.loads(
        body.decode(), parse_int=_integer, parse_float=_float, parse_constant=lambda name: _unfit(name)
    )
    _check(value, 0)


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > _MOST_DIGITS or not -_LIMIT <= (number := int(text)) < _LIMIT:
        raise FormValueError("an integer has more than 64 bits")
    return number


def _float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _unfit("a number beyond 1.8e308")


def _unfit(what: str) -> float:
    raise FormValueError(f"it has {what}")


def _check(value: Any, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise FormValueError(f"it is nested more than {_MOST_DEPTH} levels deep")
    match value:
        case str():
            if "\0" in value or not _is_unicode(value):
                raise FormValueError("a text has a NUL character or half of a surrogate pair")
        case dict():
            for name, inner in value.items():
                _check(name, depth)
                _check(inner, depth + 1)
        case list():
            for inner in value:
                _check(inner, depth + 1)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_TEXTS: Final = ("application/json", "text/event-stream")
_INSTEAD: Final = b"a file of the service"


class Redaction:
    """ASGI middleware: replaces paths inside ``folders`` in JSON and in events.

    Errors of the disk say which file they are about. Their messages come from many places, and some are kept,
    so they are changed where they leave.
    """

    def __init__(self, app: ASGIApp, folders: Iterable[Path]) -> None:
        self._app = app
        paths = {str(each) for folder in folders for each in (folder.absolute(), folder.resolve())}
        # As JSON writes them, with and without escapes for other characters than those of ASCII.
        written = {json.dumps(path, ensure_ascii=ascii)[1:-1] for path in paths for ascii in (True, False)}
        self._folders = sorted((each.encode() for each in written - {"/"}), key=len, reverse=True)
        inside = b"|".join(map(re.escape, self._folders))
        self._paths = re.compile(rb"(?<![\w.-])(?:" + inside + rb")(?:/[^\s:;,'\"\\]*)?(?![\w.-])")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_text, held = False, list[Message]()

        async def redacted(message: Message) -> None:
            nonlocal is_text
            if message["type"] == "http.response.start":
                kind = MutableHeaders(scope=message).get("content-type", "")
                if is_text := kind.startswith(_TEXTS):
                    # Until the length is known.
                    held.append(message)
                    return
            elif is_text:
                message = {**message, "body": self._without_paths(message.get("body", b""))}
                if held:
                    start = held.pop()
                    headers = MutableHeaders(scope=start)
                    if message.get("more_body", False):
                        del headers["content-length"]
                    else:
                        headers["content-length"] = str(len(message["body"]))
                    await send(start)
            await send(message)

        await self._app(scope, receive, redacted)

    def _without_paths(self, body: bytes) -> bytes:
        # Looking for a text is much faster than for a pattern, and some answers have megabytes.
        if not any(folder in body for folder in self._folders):
            return body
        return self._paths.sub(_INSTEAD, body)
