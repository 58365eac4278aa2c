"""A PostgreSQL server of the test's own, on a socket in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

FOLDERS = Path("/usr/lib/postgresql")
_LOOK_S = 0.05


def missing() -> str:
    """Why there can be none; empty if there can."""
    if find_spec("psycopg") is None:
        return "needs psycopg"
    return "" if _binaries() else "needs a PostgreSQL server (Debian's postgresql)"


def _binaries() -> Path | None:
    found = sorted(path.parent for path in FOLDERS.glob("*/bin/initdb"))
    return found[-1] if found else None


@contextmanager
def server() -> Iterator[str]:
    """Its URL, while inside."""
    binaries = _binaries()
    assert binaries is not None
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-", dir="/tmp"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        data = folder / "data"
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "weir", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
            user=user, cwd="/", check=True, capture_output=True,
        )  # fmt: skip
        options = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off")
        log = folder / "log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [binaries / "postgres", "-D", data, *options], user=user, cwd="/", stdout=said, stderr=said
            )
        try:
            _wait_for(data / "postmaster.pid", process, log)
            yield f"postgresql://weir@/postgres?host={folder}"
        finally:
            # An immediate shutdown: it ends all its processes, and saves nothing.
            process.send_signal(signal.SIGQUIT)
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(status: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server takes connections, however long that takes: line 8 of its lock file says so."""
    while True:
        ended = process.poll() is not None
        lines = status.read_text().splitlines() if status.exists() else []
        if len(lines) > 7 and lines[7].strip() == "ready":
            return
        assert not ended, f"PostgreSQL does not run: {log.read_text(errors='replace')}"
        time.sleep(_LOOK_S)
