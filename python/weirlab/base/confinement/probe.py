"""A process that confines itself as those that read captures do, and prints what is in force.

Its argument is a folder that it may write to. The answer is a JSON document: ``measures`` as of
:func:`confinement.enter`, and ``status``, the lines of /proc/self/status afterwards.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from weirlab.base import confinement


def main(folder: str) -> None:
    """Confine this process, and print the result."""
    # Confined, it could no longer open the file.
    with open("/proc/self/status") as about:
        measures = confinement.enter(confinement.Confinement(write=(Path(folder),)))
        lines = [line.partition(":") for line in about.read().splitlines()]
    status = {name: value.strip() for name, _, value in lines}
    print(json.dumps({"measures": measures, "status": status}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
