"""Each figure as PNG, SVG and CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, get_args

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.report import bundle, spec
from weirlab.report.figure import Figure
from weirlab.report.palette import LIGHT

Format = Literal["png", "svg", "csv"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

_WIDTH: Final = 760
_SKETCH: Final = (94, 26)
"""Width and height of a sketch in pixels of a page, without the padding around it."""


class Page(Protocol):
    """A page that can be written as one HTML file, and as one file for each figure and format."""

    @property
    def figures(self) -> Sequence[Figure]:
        """The figures, in the order of the page."""

    @property
    def source(self) -> str:
        """The source shown with each figure: device and date."""

    def html(self) -> str:
        """The whole file as text."""


def write_figures(
    figures: Sequence[Figure], dest: Path, formats: Sequence[str] = FORMATS, *, source: str = ""
) -> list[Path]:
    """Write ``figures`` to the folder ``dest``, created if missing; pictures show ``source`` below.

    Returns the files written. Raises ``InputError`` for an unknown format, ``StoreError``
    if ``dest`` cannot be written.
    """
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"plot format '{name}' is not known; choose from {', '.join(FORMATS)}")
    files.make_folder(dest)
    written = []
    for figure in figures:
        for name in formats:
            path = dest / f"{figure.key}.{name}"
            files.write_bytes(path, rendered(figure, name, source))
            written.append(path)
    return written


def rendered(figure: Figure, name: str, source: str = "") -> bytes:
    """One figure in one format."""
    if name == "csv":
        return figure.data.write_csv().encode()
    chart = static(figure, source)
    return bundle.svg(chart).encode() if name == "svg" else bundle.png(chart)


def sketch(figure: Figure) -> bytes:
    """The marks of ``figure`` alone as a small PNG image on no ground, for a list of runs."""
    width, height = _SKETCH
    size = {"width": width, "height": height, "padding": 1, "autosize": "none"}
    ground = {"background": "transparent", "config": {"view": {"stroke": None}}}
    return bundle.png({**spec.bare(figure.spec), **size, **ground})


def static(figure: Figure, source: str = "") -> dict[str, Any]:
    """The figure with its title, on white, at a fixed width."""
    chart = figure.standalone(source)
    chart["width"] = _WIDTH
    chart["config"] = chart["config"] | {"background": LIGHT["paper"], "padding": 16}
    return chart


@dataclass(frozen=True)
class ReportOutcome:
    """The files that were written."""

    run_id: str
    path: Path
    plots: tuple[Path, ...]

    def document(self) -> dict[str, Any]:
        return {"kind": "report", "run_id": self.run_id, "path": self.path, "plots": self.plots}
