"""Writing a file in one step."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from weirlab.errors import StoreError


def written(path: Path, content: bytes) -> Path:
    """Put ``content`` at ``path`` in full or not at all; returns ``path``.

    Raises ``StoreError`` naming ``path`` when it cannot be written.
    """
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
