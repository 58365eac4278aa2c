"""What answers leave out: the paths of the service's own files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
