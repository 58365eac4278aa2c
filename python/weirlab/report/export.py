"""Each figure as PNG, SVG and CSV files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

from weirlab import files
from weirlab.errors import InputError
from weirlab.report import bundle
from weirlab.report.figure import Figure, draw
from weirlab.report.palette import LIGHT
from weirlab.report.source import Predictor, RunData, Verification, gather

Format = Literal["png", "svg", "csv"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

_WIDTH: Final = 760


def export_plots(
    run: RunData,
    models: Mapping[str, Predictor],
    verification: Verification | None,
    dest: Path,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Write every figure of the report into the folder ``dest``, made if missing.

    Returns the files written. Raises ``InputError`` for an unknown format, ``StoreError``
    when ``dest`` cannot be written.
    """
    return write_figures(draw(gather(run, models, verification)), dest, formats)


def write_figures(figures: Sequence[Figure], dest: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """The same for figures at hand."""
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"plot format '{name}' is not known; choose from {', '.join(FORMATS)}")
    files.make_folder(dest)
    written = []
    for figure in figures:
        for name in formats:
            path = dest / f"{figure.key}.{name}"
            files.write_bytes(path, rendered(figure, name))
            written.append(path)
    return written


def rendered(figure: Figure, name: str) -> bytes:
    """One figure in one format."""
    if name == "csv":
        return figure.data.write_csv().encode()
    chart = static(figure)
    return bundle.svg(chart).encode() if name == "svg" else bundle.png(chart)


def static(figure: Figure) -> dict[str, Any]:
    """The figure with title, on white, of a fixed width."""
    chart = figure.standalone()
    chart["width"] = _WIDTH
    chart["config"] = chart["config"] | {"background": LIGHT["paper"], "padding": 16}
    return chart
