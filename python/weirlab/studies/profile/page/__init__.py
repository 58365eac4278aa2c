"""What people see of a run: one HTML file, and every figure as PNG, SVG and CSV.

``build`` writes the page, ``export_plots`` the files, ``figures`` gives the charts to
notebooks. All three take a run, its models by name and, optionally, a ``Verification``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from weirlab.model import ErrorRow
from weirlab.report.axes import Chart
from weirlab.report.export import FORMATS, write_figures
from weirlab.studies.profile.page.drawing import draw
from weirlab.studies.profile.page.page import build
from weirlab.studies.profile.page.source import Judgement, Predictor, RunData, Verification, gather


def figures(
    run: RunData, models: Mapping[str, Predictor], verification: Verification | None = None
) -> dict[str, Chart]:
    """The report's charts by name, in its order, styled and titled."""
    return {figure.key: figure.titled() for figure in draw(gather(run, models, verification))}


def export_plots(
    run: RunData,
    models: Mapping[str, Predictor],
    verification: Verification | None,
    dest: Path,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Write every figure into the folder ``dest``, as :func:`weirlab.report.export.write_figures`."""
    return write_figures(draw(gather(run, models, verification)), dest, formats)


__all__ = ["FORMATS", "ErrorRow", "Judgement", "RunData", "Verification", "build", "export_plots", "figures"]
