"""The child process that removes a run, which the page itself may have no right to; see :mod:`children`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from weirlab.base.errors import WeirError
from weirlab.store import Store


def main(store: str, run_id: str) -> None:
    """Remove the run, and answer with nothing or with the reason why not."""
    try:
        Store(Path(store)).remove(run_id)
    except WeirError as error:
        answer = {"error": {"message": str(error), "kind": type(error).__name__}}
    else:
        answer = {}
    os.write(1, json.dumps(answer).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
