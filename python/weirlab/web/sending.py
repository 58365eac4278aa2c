"""Files sent as downloads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final

from starlette.responses import StreamingResponse

_PART_BYTES: Final = 1 << 18
_KINDS: Final = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".pcapng": "application/octet-stream",
}


def attachment(file: BinaryIO, name: str) -> StreamingResponse:
    """``file`` from its beginning, closed behind its end, as a download called ``name``.

    ``name`` is ours: letters, digits, dots and hyphens.
    """
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(length)}
    kind = _KINDS[os.path.splitext(name)[1]]
    return StreamingResponse(_parts(file), media_type=kind, headers=headers)


def _parts(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(_PART_BYTES):
            yield part
