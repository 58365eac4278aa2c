"""The child process that draws the report of a run, within limits; see :mod:`children`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weirlab.web.child import serve


def _draw(request: dict[str, Any]) -> dict[str, Any]:
    from weirlab.store import Store
    from weirlab.studies.reports import report

    report(Store(Path(request["store"])), request["name"])
    return {}


if __name__ == "__main__":
    serve({"draw": _draw}, "")
