"""Removes or stops a run, which the page may have no right to: a child process; see :mod:`children`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from weirlab.base.errors import StoreError, WeirError
from weirlab.store import Store, lock
from weirlab.store.manifest import Manifest, host


def main(do: str, store: str, run_id: str) -> None:
    """Change the run, and answer with nothing or with the reason why not."""
    answer: dict[str, Any] = {}
    try:
        if do == "remove":
            Store(Path(store)).remove(run_id)
        else:
            _stop(Path(store) / run_id)
    except WeirError as error:
        answer = {"error": {"message": str(error), "kind": type(error).__name__}}
    os.write(1, json.dumps(answer).encode())


def _stop(run: Path) -> None:
    if (where := Manifest.load(run).host) != host():
        raise StoreError(f"run {run.name} is being written on {where}; stop it there")
    lock.interrupt(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
