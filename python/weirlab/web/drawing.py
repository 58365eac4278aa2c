"""The child process that draws the report of a run, within limits; see :mod:`children`."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from weirlab.base.confinement import Confinement
from weirlab.web.child import serve


def _draw(request: dict[str, Any]) -> dict[str, Any]:
    from weirlab.store import Store
    from weirlab.studies.reports import report

    folder = Path(request["folder"])
    report(Store(folder.parent), folder.name)
    return {}


if __name__ == "__main__":
    # vl-convert's JavaScript engine reserves much more address space than it uses, and looks for its stack.
    kept = Confinement(read=(Path("/proc/self"),), calls="drawing")
    serve({"draw": _draw}, "", resource.RLIMIT_DATA, kept)
