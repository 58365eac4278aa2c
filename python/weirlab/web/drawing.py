"""The child process that draws the report of a run, or makes the script for charts; see :mod:`children`."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from weirlab.base.confinement import Confinement
from weirlab.web.child import serve


def _draw(request: dict[str, Any]) -> dict[str, Any]:
    from weirlab.store import Store
    from weirlab.store.manifest import MANIFEST_FILE
    from weirlab.studies.reports import report

    folder = Path(request["folder"])
    drawn = b""
    # A run may end, or go on, while its report is drawn.
    while (state := (folder / MANIFEST_FILE).read_bytes()) != drawn:
        report(Store(folder.parent), folder.name)
        drawn = state
    return {}


def _charts(request: dict[str, Any]) -> dict[str, Any]:
    """A script for the page: a worker that draws charts, and ``vegaEmbed`` for those that a user explores."""
    from weirlab.report import bundle, palette

    light, dark = map(palette.css_variables, (palette.LIGHT, palette.DARK))
    style = f":root {{ {light} }} @media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    return {"script": bundle.script_of_worker(style)}


if __name__ == "__main__":
    # vl-convert's JavaScript engine reserves much more address space than it uses, and looks for its stack.
    kept = Confinement(read=(Path("/proc/self"),), calls="drawing")
    serve({"draw": _draw, "charts": _charts}, "", resource.RLIMIT_DATA, kept)
