"""A PostgreSQL server of the test's own, on a socket in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

FOLDERS = Path("/usr/lib/postgresql")


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
        log = (folder / "log").open("wb")
        options = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off")
        subprocess.run(
            [binaries / "pg_ctl", "-D", data, "-w", "-o", " ".join(options), "start"],
            user=user, cwd="/", check=True, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield f"postgresql://weir@/postgres?host={folder}"
        finally:
            subprocess.run(
                [binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"],
                user=user, cwd="/", check=True, capture_output=True,
            )  # fmt: skip
            log.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
