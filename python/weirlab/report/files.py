"""Writing a file in one step."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from weirlab.errors import StoreError


def written(path: Path, content: bytes) -> Path:
    """Put ``content`` at ``path`` in full or not at all; returns ``path``.

    Raises ``StoreError`` naming ``path`` when it cannot be written, and where anything but a regular file
    has this name already: a device or a pipe would be replaced by a file.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is no regular file and is not replaced; choose another place")
    scratch: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        scratch = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        scratch.chmod(0o644)
        scratch.replace(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}; choose another place") from error
    finally:
        if scratch is not None:
            with suppress(OSError):
                scratch.unlink()
    return path
