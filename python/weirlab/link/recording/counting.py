"""Counts the frames of a capture, its only argument, in a separate process.

One line of JSON on standard output: ``packets``, ``not_ip``, ``first_ns``, ``last_ns``, ``cut_short``.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weirlab.base.errors import WeirError

_LOWEST: Final = 19


def main(path: str) -> int:
    """Print the counts, after everything else on this host has had its turn."""
    os.nice(_LOWEST)
    # If memory runs short, the kernel should kill this before the bridge or a recorder.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        print(json.dumps(counted(path)))
    except (WeirError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def counted(path: str) -> dict[str, Any]:
    """Count a file's frames, even if it ends inside one. Raises ``InputError`` if it is no capture."""
    from weirlab._engine import analyse

    found = analyse([path], keep=0)["capture"]
    return {name: found[name] for name in ("packets", "not_ip", "first_ns", "last_ns", "cut_short")}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
